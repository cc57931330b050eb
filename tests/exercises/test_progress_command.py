"""`course progress`: the same table in a terminal."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.command import progress as command
from course_lib.command.clone import CourseError
from course_lib.exercises import EXERCISES, check, progress
from course_lib.exercises.progress_location import PROGRESS_VARIABLE
from course_lib.workspace import FOLDER, MARKER

from .small_answers import right

ROOT = Path(__file__).resolve().parents[2]


def run(*words):
    parser = argparse.ArgumentParser()
    command.arguments(parser)
    return command.run(parser.parse_args(words))


def test_it_prints_what_a_notebook_shows(workspace, capsys):
    check("scores_of_token", right())
    assert run() == 0
    assert capsys.readouterr().out == f"{progress()!r}\n"
    assert run("01") == run("1") == 0
    assert capsys.readouterr().out == f"{progress('01')!r}\n" * 2


@pytest.mark.slow
def test_it_reads_what_another_process_wrote(workspace):
    check("scores_of_token", right())
    code = "import argparse; from course_lib.command import progress; progress.run(argparse.Namespace(lesson=None))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=workspace, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.startswith(f"1 of {len(EXERCISES)} exercises passed in 1 attempt, about ")


def test_a_damaged_file_is_no_traceback(file, capsys):
    file.write_text("{", encoding="utf-8")
    assert run() == 0
    assert capsys.readouterr().out.endswith(f"{file} is damaged: what can be read of it is shown.\n")


def test_outside_of_a_workspace_it_says_what_to_do(kernel, tmp_path):
    said = f"no progress is kept for {tmp_path}: change into your workspace, or make one with `course start`."
    with pytest.raises(CourseError) as refused:
        run()
    assert str(refused.value) == said


def test_in_a_clone_it_shows_the_clones_own_workspace(file, tmp_path, monkeypatch, capsys):
    check("scores_of_token", right())
    (tmp_path / "clone" / "book").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "clone")
    (tmp_path / MARKER).unlink()
    monkeypatch.chdir(tmp_path / "clone" / "book")
    with pytest.raises(CourseError, match="no progress is kept for"):
        run()
    (tmp_path / "clone" / FOLDER).mkdir()
    (tmp_path / "clone" / FOLDER / MARKER).touch()
    file.rename(tmp_path / "clone" / FOLDER / file.name)
    assert run() == 0 and capsys.readouterr().out.startswith(f"1 of {len(EXERCISES)} exercises passed")
    assert Path.cwd() == tmp_path / "clone" / "book"


def test_turned_off_it_says_so(workspace, monkeypatch):
    monkeypatch.setenv(PROGRESS_VARIABLE, "off")
    with pytest.raises(CourseError, match=r"COURSE_PROGRESS is off, so no progress is kept: unset it\."):
        run()


def test_a_set_that_is_none_is_refused(workspace):
    with pytest.raises(CourseError, match="lesson is '99', which has no exercises: choose among 01, 02"):
        run("99")
