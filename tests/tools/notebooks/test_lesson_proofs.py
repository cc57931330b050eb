"""The proof at the end of a lesson refuses heads that are wrong only in one size."""

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.exercises import ALL

SOURCES = Path(__file__).resolve().parents[3] / "notebooks" / "sources"
SCALE = "queries.shape[-1] ** 0.5"


def prove(lesson, name, old="", new=""):
    """Run the lesson's proof with the course's head, in which `new` stands in place of `old`."""
    source = inspect.getsource(ALL[name].solution)
    assert old in source
    (cell,) = (
        cell
        for cell in (SOURCES / f"{lesson}.py").read_text("utf-8").split("\n# %%")
        if "assert_close(my_" in cell and f"{name}(" in cell
    )
    namespace = {"torch": torch, "nn": nn, "device": torch.device("cpu")}
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


def test_a_mask_for_six_tokens_is_refused():
    with pytest.raises(RuntimeError, match="must match the size"):
        prove("02_masks_and_dropout", "MyCausalHead", "(num_tokens, num_tokens,", "(6, 6,")
