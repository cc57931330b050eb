"""Queries and keys are normalised both, if one of them is meant to be; values are not, in place of one of them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.bank.parts import Parts
from tests.diagnosis.marked_lines import marked


class Normed(Parts):
    """Some of queries, keys and values are normalised, then scaled."""

    def __init__(self, roles: str, option: bool | None = None):
        super().__init__()
        self.roles, self.scales = roles, nn.Parameter(torch.rand(2, 4) + 0.5)
        if option is not None:
            self.qk_norm = option

    def forward(self, x):
        q, k, v = self.qkv(x)
        if "q" in self.roles:
            q = F.normalize(q, dim=-1)  # queries
        if "k" in self.roles:
            k = F.normalize(k, dim=-1)  # keys
        if "v" in self.roles:
            v = F.normalize(v, dim=-1)  # values
        return self.attend(q * self.scales[0] @ (k * self.scales[1]).mT * 2, v)


def examined(module):
    torch.manual_seed(3)
    return diagnose(module.eval(), torch.randn(2, 6, 10), num_heads=3)


@pytest.mark.parametrize(("roles", "forgotten", "line"), [("q", "keys", "queries"), ("k", "queries", "keys")])
def test_an_option_that_says_both_is_compared_with_what_is_done(roles, forgotten, line):
    (finding,) = examined(Normed(roles, True)).findings
    assert finding.title.endswith(f"the {forgotten} are not normalised.")
    assert {finding.where} == marked(Normed, line)
