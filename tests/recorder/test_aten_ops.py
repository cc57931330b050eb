"""The ATen operations of each step are what PyTorch's dispatcher sees when the whole code runs under it."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
)
from course_lib.recorder import record

X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
MODES = {
    "gradients": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}
THEIRS = nn.MultiheadAttention(12, 2, batch_first=True)
CODE = {
    "weight split": MultiHeadAttention(12, 21, 3, dropout=0.3),
    "in eval": MultiHeadAttention(12, 21, 3, dropout=0.3).eval(),
    "fused": MultiHeadAttention(12, 21, 3, kernel="fused"),
    "wrapper": MultiHeadAttentionWrapper(12, 21, 3),
    "multi-query": MultiQueryAttention(12, 21, 3, bias=True),
    "grouped": GroupedQueryAttention(12, 42, 6, num_kv_heads=3),
    "nn.MultiheadAttention": lambda x: THEIRS(x, x, x)[0],
    "broadcast": lambda x: x[:, None, :, :] @ x[:1, None, :, :].mT,
    "einsum": lambda x: torch.einsum("bqm,bkm->bqk", x, x),
    "in place": lambda x: (x + 1).masked_fill_(x > 0, 0.0).transpose(1, 2).add_(1),
    "set an index": lambda x: _set(x.clone()),
}


def _set(x):
    x[:, 1:] = 3.0
    return x


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.ops += [func.overloadpacket.__name__] * (len(result) if isinstance(result, (tuple, list)) else 1)
        return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", CODE)
def test_expanding_step_by_step_gives_what_the_whole_run_gives(code, mode):
    with MODES[mode](), Seen() as seen:
        CODE[code](X)
    with MODES[mode]():
        recording = record(CODE[code], X)
    steps = [step for step in recording if not (step.part and step.part[0])]
    below = [aten_op.op for step in steps for aten_op in step.aten_ops]
    if mode == "autocast":  # within a region, PyTorch casts a parameter once and keeps the copy; a step alone casts it
        below, seen.ops = ([op for op in ops if op not in ("_to_copy", "detach")] for ops in (below, seen.ops))
    without = ("item", "_local_scalar_dense")
    assert [op for op in below if op not in without] == [op for op in seen.ops if op not in without]


def test_the_copy_in_a_reshape_and_its_bytes():
    (_, reshape) = record(lambda x: x.transpose(1, 2).reshape(2, 60), X).steps
    clone, view = reshape.aten_ops
    assert (clone.op, clone.effect, clone.nbytes) == ("clone", "copy", 2 * 60 * 4)
    assert (view.op, view.effect, view.nbytes) == ("_unsafe_view", "view", 0)


def test_the_stride_of_zero_and_the_copies_in_a_broadcast_product():
    queries, keys = torch.randn(2, 3, 1, 7), torch.randn(2, 1, 7, 5)
    (product,) = record(torch.matmul, queries, keys).steps
    expanded = next(aten_op for aten_op in product.aten_ops if aten_op.op == "expand" and 0 in aten_op.stride)
    assert expanded.shape == (2, 3, 7, 5) and expanded.stride[1] == 0
    clone = next(aten_op for aten_op in product.aten_ops if aten_op.op == "clone")
    assert clone.nbytes == 3 * keys.numel() * 4


def test_asking_for_aten_ops_changes_nothing():
    def forward(x):
        y = x + 1
        half = y[:, :2]
        half.mul_(0.0)
        return F.dropout(y, 0.5, True)

    recording = record(forward, X)
    before = [step.tensor.clone() for step in recording]
    state = torch.get_rng_state()
    (in_place,) = (step.aten_ops for step in recording if step.effect == "in-place")
    assert [step.op for step in in_place] == ["mul_"] and in_place[0].effect == "in-place"
    assert all(step.aten_ops for step in recording)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(step.tensor, kept) for step, kept in zip(recording, before, strict=True))


def test_views_of_one_memory_stay_views_of_it_in_a_second_run():
    def forward(x):
        y = x.clone()
        y[:, :2].copy_(y[:, 2:4])
        return y

    (in_place,) = (step for step in record(forward, X) if step.effect == "in-place")
    assert [aten_op.op for aten_op in in_place.aten_ops] == ["copy_"]


def test_in_place_calls_are_looked_into_on_fake_and_meta_tensors():
    def change(x):
        y = x.clone()
        y.t()[:, ::2].add_(1)
        return y

    found = {}
    with FakeTensorMode():
        found["fake"] = [step.aten_ops for step in record(change, torch.ones(4, 4)).steps]
    for device in ("cpu", "meta"):
        found[device] = [step.aten_ops for step in record(change, torch.ones(4, 4, device=device)).steps]
    assert found["fake"] == found["meta"] == found["cpu"]
    (added,) = found["cpu"][-1]
    assert (added.op, added.stride, added.effect) == ("add_", (1, 8), "in-place")
