"""The hub's page: its check says what is missing, and the commands that collect do it without following links."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_grader.commands import hub
from course_grader.submissions import find_submissions
from course_lib.command import main
from tests.grader.synthetic_class import notebook

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "book" / "hub.md").read_text(encoding="utf-8")


def test_the_command_shows_the_page(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["hub"]) == 0
    assert capsys.readouterr().out.strip() == PAGE.strip()


def test_the_check_has_a_line_for_each_need(capsys, monkeypatch):
    monkeypatch.setattr(hub, "checks", lambda: iter([("one", None), ("two", "not there: install it")]))
    assert main(["hub", "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == ["ok       one", "missing  two: not there: install it"]
    monkeypatch.setattr(hub, "checks", lambda: iter([("one", None)]))
    assert main(["hub", "--check"]) == 0


def test_the_checks_look_at_this_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_sandbox", lambda: None)
    monkeypatch.setattr("course_grader.sandbox.choose_isolation", lambda: SimpleNamespace(warning=lambda: "a hole"))
    names = [what for what, _ in hub.checks()]
    assert len(names) == 6 and "nbgitpuller" in names[2]
    assert list(hub.checks())[-1] == ("a sandbox without a known hole", "a hole")
    assert "install it with the hub's own pip" in hub._outside_home(tmp_path / "a" / "b" / "c.py", tmp_path)
    assert hub._outside_home(tmp_path / "c.py", tmp_path / "home") is None
    assert hub._module("no_such_module", "pip install it") == "no_such_module is not installed: pip install it"
    monkeypatch.setattr(hub, "_sandbox", lambda: "there is nothing")
    assert list(hub.checks())[-1] == ("a sandbox for grading", "there is nothing")


def test_a_hub_without_the_kernels_is_told_the_command(monkeypatch):
    from jupyter_client.kernelspec import KernelSpecManager

    monkeypatch.setattr(KernelSpecManager, "find_kernel_specs", lambda self: {"python3": ""})
    assert hub._kernels().startswith("attention-cpu not found: run `course kernels` with ")


@pytest.mark.skipif(os.name != "posix", reason="the page is for hubs on Linux")
def test_the_pages_commands_collect(tmp_path):
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "handed_in" in block)
    collect = block[: block.index("course grade")].replace("sudo ", "").replace("/home", str(tmp_path / "home"))
    for student in ("ada", "bob"):
        week = tmp_path / "home" / f"jupyter-{student}" / "week1"
        week.mkdir(parents=True)
        (week / "01_exercises.ipynb").write_text(notebook("x = 1"))
        os.utime(week / "01_exercises.ipynb", (1e9, 1e9))
    (tmp_path / "secret.ipynb").write_text(notebook("secret = 1"))
    (week / "02_exercises.ipynb").symlink_to(tmp_path / "secret.ipynb")
    subprocess.run(["bash", "-euo", "pipefail", "-c", collect], cwd=tmp_path, check=True)
    found = find_submissions(tmp_path / "class" / "handed_in")
    assert [submission.student for submission in found] == ["jupyter-ada", "jupyter-bob"]
    assert [[(file.name, file.submitted_at) for file in submission.files] for submission in found] == [
        [("week1/01_exercises.ipynb", 1e9)]
    ] * 2
