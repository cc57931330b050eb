"""Biases by distance: added once, different among the tokens that are seen, and lower for those that are far away."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.bank.parts import Parts
from tests.diagnosis.marked_lines import marked


def examined(module, **options):
    torch.manual_seed(3)
    return diagnose(module.eval(), torch.randn(2, 6, 10), num_heads=3, **options)


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


@pytest.mark.parametrize("repeated", [False, True])
def test_a_bias_that_is_added_twice_is_found(repeated):
    (finding,) = examined(Twice(lambda table: table[None], repeated), lengths=[6]).findings
    assert finding.title.endswith("a bias is added twice.")
    assert {finding.where} == marked(Twice)


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
