"""A learner's own copies: made, brought up to date, and never lost."""

import json
import platform
import re
import shlex
import sys
from pathlib import Path

import pytest

from course_lib.command import main
from course_lib.command.start import command_to_type
from course_lib.workspace import FOLDER, FOLDERS, MARKER, copy_notebooks, course_notebooks, find_workspace

LESSON, SHEET = "1_lessons/00_start_here.ipynb", "2_exercises/01_exercises.ipynb"


def notebook(*sources, output=None):
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cells = [{"cell_type": "code", "source": [source], "outputs": outputs, "metadata": {}} for source in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path):
    """A course of one lesson and one sheet of exercises, as it is installed."""
    source = tmp_path / "course"
    for name in ("00_start_here", "exercises/01_exercises"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / f"{name}.ipynb").write_text(notebook("1 + 1"), encoding="utf-8")
    (source / ".ipynb_checkpoints").mkdir()
    (source / ".ipynb_checkpoints" / "00_start_here-checkpoint.ipynb").write_text("{}", encoding="utf-8")
    return source


@pytest.fixture
def mine(course, tmp_path):
    folder = tmp_path / "mine"
    copy_notebooks(course, folder)
    return folder


def write(path, *sources, **options):
    path.write_text(notebook(*sources, **options), encoding="utf-8")


def test_all_is_copied_once(course, tmp_path):
    first = copy_notebooks(course, tmp_path / "mine")
    assert first.new == [LESSON, SHEET]
    second = copy_notebooks(course, tmp_path / "mine")
    assert (second.new, second.updated, second.behind, second.renamed) == ([], [], [], {})


def test_what_was_only_run_is_replaced_by_a_newer_version(course, mine):
    write(mine / LESSON, "1 + 1", output="2")
    write(course / "00_start_here.ipynb", "1 + 2")
    assert copy_notebooks(course, mine).updated == [LESSON]
    assert "1 + 2" in (mine / LESSON).read_text(encoding="utf-8")


def test_an_answer_stays_whatever_comes(course, mine):
    write(mine / SHEET, "my answer")
    assert copy_notebooks(course, mine).behind == []
    write(course / "exercises/01_exercises.ipynb", "1 + 2")
    for _ in range(2):
        assert copy_notebooks(course, mine).behind == [SHEET]
        assert "my answer" in (mine / SHEET).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["exercises/01_exercises", "exercises/01", "2_exercises/01_exercises.ipynb"])
def test_asked_for_again_the_answer_gets_another_name(name, course, mine):
    write(mine / SHEET, "my answer")
    write(course / "exercises/01_exercises.ipynb", "1 + 2")
    done = copy_notebooks(course, mine, (name,))
    (kept,) = done.renamed.values()
    assert re.fullmatch(r"2_exercises/01_exercises_before_[\d_-]+\.ipynb", kept)
    assert "my answer" in (mine / kept).read_text(encoding="utf-8")
    assert "1 + 2" in (mine / SHEET).read_text(encoding="utf-8")


def test_asked_for_again_at_once_nothing_is_lost(course, mine):
    """Two runs in one second: the second finds an untouched copy and leaves the first one's answer alone."""
    write(mine / SHEET, "my answer")
    write(course / "exercises/01_exercises.ipynb", "1 + 2")
    for _ in range(2):
        copy_notebooks(course, mine, ("01_exercises",))
        write(mine / SHEET, "another answer")
        copy_notebooks(course, mine, ("2_exercises/01_exercises.ipynb",))
    texts = [path.read_text(encoding="utf-8") for path in (mine / "2_exercises").glob("*_before_*.ipynb")]
    assert sorted("my answer" in text for text in texts)[-1] and sum("another answer" in text for text in texts) == 2
    copy_notebooks(course, mine, ("01_exercises",))
    assert len(list((mine / "2_exercises").glob("*_before_*.ipynb"))) == len(texts), "an untouched copy is not kept"


def test_a_name_that_is_no_notebook_is_refused_before_anything_is_touched(course, mine):
    write(course / "00_start_here.ipynb", "1 + 2")
    with pytest.raises(ValueError, match=r"There is no notebook '99' in the course: give a name such as 03"):
        copy_notebooks(course, mine, ("99",))
    assert "1 + 1" in (mine / LESSON).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}'])
def test_a_file_that_cannot_be_read_is_the_learners(text, course, mine):
    (mine / LESSON).write_text(text, encoding="utf-8")
    write(course / "00_start_here.ipynb", "1 + 2")
    assert copy_notebooks(course, mine).behind == [LESSON]
    assert (mine / LESSON).read_text(encoding="utf-8") == text


