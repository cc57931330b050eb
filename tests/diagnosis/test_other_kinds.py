"""What the code says of itself counts only as far as it proves a mistake: remarks, twins and the parts of layers."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

from .bank.other_kinds import CASES
from .bank.parts import Parts

X = torch.randn(2, 6, 10, generator=torch.Generator().manual_seed(0))


def made(name):
    return next(one for one in CASES if one.name == name).make()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("packed_weights_taken_apart_in_another_order", "`to_qkv.weight` says queries, keys, values; its columns"),
        ("keys_and_values_of_a_latent_split_in_another_order", "`kv_up.weight` says keys, values; its columns"),
    ],
)
def test_packed_weights_in_another_order_are_remarked_on(name, said):
    module, x, options = made(name)
    report = diagnose(module, x, **options)
    assert report.ok and any(one.startswith(said) for one in report.remarks), report.remarks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packed_as_it_is_called", "packed_in_the_order_of_its_local_name"])
def test_packed_weights_in_their_order_are_not(name):
    module, x, options = made(name)
    assert not any("columns are used" in one for one in diagnose(module, x, **options).remarks)


class Placed(Parts):
    """Takes places that it does not use, because its caller gives them to modules of every class."""

    def forward(self, x, places):
        q, k, v = self.qkv(x)
        return self.attend(self.scores(q, k), v)


def test_an_argument_that_is_not_used_counts_beside_its_twin_only():
    table = torch.randn(1, 8, 12, generator=torch.Generator().manual_seed(5))
    report = diagnose(Placed(), X, num_heads=3, call=lambda code, x: code(x, table[:, : x.shape[1]].to(x)))
    assert report.ok, report


class Block(nn.Module):
    """A layer whose second norm is built and whose first one serves twice."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = Parts(), nn.Linear(10, 10)
        self.before, self.after = nn.LayerNorm(10), nn.LayerNorm(10)
        self.bias = nn.Parameter(torch.zeros(10))  # kept for another module

    def forward(self, x):
        q, k, v = self.attn.qkv(self.before(x))
        x = x + self.attn.attend(self.attn.scores(q, k), v)
        return x + self.mlp(self.before(x))


@pytest.mark.slow
def test_a_norm_that_no_line_uses_is_found_in_each_layer_and_told_once():
    report = diagnose(nn.Sequential(Block(), Block()), X, num_heads=3)
    assert report.mistakes == ("dead-parameter",), report
    finding = report.findings[0]
    said = "in all 2 attentions: `after` is built and no line uses it, while 2 lines use `before`"
    assert finding.evidence == said, report
    assert finding.source == "return x + self.mlp(self.before(x))"
