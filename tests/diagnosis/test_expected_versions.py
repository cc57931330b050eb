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


@pytest.mark.parametrize(
    ("old", "new", "source"),
    [
        ("q, k, v = parts", "k, q, v = parts", "k, q, v = parts.permute(2, 0, 3, 1, 4).unbind(0)"),
        ("torch.arange(width) / width", "torch.arange(width) / 9", "speeds = 100.0 ** -(torch.arange(width) / 9)"),
        (".sigmoid()", "", "merged = merged * self.gate(x)"),
        ("            self.proj(merged)", "            -self.proj(merged)", "-self.proj(merged)"),
    ],
)
def test_the_changed_line_is_pointed_at_wherever_its_value_is_read(examined, old, new, source):
    finding = examined((old, new))
    assert finding.source == source, finding
    right = next(line for line in RIGHT.splitlines() if old in line).strip()
    assert f"in place of {finding.where} `expect` has `{right}`" in finding.evidence


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


def test_of_several_changes_the_one_that_the_first_wrong_value_comes_from_is_chosen(examined):
    finding = examined(
        (
            "return torch.sin(torch.arange(length)[:, None] * speeds)",
            "return (torch.arange(length)[:, None] * speeds).sin()",
        ),
        ("(weights @ v).transpose(1, 2).flatten(2)", "torch.matmul(weights, v).transpose(1, 2).flatten(2)"),
        ("q @ k.mT * 0.5", "k @ q.mT * 0.5"),
    )
    assert "k @ q.mT" in finding.source, finding


def test_the_one_change_explains_a_mistake_that_is_seen_elsewhere(examined):
    finding = examined(
        ("(later, -torch.inf).softmax(-1)", "(later, -torch.inf)"), ("(weights @ v)", "(scores.softmax(-1) @ v)")
    )
    assert finding.mistake == "mask-discarded" and "no other line differs" not in finding.evidence
    finding = examined(("merged = (weights @ v).transpose(1, 2).flatten(2)", "merged = (weights @ v).reshape(x.shape)"))
    assert finding.mistake == "merge-without-transpose" and ".reshape(x.shape)" in finding.source
    finding = examined(
        (
            "q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)",
            "q, k, v = parts.permute(2, 0, 3, 1, 4)[[0, 1, 1]].unbind(0)",
        )
    )
    assert finding.mistake == "projection-reused" and "[[0, 1, 1]]" in finding.source, finding


def test_a_reference_in_another_style_is_compared_by_its_values_alone(tmp_path):
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.gate, self.proj = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 12)
            self.norm = nn.LayerNorm(12)
            self.register_buffer("table", table)

        def forward(self, x):
            x = x + self.table[: x.shape[1]].to(x.dtype)
            q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
            merged = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            return self.norm(self.proj(merged * torch.sigmoid(self.gate(x))))

    wrong = attention_of(tmp_path / "wrong.py", RIGHT.replace(".sigmoid()", ".tanh()"))
    table = wrong.table
    (finding,) = diagnose(wrong, torch.randn(2, 5, 12), expect=Other(), num_heads=3).findings
    assert "self.gate(x).tanh()" in finding.source and "in place of" not in finding.evidence


class Biased(nn.Module):
    """Attention that gets a bias of its scores, for x of any number of samples."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x, bias):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).movedim(-3, 0).transpose(-2, -3)
        weights = (q @ k.mT * 0.5 + bias).softmax(-1)
        return self.proj((weights @ v).transpose(-2, -3).flatten(-2))


def bias_of(x, slope):
    """Return the bias of far tokens, (query, key), which hides later ones."""
    tokens = torch.arange(x.shape[-2], device=x.device)
    apart = (tokens[:, None] - tokens).to(x.dtype)
    return (apart.abs() * -slope).masked_fill(apart < 0, -torch.inf)


def half(x):
    return bias_of(x, 0.5)


def quarter(x):
    return bias_of(x, 0.25)


@pytest.mark.parametrize("shape", [(2, 5, 12), (5, 12)])
def test_what_the_caller_makes_is_compared_where_the_reference_has_a_call_of_its_own(shape):
    module, x = Biased(), torch.randn(shape)
    right, wrong = (lambda code, x, bias=bias: code(x, bias(x)) for bias in (half, quarter))
    assert diagnose(module, x, call=wrong, expect=Biased(), num_heads=3).ok, "both get the same bias"
    assert diagnose(module, x, call=right, expect=(Biased(), right), num_heads=3).ok
    (finding,) = diagnose(module, x, call=wrong, expect=(Biased(), right), num_heads=3).findings
    assert finding.title.endswith("it does not compute what `expect` computes."), finding
    assert "test_expected_versions.py" in finding.where and "apart.abs() * -slope" in finding.source, finding


def test_a_call_of_the_reference_must_be_a_function():
    with pytest.raises(TypeError, match=re.escape("expect=(reference, call) needs a function of (code, x) as call")):
        diagnose(Biased(), torch.randn(2, 5, 12), expect=(Biased(), 3))
