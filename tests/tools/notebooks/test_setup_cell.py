"""The first code cell of every notebook, which installs the course where it is missing."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_grader import FOLDED
from tools.notebooks.lesson_files import find_notebooks
from tools.notebooks.notebook_file import read_ipynb

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_setup_cell_is_the_same_in_every_notebook(address):
    every = find_notebooks(ROOT)
    first = {next(cell.source for cell in read_ipynb(each.ipynb).cells if cell.cell_type == "code") for each in every}
    assert first == {address.setup_cell} and len(every) > 20
    assert len(ast.parse(address.setup_cell).body) == 4, "three imports and one question"


def test_the_setup_cell_is_folded_in_every_notebook():
    """The first code that a beginner sees is the lesson's: JupyterLab and Colab show one line of the setup cell."""
    for each in find_notebooks(ROOT):
        setup = next(cell for cell in read_ipynb(each.ipynb).cells if cell.cell_type == "code")
        assert {key: setup.metadata[key] for key in FOLDED} == FOLDED, each.label


@pytest.mark.parametrize("missing", [True, False])
def test_the_setup_cell_installs_the_course_where_it_is_missing(missing, address, monkeypatch):
    """Whatever the host is called: Colab, Kaggle, SageMaker, a bare Jupyter."""
    calls = []
    monkeypatch.setattr(subprocess, "run", lambda words: calls.append(words) or SimpleNamespace(returncode=0))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if missing else object())
    exec(address.setup_cell, {})
    course = f"attention-course[models] @ git+https://github.com/{address.slug}@{address.ref}"
    assert calls == ([[sys.executable, "-m", "pip", "install", "-q", course]] if missing else [])


def test_the_setup_cell_says_what_to_do_where_it_fails(address, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda words: SimpleNamespace(returncode=1))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="The course could not be installed: switch the internet on and run this"):
        exec(address.setup_cell, {})
