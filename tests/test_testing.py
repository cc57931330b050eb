"""`assert_attention`, as the tests of other projects use it."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.testing import assert_attention


class Unscaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(11, 7) for _ in range(3))

    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return (self.q(x) @ self.k(x).mT).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ self.v(x)


X = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
def test_right_code_passes():
    report = assert_attention(MultiHeadAttention(11, 21, 3), X, causal=True, num_heads=3)
    assert report.ok and report.checked


def test_wrong_code_fails_with_the_report():
    with pytest.raises(AssertionError) as failed:
        assert_attention(Unscaled(), X)
    said = str(failed.value)
    assert (
        said.startswith("\nUnscaled: one thing is wrong.") and "[missing-scale]" in said and "test_testing.py:" in said
    )
    assert failed.traceback[-1].frame.code.name == "assert_attention"
    assert failed.traceback[-1].ishidden(failed), "pytest shows the line of the test"


def test_what_is_meant_is_not_reported():
    assert not assert_attention(Unscaled(), X, ignore=("missing-scale",)).ok
    with pytest.raises(AssertionError, match="missing-scale"):
        assert_attention(Unscaled(), X, ignore=("wrong-scale",))
    with pytest.raises(ValueError, match="ignore must hold ids of the catalogue of mistakes, got 'no-scale'"):
        assert_attention(Unscaled(), X, ignore=("no-scale",))


def test_code_that_can_not_be_run_fails():
    with pytest.raises(AssertionError, match="It could not be run"):
        assert_attention(lambda x: x.view(7), X)


def test_its_import_brings_no_torch():
    words = "import sys, course_lib.testing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words]).returncode == 0
