"""`course test-versions`: the sets and their environments, what is printed, what is stored, what is refused."""

import json
import os
import re
import tomllib
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from course_lib.command import test_versions
from course_lib.command.root import CourseError
from course_lib.lessons import colab, version_results, version_run, versions
from course_lib.lessons.discover import find_notebooks
from course_lib.lessons.version_results import NotebookResult, SetResult

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ON_COLAB = colab.read_list(ROOT / colab.COLAB_LIST)


def test_the_sets_are_colab_the_oldest_and_the_newest():
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert [each.name for each in versions.SETS] == ["colab", "oldest", "newest"]
    assert (versions.OLDEST.python, versions.NEWEST.python) == (pythons[0], pythons[-1])
    assert versions.COLAB.requirements(ROOT) == ["-r", str(ROOT / "tests/versions/colab-2026-08.txt")]
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *extras["models"], *extras["lessons"][1:]]
    for chosen, resolution in ((versions.OLDEST, "lowest-direct"), (versions.NEWEST, "highest")):
        assert chosen.requirements(ROOT) == ["--resolution", resolution, *needed]
    assert any(each.startswith("transformers>=") for each in needed), "lesson 07 compares with it where it is"


def test_sets_are_chosen_by_name():
    assert versions.choose_sets([]) == list(versions.SETS)
    assert versions.choose_sets(["newest", "colab"]) == [versions.COLAB, versions.NEWEST]
    with pytest.raises(ValueError, match=r"There is no set of versions 'new'; the sets are: colab, .*newest\."):
        versions.choose_sets(["new"])


SOME = {"python": "3.13.0", "torch": "2.11.0", "numpy": "2.1.3", "matplotlib": "3.10.0", "ipython": "7.34.0"}


def results(*problems):
    good = NotebookResult("01_one", 3, 3, 2.04)
    return [
        SetResult(
            "colab", {**SOME, "ipykernel": "6.17.1"}, [good, NotebookResult("02_two", 4, 4 - len(problems), 1.0)]
        ),
        SetResult("oldest", {}, [good], ["uv failed"]),
    ]


def test_the_table_and_what_is_below_it():
    found = results()
    found[0].notebooks[1] = NotebookResult("02_two", 4, 3, 1.0, ["cell 2, `x`: '1' -> '2'"])
    assert version_results.table(found).split("\n")[1:-1] == [
        "set      Python    torch          notebooks  cells  equal  seconds  verdict",
        "-----------------------------------------------------------------------------",
        "colab    3.13.0    2.11.0                 2      7      6      3.0  1 DIFFER",
        "oldest   ?         ?                      1      3      3      2.0  FAILED",
    ]
    said = ["colab: 02_two, cell 2, `x`: '1' -> '2'", "oldest: uv failed"]
    assert list(version_results.problems(found)) == said
    assert found[0].notebooks[0].line == "01_one                         3 of   3    2.0 s  equal"
    assert found[0].notebooks[1].line.endswith("1 DIFFER")
    assert SetResult("newest").verdict == "FAILED", "nothing ran"


