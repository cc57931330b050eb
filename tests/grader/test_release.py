"""A release is the students' sheets, whole, without a solution in them, and a record that fits them."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from course_grader import release as releasing
from course_grader.manifest import MANIFEST
from course_grader.release import make_release
from course_lib.command import main
from course_lib.exercises import EXERCISES
from tools.notebooks.notebook_file import read_ipynb

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(find_spec("nbgrader") is None, reason="needs nbgrader")  # imported only when it is run


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    return make_release(ROOT / "notebooks", "week1", ["02", "05"], tmp_path_factory.mktemp("class"))


@pytest.mark.slow
def test_the_sheets_are_the_public_ones_with_a_stamp(week):
    assert sorted(path.name for path in week.iterdir()) == ["02_exercises.ipynb", "05_exercises.ipynb", MANIFEST]
    for name in ("02_exercises", "05_exercises"):
        sheet = nbformat.read(week / f"{name}.ipynb", as_version=4)
        nbformat.validate(sheet)
        public = read_ipynb(ROOT / "notebooks" / "exercises" / f"{name}.ipynb")
        code = [[cell for cell in notebook.cells if cell.cell_type == "code"] for notebook in (sheet, public)]
        assert [(cell.source, cell.metadata) for cell in code[0]] == [(cell.source, cell.metadata) for cell in code[1]]
        assert not any(cell.outputs for cell in code[0])
        assert sheet.metadata.attention_course.release == "week1"
        assert "Python's own modules, PyTorch and NumPy only: other packages, such as `einops`" in sheet.cells[0].source
        assert "*week1, version " in sheet.cells[0].source and "Colab" not in sheet.cells[0].source
        assert len({cell.id for cell in sheet.cells}) == len(sheet.cells)
        text = (week / f"{name}.ipynb").read_text(encoding="utf-8")
        assert "SOLUTION" not in text and "HIDDEN" not in text and "](../" not in text


def test_links_lead_to_the_courses_own_pages(week):
    sheet = nbformat.read(week / "02_exercises.ipynb", as_version=4)
    pages = "https://github.com/attention-course/attention-course/blob/main/notebooks"
    assert f"]({pages}/02_masks_and_dropout.ipynb)" in sheet.cells[0].source


def test_the_record_fits_the_files_and_the_exercises(week):
    record = json.loads((week / MANIFEST).read_text(encoding="utf-8"))
    assert (record["release"], bool(record["version"]), bool(record["commit"])) == ("week1", True, True)
    wanted = [exercise.name for exercise in EXERCISES.values() if exercise.lesson in ("02", "05")]
    assert [exercise["name"] for exercise in record["exercises"]] == wanted
    for file, checksum in record["sha256"].items():
        assert hashlib.sha256((week / file).read_bytes()).hexdigest() == checksum
    assert len(record["sha256"]) == 2


@pytest.mark.parametrize(
    ("name", "lessons", "said"),
    [
        (
            "../week",
            ["01"],
            r"name is '\.\./week': use letters, digits, dots, dashes and underscores, such as week1\.",
        ),
        (
            "week1",
            ["01", "00"],
            r"Lesson '00' has no exercises: choose among 01, 02, .*, 10,.* such as --lessons 01,02\.",
        ),
        ("week1", [], r"No lesson was named: choose among 01, "),
    ],
)
def test_what_is_refused(name, lessons, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        make_release(ROOT / "notebooks", name, lessons, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_release_is_never_overwritten(week):
    before = {path: path.read_bytes() for path in week.iterdir()}
    with pytest.raises(
        ValueError, match=r"week1 exists already: choose a different name, or remove it if nobody has it yet"
    ):
        make_release(ROOT / "notebooks", "week1", ["01"], week.parent)
    assert {path: path.read_bytes() for path in week.iterdir()} == before


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(releasing, "released_exercises", fail)
    with pytest.raises(RuntimeError):
        make_release(ROOT / "notebooks", "week1", ["01"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_without_history_says_so(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    assert releasing._commit(ROOT / "course_lib") == "unknown", "what pip installs has no commit, even inside a clone"
    monkeypatch.setattr(releasing.subprocess, "run", missing)
    assert releasing._commit(ROOT) == "unknown"


def test_the_command_needs_no_clone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["release", "week2", "--lessons", "01", "--to", "class"]) == 0
    assert "class/week2/01_exercises.ipynb" in capsys.readouterr().out


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["release", "week2", "--lessons", "01, 03", "--to", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"for the students: {tmp_path / 'week2' / '01_exercises.ipynb'}",
        f"for the students: {tmp_path / 'week2' / '03_exercises.ipynb'}",
        f"for you:          {tmp_path / 'week2' / MANIFEST}",
    ]
    assert main(["release", "week2", "--lessons", "01", "--to", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
