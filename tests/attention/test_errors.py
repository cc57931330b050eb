"""Whatever does not fit is refused in one sentence: its every word, and under `python -O` too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .error_cases import REFUSALS, difference

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_is_refused_in_this_sentence(refusal):
    assert difference(refusal) == ""


def test_sentences_start_small_or_named_and_end_with_a_full_stop():
    assert all(refusal.sentence.endswith(".") and "\n" not in refusal.sentence for refusal in REFUSALS)


@pytest.mark.slow
def test_refused_under_python_O_too():
    script = Path(__file__).with_name("error_cases.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-O", str(script)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines() == [f"{len(REFUSALS)} cases, __debug__ is False"]
