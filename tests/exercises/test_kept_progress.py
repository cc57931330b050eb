"""Progress outlasts the kernel: one small file in the learner's workspace."""

import json
import os
from datetime import datetime

import pytest

from course_lib.exercises import check, progress, progress_store
from course_lib.exercises.progress_location import PROGRESS_FILE, PROGRESS_VARIABLE, progress_path
from course_lib.workspace import MARKER

from .small_answers import reversed_order, right, stub, unscaled


def entries(file):
    return json.loads(file.read_text(encoding="utf-8"))["exercises"]


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_the_file_says_done_attempts_and_when(file):
    check("scores_of_token", reversed_order())
    assert entries(file) == {"scores_of_token": {"done": False, "attempts": 1, "first_passed": None}}
    check("scores_of_token", right())
    entry = entries(file)["scores_of_token"]
    assert (entry["done"], entry["attempts"]) == (True, 2)
    age = datetime.now().astimezone() - datetime.fromisoformat(entry["first_passed"])
    assert 0 <= age.total_seconds() < 60


def test_it_lasts_over_a_restart(file, kernel):
    check("scores_of_token", right())
    check("scaled_scores", unscaled())
    kernel()
    check("scaled_scores", unscaled())
    assert entries(file)["scaled_scores"]["attempts"] == 2
    states = {exercise.name: state for exercise, state in progress("01").rows}
    assert states["scores_of_token"] == "passed" and states["scaled_scores"] == "not passed yet"
    assert states["softmax_rows"] == "not tried"


def test_what_is_done_stays_done(file, kernel):
    check("scores_of_token", right())
    before = file.read_bytes()
    kernel()
    check("scores_of_token", reversed_order())
    check("scores_of_token", right())
    assert file.read_bytes() == before, "a mark, its date and its number of attempts don't change any more"


def test_a_stub_and_the_same_code_again_are_no_attempts(file):
    check("scores_of_token", stub)
    assert not file.exists()
    answer = reversed_order()
    check("scores_of_token", answer)
    check("scores_of_token", answer)
    assert entries(file)["scores_of_token"]["attempts"] == 1


def test_the_nearest_marker_counts(workspace, monkeypatch):
    inner = workspace / "sheets" / "inner"
    (inner / "deep").mkdir(parents=True)
    (inner / MARKER).touch()
    monkeypatch.chdir(inner / "deep")
    check("scores_of_token", right())
    assert (inner / PROGRESS_FILE).exists() and not (workspace / PROGRESS_FILE).exists()


def test_a_folder_is_no_marker_and_without_one_nothing_is_written(kernel, tmp_path, monkeypatch):
    (tmp_path / MARKER).mkdir()
    if progress_path() is not None:
        pytest.skip("the folder for temporary files lies in a workspace")
    check("scores_of_token", right())
    assert everything(tmp_path) == [MARKER]
    assert repr(progress()).startswith("1 of 6 exercises passed.")


def test_the_variable_names_a_file_or_turns_it_off(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv(PROGRESS_VARIABLE, "off")
    check("scores_of_token", right())
    assert not (workspace / PROGRESS_FILE).exists()
    monkeypatch.setenv(PROGRESS_VARIABLE, str(tmp_path / "mine.json"))
    check("scaled_scores", unscaled())
    assert not (workspace / PROGRESS_FILE).exists()
    assert entries(tmp_path / "mine.json")["scores_of_token"]["done"], "what the kernel knows is written, too"


def test_nothing_but_the_file_is_left(file, workspace):
    check("scores_of_token", right())
    assert everything(workspace) == [MARKER, PROGRESS_FILE, "sheets"]


def test_what_other_versions_of_the_course_ask_is_kept(file):
    old = {"done": True, "attempts": 7, "first_passed": "2026-01-02T03:04:05+00:00"}
    file.write_text(json.dumps({"exercises": {"of_another_version": old}}), encoding="utf-8")
    check("scores_of_token", right())
    assert entries(file)["of_another_version"] == old


def test_two_kernels_add_up(file, kernel):
    check("scores_of_token", reversed_order())
    there = dict(progress_store._KERNEL)
    kernel()  # the second one
    check("scores_of_token", reversed_order())
    check("scaled_scores", unscaled())
    progress_store._KERNEL.update(there)
    check("scores_of_token", right())
    assert entries(file)["scores_of_token"]["attempts"] == 3
    assert entries(file)["scaled_scores"]["attempts"] == 1


def test_a_mark_that_another_kernel_overwrote_comes_back(file):
    file.write_text('{"exercises": {}}', encoding="utf-8")
    check("scores_of_token", right())
    file.write_text('{"exercises": {}}', encoding="utf-8")  # the other one had read before and wrote after
    check("scaled_scores", unscaled())
    assert entries(file)["scores_of_token"]["done"]


def test_a_folder_that_is_gone_is_no_error(kernel, tmp_path, monkeypatch):
    def gone():
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    assert check("scores_of_token", right()).passed
    assert "Look again at lesson" in repr(check("scaled_scores", unscaled()))


def test_a_folder_that_may_not_be_looked_into_is_no_error(kernel, monkeypatch):
    def forbidden(start):
        raise PermissionError

    monkeypatch.setattr("course_lib.exercises.progress_location.find_workspace", forbidden)
    assert check("scores_of_token", right()).passed and progress().passed == 1


def test_the_repositorys_own_checks_keep_nothing():
    assert os.environ[PROGRESS_VARIABLE] == "off"
    assert progress_path() is None