def test_what_is_stored(tmp_path):
    stored = version_results.as_data(results()[:1], date(2026, 11, 21))
    counts = {"notebooks": 2, "cells": 7, "equal": 7, "seconds": 3.0, "verdict": "all equal"}
    assert stored == {"date": "2026-11-21", "sets": [{"name": "colab", **SOME, "ipykernel": "6.17.1", **counts}]}
    version_results.store(results(), tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["date"] == date.today().isoformat()


def test_the_books_result_is_of_a_whole_run():
    stored = json.loads((ROOT / test_versions.STORED).read_text(encoding="utf-8"))
    date.fromisoformat(stored["date"])
    assert [each["name"] for each in stored["sets"]] == [each.name for each in versions.SETS]
    assert all(each["equal"] == each["cells"] > 300 and each["verdict"] == "all equal" for each in stored["sets"])
    ran = stored["sets"][0]
    assert {name: ran[name] for name in ("torch", "numpy", "ipython")} == {
        name: ON_COLAB[name] for name in ("torch", "numpy", "ipython")
    }


def call(*words):
    parser = test_versions.argparse.ArgumentParser()
    test_versions.arguments(parser)
    return test_versions.run(parser.parse_args(words))


REFUSALS = [
    (["new"], "There is no set of versions 'new'; the sets are: colab, oldest, newest."),
    (["--lessons", "99"], "There is no lesson '99'; the lessons are: "),
    (["colab", "--save"], "--save stores a whole run: leave out the names of sets and lessons."),
    (["--save", "--lessons", "01"], "--save stores a whole run: leave out the names of sets and lessons."),
]


@pytest.mark.parametrize(("words", "said"), REFUSALS)
def test_words_that_are_refused(words, said, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(CourseError, match=re.escape(said)):
        call(*words)


def test_git_must_be_there(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(test_versions.shutil, "which", lambda name: None)
    with pytest.raises(CourseError, match=r"git, from which.* is missing: "):
        call("colab")


def test_a_full_disk_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(versions.shutil, "disk_usage", lambda folder: SimpleNamespace(free=7_940_000_000))
    monkeypatch.setattr(versions, "uv", lambda words, chosen: pytest.fail("uv was called"))
    said = f"{tmp_path} has 7.9 GB free and an environment needs 8 GB: free some (`uv cache clean` may help), or name"
    with pytest.raises(CourseError, match=re.escape(said)):
        call("--keep", str(tmp_path))


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (tmp_path / "newest").mkdir()
    (tmp_path / "newest" / "mine.txt").write_text("mine", encoding="utf-8")
    said = f"{tmp_path / 'newest'} holds something that is no environment: name another folder with --keep."
    with pytest.raises(CourseError, match=re.escape(said)):
        call("newest", "--keep", str(tmp_path))


def test_the_exit_status_says_whether_all_was_equal(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    stored = []
    monkeypatch.setattr(version_results, "store", lambda found, path: stored.append(path))

    def fake(problem):
        def try_set(chosen, *rest, **options):
            if problem is versions.EnvironmentFailed:
                raise problem("uv could not")
            return SetResult(chosen.name, SOME, [NotebookResult("01_one", 1, 1, 1.0, problem)])

        monkeypatch.setattr(test_versions, "try_set", try_set)

    fake([])
    assert call("--save") == 0 and stored == [ROOT / "book/versions.json"]
    fake(["cell 1, `x`: '1' -> '2'"])
    assert call("newest") == 1
    assert "newest: 01_one, cell 1, `x`: '1' -> '2'" in capsys.readouterr().out
    fake(versions.EnvironmentFailed)
    assert call("--save") == 1 and len(stored) == 1, "a set that did not run was stored"
    assert "oldest: uv could not\nnewest: uv could not\n" in capsys.readouterr().out


@pytest.mark.parametrize("chosen", versions.SETS, ids=lambda chosen: chosen.name)
def test_on_colab_each_notebook_brings_the_course_itself(chosen, tmp_path, monkeypatch, capsys):
    done, there = [], {**ON_COLAB, "typing-extensions": ON_COLAB["typing_extensions"]}
    there |= {"jupyter-client": ON_COLAB["jupyter_client"], "jupyter-core": ON_COLAB["jupyter_core"]}

    def run_notebook(lesson, kernel, folder):
        done.append(("run", kernel.module, folder))
        return NotebookResult(lesson.label, 1, 1, 1.0)

    for name in ("install_course", "remove_course"):
        monkeypatch.setattr(versions, name, lambda *words, name=name: done.append(name))
    monkeypatch.setattr(versions, "make_environment", lambda *words, **options: None)
    monkeypatch.setattr(versions, "installed", lambda *words: there)
    monkeypatch.setattr(version_run, "execute", lambda *words: None)
    monkeypatch.setattr(version_run, "run_notebook", run_notebook)
    for name in ("put_stand_in", "setup_problems"):
        monkeypatch.setattr(colab, name, lambda *words: [])
    monkeypatch.setattr(colab, "serve_working_tree", lambda *words: "file:///remote.git")
    lessons = find_notebooks(ROOT, ["01"])[:2]
    result = test_versions.try_set(chosen, lessons, ROOT, tmp_path / "env", tmp_path / "work")
    assert result.verdict == "all equal" and len(capsys.readouterr().out.splitlines()) == 3
    if chosen == versions.COLAB:
        empty = [tmp_path / "work" / lesson.label for lesson in lessons]
        assert done[1:] == [
            step for folder in empty for step in ("remove_course", ("run", "colab_kernel_launcher", folder))
        ]
        assert all(not list(folder.iterdir()) for folder in empty)
    else:
        runs = [("run", "ipykernel_launcher", lesson.folder) for lesson in lessons]
        assert done == ["install_course", *runs]


def test_an_environment_is_made_once_and_again_when_its_requirements_change(tmp_path, monkeypatch):
    (tmp_path / "tests/versions").mkdir(parents=True)
    pins = tmp_path / colab.COLAB_LIST
    pins.write_text("torch==2\n", encoding="utf-8")
    monkeypatch.setattr(versions, "find_python", lambda version: version)
    calls = []

    def uv(words, chosen):
        calls.append(words)
        (tmp_path / "kept" / "pyvenv.cfg").touch()

    monkeypatch.setattr(versions, "uv", uv)
    for text, cpu, made in (
        ("torch==2", False, 2),
        ("torch==2", False, 2),
        ("torch==3", False, 4),
        ("torch==3", True, 6),
    ):
        pins.write_text(text, encoding="utf-8")
        versions.make_environment(tmp_path / "kept", versions.COLAB, tmp_path, cpu=cpu)
        assert len(calls) == made
    assert calls[-1][-2:] == ["--torch-backend", "cpu"] and "--clear" in calls[-2]


def test_uv_that_fails_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(versions.subprocess, "run", lambda *words, **options: SimpleNamespace(returncode=2))
    said = "uv could not make the environment of the set oldest; its message is above."
    with pytest.raises(versions.EnvironmentFailed, match=re.escape(said)):
        versions.uv(["venv"], versions.OLDEST)


@pytest.mark.skipif(os.name == "nt", reason="the planted interpreters are shell scripts")
def test_an_interpreter_that_does_not_start_is_passed_over(tmp_path, monkeypatch):
    for folder, script in (("shims", "exit 127"), ("right", "echo 3.99")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "python3.99").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / folder / "python3.99").chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in ("shims", "right")))
    assert versions.find_python("3.99") == str(tmp_path / "right" / "python3.99")
    assert versions.find_python("3.98") == "3.98", "uv may find it, or fetch it"


def test_the_weekly_workflow_runs_all_sets():
    steps = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8"))["jobs"]["versions"][
        "steps"
    ]
    pythons = next(step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", ""))
    assert set(pythons.split()) == {each.python for each in versions.SETS}
    assert steps[-1]["run"] == ".venv/bin/course test-versions --cpu"
