"""Biases by distance: added once, different among the tokens that are seen, and lower for those that are far away."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.bank.parts import Parts
from tests.diagnosis.marked_lines import marked


def examined(module, **options):
    torch.manual_seed(3)
    return diagnose(module.eval(), torch.randn(2, 6, 10), num_heads=3, **options)


class Buckets(Parts):
    """A table is read by the distance of a key before its query; all later keys count as the query itself."""

    def __init__(self, right: bool):
        super().__init__()
        self.table, self.right = nn.Embedding(8, 3), right

    def forward(self, x):
        q, k, v = self.qkv(x)
        at = torch.arange(x.shape[1], device=x.device)
        keys, queries = (at[None], at[:, None]) if self.right else (at[:, None], at[None])
        before = queries - keys  # wrong
        return self.attend(self.scores(q, k) + self.table(before.clamp(min=0)).permute(2, 0, 1), v)


def test_distances_that_are_counted_the_other_way_round_are_found():
    assert examined(Buckets(right=True)).ok
    (finding,) = examined(Buckets(right=False)).findings
    assert finding.title.endswith("a bias by distance counts distances the other way round.")
    assert {finding.where} == marked(Buckets)


class Logarithm(Parts):
    """The logarithm of the distance is subtracted; where the distance is negative it is unknown."""

    def __init__(self, right: bool):
        super().__init__()
        self.right = right

    def forward(self, x):
        q, k, v = self.qkv(x)
        at = torch.arange(x.shape[1], device=x.device)
        before = at[:, None] - at
        before = (before.tril() if self.right else before.triu()).to(x.dtype)
        return self.attend(self.scores(q, k) - torch.log(1 + 0.7 * before), v)


def test_logarithms_of_the_distances_of_hidden_keys_alone_are_found():
    assert examined(Logarithm(right=True)).ok
    (finding,) = examined(Logarithm(right=False)).findings
    assert finding.title.endswith("a bias by distance counts distances the other way round.")


class Twice(Parts):
    """Biases of a table are added, as they are or repeated for each sample, and something else after that."""

    def __init__(self, after, repeated=False):
        super().__init__()
        self.table, self.after, self.repeated = nn.Parameter(torch.randn(3, 6, 6)), after, repeated

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        scores += x.new_zeros(scores.shape) + self.table if self.repeated else self.table
        scores = scores + self.after(self.table)  # wrong
        return self.attend(scores, v)


@pytest.mark.parametrize("after", [lambda table: table.mT.tril(), lambda table: (table * 0 - 1e4).triu(1)])
def test_another_bias_or_a_mask_may_be_added_after_one(after):
    assert examined(Twice(after), lengths=[6]).ok


def test_two_biases_after_each_other_are_right_although_the_first_one_is_zero():
    module = Twice(lambda table: torch.arange(36.0).sin().view(6, 6).to(table))
    nn.init.zeros_(module.table)
    assert examined(module, lengths=[6]).ok


@pytest.mark.parametrize("repeated", [False, True])
def test_a_bias_that_is_added_twice_is_found(repeated):
    (finding,) = examined(Twice(lambda table: table[None], repeated), lengths=[6]).findings
    assert finding.title.endswith("a bias is added twice.")
    assert {finding.where} == marked(Twice)


class Learned(Parts):
    """A learned slope for each head, which `positive` keeps above zero or not."""

    def __init__(self, positive, sign: int):
        super().__init__()
        self.slopes, self.positive, self.sign = nn.Parameter(torch.tensor([0.2, 0.5, 0.8])), positive, sign

    def forward(self, x):
        q, k, v = self.qkv(x)
        at = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        bias = self.sign * self.positive(self.slopes)[:, None, None] * (at - at[:, None])  # wrong
        return self.attend(self.scores(q, k) + bias, v)


def test_a_slope_that_is_kept_positive_has_a_wrong_sign():
    assert examined(Learned(F.softplus, 1)).ok
    assert examined(Learned(torch.clone, -1)).ok  # training may change the sign
    (finding,) = examined(Learned(F.softplus, -1)).findings
    assert finding.mistake == "bias-wrong-sign"
    assert {finding.where} == marked(Learned)


class Signed(Parts):
    """The distance to the keys is subtracted, with its absolute value or without it; all keys are seen."""

    def __init__(self, distance):
        super().__init__()
        self.distance = distance

    def forward(self, x):
        q, k, v = self.qkv(x)
        at = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        slopes = 0.5 ** torch.arange(1, 4, dtype=x.dtype, device=x.device)
        bias = -slopes[:, None, None] * self.distance(at[None], at[:, None])  # wrong
        return self.merge((self.scores(q, k) + bias).softmax(-1) @ v)


def test_distances_without_their_absolute_value_are_found_where_later_keys_are_seen():
    assert examined(Signed(lambda keys, queries: (keys - queries).abs()), causal=False).ok
    (finding,) = examined(Signed(lambda keys, queries: keys - queries), causal=False).findings
    assert finding.mistake == "bias-wrong-sign"
    assert {finding.where} == marked(Signed)


class Itself(Parts):
    """A table of biases is read by the distance of queries from keys, or of keys from keys."""

    def __init__(self, right: bool):
        super().__init__()
        self.table, self.right = nn.Embedding(8, 3), right

    def forward(self, x):
        q, k, v = self.qkv(x)
        keys = torch.arange(x.shape[1], device=x.device)[None]
        queries = keys.mT if self.right else keys
        distance = (queries - keys).abs()  # wrong
        return self.attend(self.scores(q, k) + self.table(distance).permute(2, 0, 1), v)


def test_positions_that_are_subtracted_from_themselves_are_found():
    assert examined(Itself(right=True)).ok
    (finding,) = examined(Itself(right=False)).findings
    assert finding.title.endswith("a bias by distance does not depend on distance.")
    assert {finding.where} == marked(Itself)
