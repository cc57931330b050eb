"""Attention of unusual shapes is examined: what is right is called right, and what is wrong is found."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, HEAD_DIM, D = 3, 4, 12
X = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Projections of queries, keys and values, and of the heads' results."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(-2, -3)

    def attend(self, queries, keys, values, scale=HEAD_DIM**-0.5):
        q, k, v = self.split(self.to_q(queries)), self.split(self.to_k(keys)), self.split(self.to_v(values))
        return self.to_out(((q @ k.mT * scale).softmax(-1) @ v).transpose(-2, -3).flatten(-2))


# --- weights that are zeros before training ---


class ZeroInit(Base):
    """A residual block whose output projection, or the scale of whose branch, is 0 before training."""

    def __init__(self, zero, scale=HEAD_DIM**-0.5):
        super().__init__()
        self.scale, self.gamma = scale, nn.Parameter(torch.zeros(D) if zero == "gamma" else torch.ones(D))
        if zero == "to_out":
            nn.init.zeros_(self.to_out.weight)

    def forward(self, x):
        return x + self.gamma * self.attend(x, x, x, self.scale)


@pytest.mark.parametrize("zero", ["to_out", "gamma"])
def test_weights_that_are_zeros_are_examined_with_random_numbers(zero):
    report = diagnose(ZeroInit(zero), X, num_heads=HEADS, causal=False)
    assert report.ok and any(f"`{zero}" in one and "all zeros" in one for one in report.remarks), report
    report = diagnose(ZeroInit(zero, scale=D**-0.5), X, num_heads=HEADS, causal=False)
    assert [finding.mistake for finding in report.findings] == ["wrong-scale"], report


class Unmixed(ZeroInit):
    def forward(self, x):
        self.attend(x, x, x)
        return x + self.gamma * self.to_out(self.to_v(x))


def test_weights_that_are_not_applied_are_found_among_zeros():
    report = diagnose(Unmixed("to_out"), X, num_heads=HEADS, causal=False)
    assert "weights-not-applied" in [finding.mistake for finding in report.findings], report


class NoTensor(Base):
    """Gives PyTorch's function an empty tensor on the CPU in place of weights that it doesn't read."""

    def forward(self, x):
        x = x.transpose(0, 1)
        parts = {f"{name}_proj_weight": getattr(self, f"to_{name}").weight for name in "qkv"}
        biases = torch.cat([self.to_q.bias, self.to_k.bias, self.to_v.bias])
        output, _ = F.multi_head_attention_forward(
            x, x, x, D, HEADS, torch.empty([0]), biases, None, None, False, 0.0, self.to_out.weight,
            self.to_out.bias, use_separate_proj_weight=True, need_weights=False, **parts,
        )  # fmt: skip
        return output.transpose(0, 1)


def test_a_tensor_without_elements_may_stand_for_none_on_the_cpu():
    assert diagnose(NoTensor(), X, num_heads=HEADS, causal=False).ok
