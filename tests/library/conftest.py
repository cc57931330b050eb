"""The library's tests: helpers beside this file (loop_reference, form_cases, error_cases) are imported by name."""

import sys
from pathlib import Path

import pytest
import torch

from course_lib.pictures.drawing import Drawing

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(autouse=True)
def own_random_stream():
    """Each test starts from the same random stream and leaves the process's own as it was."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(2017)
        yield


@pytest.fixture
def drawings(monkeypatch):
    """The canvas of each picture drawn in the test."""
    drawn = []
    draw = Drawing.svg
    monkeypatch.setattr(Drawing, "svg", lambda self: (drawn.append(self), draw(self))[1])
    return drawn
