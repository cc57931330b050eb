"""What becomes of progress where its file is damaged, read-only or nowhere: one sentence, and no mark is lost."""

import json
import os
import re
from html import escape

import pytest

from course_lib.exercises import EXERCISES, check, progress
from course_lib.exercises.progress_location import PROGRESS_FILE, PROGRESS_VARIABLE
from course_lib.workspace import MARKER

from .small_answers import right, unscaled


def entries(file):
    return json.loads(file.read_text(encoding="utf-8"))["exercises"]


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


DAMAGED = [
    "",
    "{",
    "[]",
    "null",
    '{"exercises": 3}',
    "[" * 100_000,
    '{"exercises": {"scores_of_token": {"done": "yes", "attempts": 1, "first_passed": null}}}',
    '{"exercises": {"scores_of_token": {"done": true, "attempts": -1, "first_passed": null}}}',
    '{"exercises": {"scores_of_token": {"done": true, "attempts": true, "first_passed": null}}}',
    '{"exercises": {"scores_of_token": {"done": true, "attempts": 1, "first_passed": 5}}}',
    '{"exercises": {"scores_of_token": {"done": true}}}',
    '{"exercises": {"scores_of_token": 1}}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_told_in_a_sentence_and_kept_aside(file, text):
    file.write_text(text, encoding="utf-8")
    said = f"{file} is damaged: what can be read of it is shown."
    assert repr(progress()).splitlines()[-1] == said and said in progress()._repr_html_()
    assert file.read_text(encoding="utf-8") == text, "looking changes nothing"
    verdict = check("scaled_scores", unscaled())
    aside = file.with_name(f"{PROGRESS_FILE}.damaged")
    assert f"{file} was damaged: it is kept as {aside.name}, and what could be read of it goes on." in repr(verdict)
    assert aside.read_text(encoding="utf-8") == text
    assert entries(file) == {"scaled_scores": {"done": False, "attempts": 1, "first_passed": None}}
    assert "damaged" not in repr(check("scaled_scores", unscaled())) + repr(progress())


def test_bytes_that_are_no_text_are_damage_too(file):
    file.write_bytes(b"\xff\xfe\x00")
    assert "is damaged" in repr(progress())
    assert "was damaged" in repr(check("scores_of_token", right()))


def test_one_damaged_entry_costs_no_other_one_its_mark_and_no_copy_another(file):
    good = {"done": True, "attempts": 2, "first_passed": "2026-01-02T03:04:05+00:00"}
    text = json.dumps({"exercises": {"scores_of_token": good, "scaled_scores": "?"}})
    for _ in range(3):
        file.write_text(text, encoding="utf-8")
        check("softmax_rows", lambda scores: scores)
        assert entries(file)["scores_of_token"] == good
    copies = [f"{PROGRESS_FILE}.damaged", f"{PROGRESS_FILE}.damaged-2", f"{PROGRESS_FILE}.damaged-3"]
    assert [name for name in everything(file.parent) if "damaged" in name] == copies


def forbid(monkeypatch):
    """Make every file read-only, for root as well."""
    monkeypatch.setattr(os, "access", lambda path, mode, **how: mode != os.W_OK)


def test_a_read_only_file_is_told_in_a_sentence_and_no_mark_is_lost(file, monkeypatch):
    check("scaled_scores", unscaled())
    before = file.read_bytes()
    with monkeypatch.context() as patch:
        forbid(patch)
        verdict = check("scores_of_token", right())
        said = f"New progress is kept in this kernel only, because {file} can't be used: Permission denied."
        assert verdict.passed and repr(verdict).splitlines()[-1].strip() == said
        assert escape(said) in verdict._repr_html_()
        assert file.read_bytes() == before
        assert repr(progress()).startswith(f"1 of {len(EXERCISES)} exercises passed")
        assert repr(progress()).splitlines()[-1] == said
    assert said not in repr(progress())
    assert entries(file)["scores_of_token"]["done"] and entries(file)["scaled_scores"]["attempts"] == 1


@pytest.mark.parametrize("where", ["missing/mine.json", "."])
def test_a_place_that_is_none_is_told_in_a_sentence(kernel, tmp_path, monkeypatch, where):
    monkeypatch.setenv(PROGRESS_VARIABLE, str(tmp_path / where))
    verdict = check("scores_of_token", right())
    assert verdict.passed
    assert re.search(r"kept in this kernel only, because \S+ can't be used: .+\.", repr(verdict))
    assert "Traceback" not in repr(verdict) and repr(progress()).startswith(f"1 of {len(EXERCISES)} exercises passed")


def test_what_a_newer_version_adds_to_an_entry_is_no_damage(file):
    entry = {"done": True, "attempts": 2, "first_passed": None, "seconds": 60}
    file.write_text(json.dumps({"exercises": {"scores_of_token": entry}}), encoding="utf-8")
    assert repr(progress()).startswith(
        f"1 of {len(EXERCISES)} exercises passed in 2 attempts"
    ) and "damaged" not in repr(progress())


def test_a_full_disk_leaves_the_old_file(file, monkeypatch):
    check("scores_of_token", right())
    before = file.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    verdict = check("scaled_scores", unscaled())
    assert "can't be used: No space left on device." in repr(verdict)
    assert file.read_bytes() == before and everything(file.parent) == [MARKER, PROGRESS_FILE, "sheets"]
