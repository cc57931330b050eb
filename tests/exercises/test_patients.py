"""The patients of sheet 15 have the mistakes that the doctor finds in them, and lesson 15 shows none of these."""

import contextlib
import io
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from course_lib.exercises import EXERCISES
from tools.notebooks.notebook_file import read_ipynb

LESSON = Path(__file__).resolve().parents[2] / "notebooks/15_debugging_attention.ipynb"
PATIENTS = {"patient_a": (7, 24, 6), "patient_b": (7, 24, 6), "patient_c": (7, 24, 6, 2)}


def found_in(name):
    """Return the ids of the mistakes that the doctor finds in a patient, the likeliest first."""
    names = {"torch": torch, "nn": nn, "F": F}
    exec(EXERCISES[name].given, names)
    sizes = PATIENTS[name]
    module = names[name.title().replace("_", "")](*sizes)
    report = diagnose(module, torch.randn(2, 5, 7), causal=True, num_heads=6, num_kv_heads=(*sizes, 6)[3])
    return [finding.mistake for finding in report.findings]


@pytest.mark.slow
@pytest.mark.parametrize("name", PATIENTS)
def test_the_doctor_finds_in_a_patient_what_the_answer_is(name):
    assert found_in(name) == [EXERCISES[name].solution()]


@pytest.mark.slow
def test_the_lesson_shows_no_mistake_of_the_sheet():
    names = {}
    cells = [cell for cell in read_ipynb(LESSON).cells if cell.cell_type == "code"]
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            if "setup" not in cell.metadata.get("tags", ()) and "report = diagnose(" not in cell.source:
                exec(cell.source, names)
            if "kinds = {" in cell.source:
                break
    kinds, sizes = [names["Patient1"], *names["kinds"].values()], {"num_heads": 8, "num_kv_heads": 2}
    runs = {"at once": None, "in pieces": names["in_pieces"]}
    shown = {
        finding.mistake
        for kind in kinds
        for call in runs.values()
        for finding in diagnose(names["admit"](kind), names["x"], call=call, **sizes).findings
    }
    assert {"merge-without-transpose", "scores-from-values", "kv-heads-tiled"} <= shown  # it looks at them all
    assert not shown & {EXERCISES[name].solution() for name in PATIENTS}
