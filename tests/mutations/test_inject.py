"""A mistake that is planted into somebody's code gives what the table of wrong steps computes, on the line it names."""

import re

import pytest
import torch

from course_lib.mutations import MADE, RIGHT, WRONG_STEPS, edited, inject
from tests.diagnosis.bank.weights import run
from tests.diagnosis.test_wrong_steps import weights_of

from .right_attention import RightAttention

X = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OTHERS = {  # what one edit of this class can't be, or what is no other number
    *("returns-none", "device-pinned", "dropout-at-eval", "nan-on-hidden-rows", "split-without-transpose"),
    *("kv-heads-tiled", "projection-reused", "no-softmax"),
}


def built(code, num_kv_heads=3):
    torch.manual_seed(1)
    module = code(11, 42, 6, num_kv_heads).double().requires_grad_(False)
    module.q_proj.weight *= 4
    module.num_heads, module.head_dim = 6, 7
    return module


def outputs_of_table(mistake, module):
    weights = weights_of(module)
    rows = [wrong for wrong in WRONG_STEPS if mistake in wrong.mistakes]
    return [run(wrong.attention, weights, X).nan_to_num() for wrong in rows]


@pytest.mark.parametrize("mistake", sorted(set(MADE) - OTHERS))
def test_what_is_planted_is_what_the_table_computes(mistake):
    made = inject(RightAttention, mistake)
    expected = outputs_of_table(mistake, built(RightAttention))
    output = built(made.code)(X).nan_to_num()
    assert any(torch.allclose(output, other, rtol=0, atol=1e-10) for other in expected)


def test_the_right_class_is_right_and_stays_so():
    before = built(RightAttention)(X)
    inject(RightAttention, "no-softmax")
    torch.testing.assert_close(built(RightAttention)(X), before, rtol=0, atol=0)
    torch.testing.assert_close(before, run(RIGHT, weights_of(built(RightAttention)), X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mistake", sorted(OTHERS - {"dropout-at-eval", "nan-on-hidden-rows"}))
def test_a_mistake_without_a_number_in_the_table_changes_its_line_alone(mistake):
    made = inject(RightAttention, mistake)
    right = inject(RightAttention, "no-softmax").source.replace("weights = scores", "weights = scores.softmax(dim=-1)")
    changed = [
        number
        for number, lines in enumerate(zip(right.splitlines(), made.source.splitlines(), strict=True), 1)
        if lines[0] != lines[1]
    ]
    assert changed == [made.line] and made.source.splitlines()[made.line - 1].strip() == made.text
    assert "# the future" in made.source


def test_each_place_has_its_number():
    lines = [inject(RightAttention, "kv-heads-tiled", at=at).line for at in range(2)]
    assert lines[1] == lines[0] + 1
    with pytest.raises(ValueError, match=r"at is 2, but RightAttention has 2 such places for 'kv-heads-tiled'"):
        inject(RightAttention, "kv-heads-tiled", at=2)


def test_a_file_is_read_and_not_changed(tmp_path):
    path = tmp_path / "attention.py"
    path.write_text("def f(s):\n    # é\n    return s.softmax(-1)\n", encoding="utf-8")
    made = inject(path, "no-softmax")
    assert made.code is None and made.line == 3 and made.text == "return s" and "softmax" in path.read_text("utf-8")


def test_what_can_not_be_planted_is_said():
    with pytest.raises(ValueError, match=re.escape("mistake is 'stale-cache', which no operator makes; these can be")):
        inject(RightAttention, "stale-cache")
    with pytest.raises(ValueError, match="has 0 such places for 'dropout-at-eval'"):
        inject(RightAttention, "dropout-at-eval")
    with pytest.raises(TypeError, match="code must be a class, a function or the path of a file, got a int"):
        inject(3, "no-softmax")


def test_an_edit_replaces_text():
    assert edited("a = b + c\n", "b + c => c && a => d") == "d = c\n"
    assert edited("return x / n", " / n => ") == "return x"
    with pytest.raises(ValueError, match=r"edit replaces 'z', which the source does not have"):
        edited("x", "z => y")
    with pytest.raises(ValueError, match="without an arrow"):
        edited("x", "x -> y")


def test_a_class_without_source_is_refused():
    scope = {}
    exec("class Typed:\n    def forward(self, scores):\n        return scores.softmax(dim=-1)", scope)
    with pytest.raises(ValueError, match="the source of Typed can't be read: define it in a file or in a notebook's"):
        inject(scope["Typed"], "no-softmax")
