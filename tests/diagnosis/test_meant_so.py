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


class Base(nn.Module):
    """Builds more than each class that derives from it uses."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.place = (nn.Linear(D, D) for _ in range(5))


class WithoutPlaces(Base):
    def forward(self, x):
        return self.o(attend(self.q(x), self.k(x), self.v(x)))


def test_a_layer_of_a_base_class_may_be_meant_for_other_classes():
    report = diagnose(WithoutPlaces(), X)
    assert report.ok, report
    assert any("`place` is built by `Base` and not used" in one for one in report.remarks), report


def test_a_layer_that_the_running_class_builds_is_still_missed():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o, self.place = (nn.Linear(D, D) for _ in range(5))

        def forward(self, x):
            return self.o(attend(self.q(x), self.k(x), self.v(x)))

    class Renamed(Own):
        """Whose base class builds and runs."""

    assert diagnose(Own(), X).mistakes == diagnose(Renamed(), X).mistakes == ("dead-parameter",)


class BeforeTheKernel(nn.Module):
    """Keeps the softmax, or another activation, of an older version of its lines."""

    def __init__(self, left):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.left = left

    def forward(self, x):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(heads.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("left", "mistakes"), [(nn.Softmax(-1), ()), (nn.GELU(), ("dead-parameter",))])
def test_the_softmax_of_a_fused_kernel_stands_in_for_a_layer(left, mistakes):
    assert diagnose(BeforeTheKernel(left), X).mistakes == mistakes


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


class Rotary(nn.Module):
    """Rotary positions whose tables are kept in a narrow dtype."""

    def __init__(self, dtype, error=1.0):
        super().__init__()
        self.qkv, self.o = nn.Linear(24, 72), nn.Linear(24, 24)
        angles = torch.outer(torch.arange(32), 10000 ** -(torch.arange(0, 8, 2) / 8)).repeat(1, 2)
        self.register_buffer("cos", angles.cos().to(dtype))
        self.register_buffer("sin", (angles * error).sin().to(dtype))

    def turn(self, t):
        first, second = t.chunk(2, -1)
        cos, sin = (table[: t.shape[1], None].to(t.dtype) for table in (self.cos, self.sin))
        return t * cos + torch.cat([-second, first], -1) * sin

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = (self.turn(one.unflatten(-1, (HEADS, -1))).flatten(2) for one in (q, k))
        return self.o(attend(q, k, v))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rotary_tables_may_be_rounded(dtype):
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(1))
    assert diagnose(Rotary(dtype), x).ok
    assert diagnose(Rotary(dtype, error=1.5), x).mistakes == ("rotary-wrong-turn",)


class Slots(nn.Module):
    """Slots that a recurrent cell updates after each of three attentions."""

    def __init__(self, *, last=True):
        super().__init__()
        self.last = last
        self.slots = nn.Parameter(torch.randn(1, 4, D))
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))
        self.cell = nn.GRUCell(D, D)

    def forward(self, x):
        k, v, slots = self.k(x), self.v(x), self.slots.expand(len(x), -1, -1).to(x.dtype)
        for _ in range(3):
            weights = (self.q(slots) @ k.mT / math.sqrt(D)).softmax(-1)
            seen = weights @ v
            slots = self.cell(seen.flatten(0, 1), slots.flatten(0, 1)).view(slots.shape)
        return slots if self.last else seen


@pytest.mark.parametrize("last", [True, False])
def test_the_gates_of_a_recurrent_cell_act_in_the_next_pass(last):
    report = diagnose(Slots(last=last), X, causal=False)
    assert report.ok and len(report.attentions) == 3, report


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


class WeightsOfEachFeature(nn.Module):
    """Attention of 3 heads in which each of the 5 features of x is a value, read by all heads."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.out = nn.Linear(5, 12), nn.Linear(5, 12), nn.Linear(15, 7)

    def forward(self, x):
        q, k = (layer(x).unflatten(-1, (3, 4)).transpose(1, 2) for layer in (self.q, self.k))
        scores = (q @ k.mT / 2).unsqueeze(-1).repeat_interleave(5, dim=-1)  # (b, h, q, k, feature)
        context = (scores.softmax(dim=-2) * x[:, None, None]).sum(dim=-2)  # (b, h, q, feature)
        return self.out(context.transpose(1, 2).flatten(2))


def test_values_that_all_heads_read_are_no_tiled_kv_heads():
    report = diagnose(WeightsOfEachFeature(), torch.randn(2, 6, 5), causal=False)
    assert "kv-heads-tiled" not in report.mistakes and report.exit_status != 1, report.in_words()