def test_without_its_marker_nothing_is_overwritten(course, mine):
    (mine / MARKER).write_text("[damaged", encoding="utf-8")
    write(course / "00_start_here.ipynb", "1 + 2")
    assert copy_notebooks(course, mine).behind == [LESSON]


@pytest.mark.slow
def test_a_copy_is_as_jupyterlab_saves_it(course, mine):
    """So that opening it and saving it changes nothing."""
    import nbformat

    text = (mine / LESSON).read_text(encoding="utf-8")
    assert json.loads(text)["metadata"]["language_info"]["version"] == platform.python_version()
    real = copy_notebooks(course_notebooks(), mine) and (mine / "1_lessons/04_reshape_and_transpose.ipynb").read_text(
        "utf-8"
    )
    assert nbformat.writes(nbformat.reads(real, as_version=4)) + "\n" == real


LINK = re.compile(r"\]\(([^)#:]+\.ipynb)")


@pytest.mark.slow
def test_every_link_of_a_copy_leads_to_a_copy(tmp_path):
    copy_notebooks(course_notebooks(), tmp_path)
    found = 0
    for path in tmp_path.rglob("*.ipynb"):
        for link in LINK.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / link).is_file(), f"{path.name} links {link}"
            found += 1
    assert found > 50


@pytest.mark.slow
def test_a_copy_of_solutions_says_so_and_has_no_marks_of_a_teachers_tools(tmp_path):
    copy_notebooks(course_notebooks(), tmp_path)
    copies = sorted((tmp_path / FOLDERS["solutions"]).glob("*.ipynb"))
    assert len(copies) == 14
    for path in copies:
        cells = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
        assert cells[0].startswith("# Solutions: "), path.name
        assert not [cell for cell in cells if "### " in re.sub(r"^### .*", "", cell) or "SOLUTION" in cell], path.name
        assert any(cell.startswith("check(") for cell in cells)
    sheet = (tmp_path / FOLDERS["exercises"] / copies[0].name.replace("solutions", "exercises")).read_text("utf-8")
    assert "# Exercises: " in sheet


def test_the_workspace_is_found_from_inside(mine):
    assert find_workspace(mine / "2_exercises") == mine
    assert find_workspace(mine.parent) is None


def test_start_says_where_the_copies_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["start"]) == 0
    shown = capsys.readouterr().out
    kept = ".ipynb_checkpoints"  # where a sync keeps the older file of a pair
    number = sum(kept not in path.parts for path in course_notebooks().glob("**/[0-9]*.ipynb"))
    assert f"{number} notebooks copied." in shown
    assert f"Your notebooks are in {tmp_path / 'my_course'}. Open them with: " in shown
    command = shown.rstrip().rpartition("Open them with: ")[2]
    assert command == f"{command_to_type()} lab" and Path(shlex.split(command)[0]).name == "course"
    lesson = tmp_path / "my_course" / "1_lessons" / "03_wrapper.ipynb"
    lesson.write_text(notebook("mine"), encoding="utf-8")
    (tmp_path / "my_course" / MARKER).write_text("{}", encoding="utf-8")
    assert main(["start"]) == 0
    shown = capsys.readouterr().out
    assert "You have worked on 1_lessons/03_wrapper.ipynb, and there is a newer version. Yours stays as it is" in shown
    assert f"{command_to_type()} start --again 03_wrapper` copies the newer one" in shown
    assert main(["start", "--again", "03"]) == 0
    assert (
        "1_lessons/03_wrapper.ipynb is copied again; your own is now 1_lessons/03_wrapper_before_"
        in capsys.readouterr().out
    )
    assert main(["start", "--again", "nothing"]) == 2
    assert "course start: There is no notebook 'nothing' in the course" in capsys.readouterr().err


def test_in_a_clone_the_copies_are_ignored_by_git():
    root = Path(__file__).resolve().parents[2]
    assert f"{FOLDER}/" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_the_command_can_be_pasted_from_a_folder_with_a_space(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a place" / "bin" / "python"))
    assert main(["start"]) == 0
    command = capsys.readouterr().out.split("Open them with: ")[1]
    assert shlex.split(command) == [str(tmp_path / "a place" / "bin" / "course"), "lab"]


@pytest.mark.slow
def test_start_says_that_a_notebook_is_as_the_course_has_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["start"]) == 0
    capsys.readouterr()
    assert main(["start", "--again", "03_wrapper"]) == 0
    assert "1_lessons/03_wrapper.ipynb is as the course has it: there is nothing to copy." in capsys.readouterr().out
