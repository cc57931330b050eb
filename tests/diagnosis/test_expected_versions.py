"""`expect` where code and reference are two versions of one text, and where they are called in different ways."""

import importlib.util
import re

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(3)

RIGHT = '''
import torch
from torch import nn


def table_of(width, length):
    """Return positions, (length, width)."""
    speeds = 100.0 ** -(torch.arange(width) / width)
    return torch.sin(torch.arange(length)[:, None] * speeds)


class Attention(nn.Module):
    """Causal attention with positions and a gate."""

    def __init__(self):
        super().__init__()
        self.qkv, self.gate, self.proj = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 12)
        self.norm = nn.LayerNorm(12)
        self.register_buffer("table", table_of(12, 9))

    def forward(self, x):
        x = x + self.table[: x.shape[1]].to(x.dtype)
        parts = self.qkv(x).unflatten(-1, (3, 3, 4))
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.mT * 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        merged = (weights @ v).transpose(1, 2).flatten(2)
        merged = merged * self.gate(x).sigmoid()
        return self.norm(
            self.proj(merged)
        )
'''


def attention_of(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    return module.Attention()


@pytest.fixture
def examined(tmp_path):
    """Return a function of what is wrong, as texts to replace, and the finding with the right version."""

    def examine(*changes, **options):
        wrong = RIGHT
        for old, new in changes:
            assert wrong.count(old) == 1
            wrong = wrong.replace(old, new)
        right, module = (
            attention_of(tmp_path / "right.py", RIGHT),
            attention_of(tmp_path / f"wrong{len(changes[0][1])}.py", wrong),
        )
        (finding,) = diagnose(module, torch.randn(2, 5, 12), expect=right, num_heads=3, **options).findings
        return finding

    return examine


def test_what_is_missing_is_told_at_the_line_before_it(examined):
    lost = "        merged = merged * self.gate(x).sigmoid()\n"
    finding = examined((lost, ""))
    assert finding.source.startswith("merged = (weights @ v)")
    assert f"below {finding.where} `expect` also has `{lost.strip()}`" in finding.evidence


def test_other_comments_and_texts_are_no_changes(examined):
    finding = examined(
        ("Causal attention with", "This class has"),
        ("scores = q @ k.mT * 0.5", "scores = q @ k.mT * 0.5  # scaled"),
        ("torch.arange(width) / width", "torch.arange(width) / 9"),
    )
    assert "torch.arange(width) / 9" in finding.source


class Biased(nn.Module):
    """Attention that gets a bias of its scores, for x of any number of samples."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x, bias):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).movedim(-3, 0).transpose(-2, -3)
        weights = (q @ k.mT * 0.5 + bias).softmax(-1)
        return self.proj((weights @ v).transpose(-2, -3).flatten(-2))


def test_a_call_of_the_reference_must_be_a_function():
    with pytest.raises(TypeError, match=re.escape("expect=(reference, call) needs a function of (code, x) as call")):
        diagnose(Biased(), torch.randn(2, 5, 12), expect=(Biased(), 3))
