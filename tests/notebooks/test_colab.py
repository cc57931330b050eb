"""Colab's list, the setup cell, and the repository that is served to it."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbformat import v4
from packaging.requirements import Requirement

from course_lib.lessons import colab, versions
from course_lib.lessons.discover import find_notebooks
from course_lib.lessons.notebook_file import FOLDED, read_ipynb

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ON_COLAB = colab.read_list(ROOT / colab.COLAB_LIST)


def test_colabs_list_is_read_whole():
    lines = (ROOT / colab.COLAB_LIST).read_text(encoding="utf-8").splitlines()
    assert len(ON_COLAB) == 1 + sum(not line.startswith("#") for line in lines)
    assert ON_COLAB["python"].startswith(versions.COLAB.python + ".")
    known = {"torch": "2.11.0", "numpy": "2.1.3", "matplotlib": "3.10.0", "ipython": "7.34.0", "ipykernel": "6.17.1"}
    assert {name: ON_COLAB[name] for name in known} == known
    for line in PROJECT["dependencies"]:
        need = Requirement(line)
        assert need.specifier.contains(ON_COLAB[need.name]), f"Colab's {need.name} does not do for {line}"


def test_what_is_not_as_listed_is_said():
    listed = {"python": "3.13.15", "torch": "2.11.0", "typing_extensions": "4.16.0"}
    right = {"python": "3.13.0", "torch": "2.11.0+cpu", "typing-extensions": "4.16.0"}
    assert colab.unlisted(listed, right) == []
    wrong = colab.unlisted(listed, {"python": "3.11.7", "torch": "2.12.0"})
    assert wrong == [
        "python is 3.11.7, and 3.13.15 in Colab's list",
        "torch is 2.12.0, and 2.11.0 in Colab's list",
        "typing_extensions is missing, and 4.16.0 in Colab's list",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Python 3.13.1\ntorch>=2\n", "a.txt holds the line 'torch>=2': write each package as name==version."),
        ("# Colab\ntorch==2\n", "a.txt names no Python: write it into the comment on top, such as Python 3.13.15."),
    ],
)
def test_a_list_that_is_none(text, said, tmp_path):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)):
        colab.read_list(tmp_path / "a.txt")


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


def executed(*said):
    """The notebook that tries the setup cell, as if its cells had printed these words; an error for an exception."""
    cells = []
    for text in said:
        kind = {"error": {"ename": type(text).__name__, "evalue": str(text), "traceback": []}, "stream": {"text": text}}
        name = "error" if isinstance(text, Exception) else "stream"
        cells.append(v4.new_code_cell("", outputs=[v4.new_output(name, **kind[name])] if text else []))
    return v4.new_notebook(cells=cells)


SITE = "lib/site-packages/course_lib/__init__.py\n"
BEFORE, AFTER = {"torch": "2.11.0", "numpy": "2.1.3"}, {"torch": "2.11.0", "numpy": "2.1.3", "attention-course": "1"}
TRIALS = [
    (("None\n", "", "", SITE), AFTER, []),
    (("Spec", "", "", SITE), AFTER, ["course_lib was there before the setup cell: Spec"]),
    (("None", "a\nno", "", SITE), AFTER, ["the setup cell, run, said: no"]),
    (("None", "", OSError("no"), SITE), AFTER, ["the setup cell, run a second time, said: OSError: no"]),
    (("None", "", "", "here.py"), AFTER, ["course_lib does not come from site-packages: here.py"]),
    (("None", "", "", ""), AFTER, ["course_lib does not come from site-packages: nowhere"]),
    (("None", "", "", SITE), {**AFTER, "numpy": "3"}, ["the setup cell changed numpy: 2.1.3 before, 3 after"]),
    (("None", "", "", SITE), {**AFTER, "rich": "1"}, ["the setup cell changed rich: None before, 1 after"]),
]


@pytest.mark.parametrize(("said", "after", "problems"), TRIALS)
def test_what_the_setup_cell_must_not_do(said, after, problems):
    assert colab.setup_problems(executed(*said), BEFORE, after) == problems


def test_the_setup_cell_is_tried_twice(address):
    sources = [cell.source for cell in colab.setup_notebook(address).cells]
    assert sources.count(address.setup_cell) == 2 and len(sources) == 4


@pytest.mark.parametrize("ref", ["main", "v1.0"])
def test_git_fetches_the_working_tree_from_the_courses_address(ref, tmp_path):
    address, root = SimpleNamespace(slug="ada/course", ref=ref), tmp_path / "root"
    root.mkdir()
    for name, text in ((".gitignore", "kept_out\n"), ("new.py", "1"), ("kept_out", "2")):
        (root / name).write_text(text, encoding="utf-8")
    settings = colab.git_settings(colab.serve_working_tree(root, tmp_path / "remote.git", address), address)
    clone = ["git", "clone", "--quiet", "--branch", ref, "https://github.com/ada/course", str(tmp_path / "clone")]
    subprocess.run(clone, env={**os.environ, **settings}, check=True, capture_output=True)
    assert sorted(path.name for path in (tmp_path / "clone").iterdir()) == [".git", ".gitignore", "new.py"]
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "kept_out", "new.py"], "the tree is untouched"
