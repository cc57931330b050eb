"""Right code that was once accused, because only its author's choice, or its caller's, explains it."""

import math

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(2)

D, HEADS = 12, 3
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))


def attend(q, k, v):
    """Causal attention of (batch, token, width)."""
    q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (q, k, v))
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later, -torch.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


class Shared(nn.Module):
    """Queries and keys of one projection, if the caller wishes it."""

    def __init__(self, same, *, build=False):
        super().__init__()
        self.same = same
        if build or not same:
            self.own = nn.Linear(D, D)
        self.k, self.v = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        if not self.same:  # noqa: SIM108
            q = self.own(x)
        else:
            q = self.k(x)
        return attend(q, self.k(x), self.v(x))


class SharedInALine(Shared):
    def forward(self, x):
        q = self.k(x) if self.same else self.own(x)
        return attend(q, self.k(x), self.v(x))


@pytest.mark.parametrize("cls", [Shared, SharedInALine])
def test_queries_and_keys_may_share_a_projection_by_choice(cls):
    report = diagnose(cls(same=True), X)
    assert report.ok and any("queries and keys share a projection, because of" in one for one in report.remarks), report
    assert diagnose(cls(same=False), X).ok
    assert diagnose(cls(same=True, build=True), X).mistakes == ("projection-reused",), "its own one is built and idle"


class Cached(nn.Module):
    """Attention that keeps its keys, where a method prepares room for them."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))

    def prepare(self, batch, tokens, device=None):
        self.kept = torch.zeros(batch, tokens, D, dtype=self.k.weight.dtype, device=device)

    def prepare_on_gpu(self, batch, tokens, device="cuda"):
        self.prepare(batch, tokens, device)

    def forward(self, x):
        self.kept[:, : x.shape[1]] = self.k(x)
        return attend(self.q(x), self.kept[:, : x.shape[1]], self.v(x))


def prepared_on_gpu(module, x):
    module.prepare_on_gpu(*x.shape[:2])
    return module(x)


@pytest.mark.skipif(torch.cuda.is_available(), reason="then it runs")
def test_a_device_that_call_could_give_is_no_mistake_of_the_code():
    report = diagnose(Cached(), X, call=prepared_on_gpu)
    (finding,) = report.findings
    assert report.exit_status == 2 and "let `call` give `prepare_on_gpu` the device of x" in finding.evidence
