"""The proof at the end of a lesson refuses heads that are wrong only in one size."""

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttentionWrapper
from course_lib.exercises import ALL

SOURCES = Path(__file__).resolve().parents[3] / "notebooks" / "sources"
SCALE = "queries.shape[-1] ** 0.5"


def heads_of_lesson_03():
    """What the proof of lesson 03 finds in the cells above it."""
    head = ALL["MyCausalHead"].solution
    torch.manual_seed(4)
    head_0, head_1 = head(3, 4), head(3, 4)
    for one in (head_0, head_1):
        one.q_proj.weight.data *= 4
        one.k_proj.weight.data *= 4
    names = {"MyCausalHead": head, "MultiHeadAttentionWrapper": MultiHeadAttentionWrapper, "d_in": 3, "d_out": 8}
    return {"head_0": head_0, "head_1": head_1, "out_proj": nn.Linear(8, 8, bias=False), "num_heads": 2, **names}


def prove(lesson, name, old="", new=""):
    """Run the lesson's proof with the course's head, in which `new` stands in place of `old`."""
    source = inspect.getsource(ALL[name].solution)
    assert old in source
    (cell,) = (cell for cell in (SOURCES / f"{lesson}.py").read_text("utf-8").split("\n# %%") if "def proof(" in cell)
    namespace = {"torch": torch, "nn": nn, "device": torch.device("cpu")} | heads_of_lesson_03()
    exec(source.replace(old, new), namespace)
    exec(cell, namespace)


@pytest.mark.parametrize(
    ("lesson", "name"), [("01_single_head", "MyHead"), ("02_masks_and_dropout", "MyCausalHead")], ids=("01", "02")
)
class TestProof:
    def test_the_right_head_passes(self, lesson, name, capsys):
        prove(lesson, name)
        assert capsys.readouterr().out.startswith("equal: ")

    @pytest.mark.parametrize(
        "scale", ["len(x) ** 0.5", "x.shape[1] ** 0.5", "x.shape[2] ** 0.5", "2 ** 0.5", "6 ** 0.5", "1"]
    )
    def test_a_wrong_scale_is_refused(self, lesson, name, scale):
        with pytest.raises(AssertionError, match="not close"):
            prove(lesson, name, SCALE, scale)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[head(x) for head in self.heads]", "[head(x) for head in self.heads][::-1]"),
        ("[head(x) for head in self.heads]", "[self.heads[0](x), self.heads[0](x)]"),
        ("return self.out_proj(joined)", "return joined"),
    ],
)
def test_a_wrong_wrapper_is_refused(old, new):
    with pytest.raises(AssertionError, match="not close"):
        prove("03_wrapper", "MyWrapper", old, new)


@pytest.mark.parametrize(
    ("lesson", "name", "old", "new"),
    [
        ("01_single_head", "MyHead", SCALE, "7 ** 0.5"),
        ("01_single_head", "MyHead", "scores.softmax", "scores.clamp(max=1000).softmax"),
        ("01_single_head", "MyHead", "self.k_proj(x), self.v_proj(x)", "self.k_proj(x[:, :5]), self.v_proj(x[:, :5])"),
        ("02_masks_and_dropout", "MyCausalHead", ".tril()", ".tril(0 if num_tokens < 6 else 1)"),
        ("02_masks_and_dropout", "MyCausalHead", "-torch.inf", "-1e3"),
        ("03_wrapper", "MyWrapper", "in self.heads]", "in (self.heads if len(self.heads) < 3 else self.heads[::-1])]"),
        ("03_wrapper", "MyWrapper", "range(num_heads)", "range(2)"),
    ],
)
def test_the_ways_past_a_proof_that_a_lesson_names_lead_past_it(lesson, name, old, new, capsys):
    prove(lesson, name, old, new)
    assert capsys.readouterr().out.startswith(("equal: ", "all three agree"))


def test_a_mask_for_six_tokens_is_refused():
    with pytest.raises(RuntimeError, match="must match the size"):
        prove("02_masks_and_dropout", "MyCausalHead", "(num_tokens, num_tokens,", "(6, 6,")
