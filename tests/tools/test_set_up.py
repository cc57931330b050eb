"""tools/set_up.py: what it decides and what it says, with stand-ins for the programs that it starts."""

import os
import subprocess
import sys

import pytest

from tools import set_up


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing but a lock: programs are added by name, and each call is written down."""

    class Machine:
        calls, answers, versions = [], {}, {}

        def attempt(self, command, env=None):
            self.calls.append((" ".join(command), env))
            for words, answer in self.answers.items():
                if words in " ".join(command):
                    return subprocess.CompletedProcess(command, answer[0], "", answer[1])
            return subprocess.CompletedProcess(command, 0, "", "")

        def call(self, command, **_):
            return self.attempt(command).returncode

        def said(self, words):
            return [command for command, _ in self.calls if words in command]

    there = Machine()
    Machine.calls, Machine.answers, Machine.versions = [], {}, {}
    for name, path in (("VENV", ".venv"), ("IN_VENV", ".venv/bin/python"), ("LOCK", "lock"), ("PROJECT", "project")):
        monkeypatch.setattr(set_up, name, str(tmp_path / path))
    (tmp_path / "lock").write_text("torch==2\nuv==0.13.8\n")
    (tmp_path / "project").write_text("")
    monkeypatch.setattr(set_up, "ROOT", str(tmp_path))
    monkeypatch.setattr(set_up, "attempt", there.attempt)
    monkeypatch.setattr(set_up.subprocess, "call", there.call)
    monkeypatch.setattr(set_up, "version_of", lambda python: there.versions.get(os.path.basename(python), ""))
    monkeypatch.setattr(set_up.shutil, "which", lambda name: None)
    there.folder = tmp_path
    return there


def environment(machine, stamp=None, pip=True):
    """Make a .venv whose Python is 3.12."""
    (machine.folder / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    (machine.folder / ".venv" / "bin" / "python").write_text("")
    machine.versions |= {"python": "3.12.1", "python3": "3.12.1"}
    if stamp:
        (machine.folder / ".venv" / stamp).write_text("")
    if not pip:
        machine.answers["-m pip --version"] = (1, "No module named pip")


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        ({"python3": "3.12.1", "python3.13": "3.13.0"}, "python3"),
        ({"python3": "3.10.1", "python3.13": "3.13.0"}, "python3.13"),
        ({"python3": "3.15.0", "python3.11": "3.11.9"}, "python3.11"),
        ({"python3": "3.15.0"}, "python3"),
        ({"python": "3.14.2"}, "python"),
    ],
)
def test_the_first_tested_python_is_taken_and_a_newer_one_rather_than_none(versions, chosen, machine, capsys):
    machine.versions.update(versions)
    assert set_up.choose_python() == chosen
    warning = "Python 3.15.0 is newer than 3.14, the newest that was tested: trying it.\n"
    assert capsys.readouterr().out == (warning if versions[chosen] == "3.15.0" else "")


def test_no_python_that_fits(machine, capsys):
    machine.versions["python3"] = "3.10.12"
    assert set_up.main([]) == 2
    assert "No Python 3.11 to 3.14 was found: install one, or name one, such as make lab" in capsys.readouterr().err
    assert set_up.main(["--python", "python3"]) == 2
    assert "PYTHON=python3 is not Python 3.11 to 3.14 (Python 3.10.12): name a different" in capsys.readouterr().err
    assert set_up.main(["--python", "nothing"]) == 2
    assert "PYTHON=nothing is not Python 3.11 to 3.14 (not found)" in capsys.readouterr().err


def test_where_all_is_there_nothing_is_started(machine):
    environment(machine, set_up.STAMPS["lessons"])
    assert set_up.main(["lessons"]) == 0 and machine.calls == []
    os.utime(machine.folder / "lock", (2e9, 2e9))
    assert set_up.main(["lessons"]) == 0 and machine.said("uv pip install")


@pytest.mark.parametrize("debian", [True, False])
@pytest.mark.parametrize("root", [True, False])
def test_without_venv_the_package_is_named_and_nothing_is_left(debian, root, machine, monkeypatch, capsys):
    machine.versions["python3"] = "3.12.1"
    machine.answers |= {"-m venv": (1, "ensurepip is not available"), "import venv": (1, "")}
    monkeypatch.setattr(set_up, "is_debian", lambda: debian)
    monkeypatch.setattr(set_up.os, "geteuid", lambda: 0 if root else 1000)
    assert set_up.main([]) == 2
    said = capsys.readouterr().err
    assert "Python 3.12.1 lacks the module that creates environments (venv): install" in said
    if debian:
        assert f"`{'' if root else 'sudo '}apt install python3.12-venv`, then start again." in said
    assert not (machine.folder / ".venv").exists()


def test_without_venv_uv_makes_the_environment(machine, monkeypatch):
    machine.versions["python3"] = "3.12.1"
    machine.answers["-m venv"] = (1, "ensurepip is not available")
    monkeypatch.setattr(set_up.shutil, "which", lambda name: "uv" if name == "uv" else None)
    set_up.make_environment("python3")
    assert machine.said("uv venv -q --python python3")


def test_a_half_made_environment_is_made_anew(machine, capsys):
    environment(machine, pip=False)
    machine.answers["-m venv"] = (1, "No space left on device")
    assert set_up.main([]) == 2
    assert ".venv could not be made: No space left on device" in capsys.readouterr().err
    assert not (machine.folder / ".venv").exists()


def test_where_uv_cannot_install_one_sentence_says_that_pip_does(machine, capsys):
    environment(machine)
    machine.answers["--dry-run"] = (2, "error: fetch\n  ╰─▶ invalid peer certificate: UnknownIssuer\n")
    set_up.install("lessons", cpu=False)
    said = capsys.readouterr()
    assert "uv can't install here (invalid peer certificate: UnknownIssuer); pip does it, which takes" in said.out
    assert len(said.out.splitlines()) == 1 and said.err == ""
    assert machine.said("-m pip install -qq --disable-pip-version-check -c")
    assert not [command for command in machine.said("uv pip install") if "--dry-run" not in command]


def test_uv_gets_the_cpu_build_and_is_not_replaced_by_another_one(machine):
    environment(machine)
    set_up.install("dev", cpu=True)
    assert all("--torch-backend cpu" in command for command in machine.said("uv pip install"))
    machine.answers["--dry-run"] = (2, "torch was not found")
    with pytest.raises(
        set_up.SetUpError, match=r"CPU build could not be installed \(torch was not found\): start again wi"
    ):
        set_up.install("dev", cpu=True)


def test_what_pip_is_told_uv_is_told_too(machine, monkeypatch):
    listed = "global.index-url='https://a.example/simple'\nglobal.extra-index-url='one two'\n:env:.cert='/c.pem'\n"
    real = machine.attempt
    monkeypatch.setattr(
        set_up,
        "attempt",
        lambda command, env=None: (
            subprocess.CompletedProcess(command, 0, listed, "") if "list" in command else real(command, env)
        ),
    )
    for name in set_up.PIP_TO_UV.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine.example")
    settings = set_up.uv_settings()
    assert settings["UV_DEFAULT_INDEX"] == "https://mine.example", "what the user told uv itself comes first"
    assert (settings["UV_INDEX"], settings["SSL_CERT_FILE"]) == ("one two", "/c.pem")
    assert settings["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_offline_after_a_change_the_old_environment_is_used(machine, capsys):
    environment(machine, set_up.STAMPS["lessons"])
    os.utime(machine.folder / "lock", (2e9, 2e9))
    machine.answers["pip install"] = (1, "no network")
    assert set_up.main(["lessons"]) == 0
    assert "What was installed before is used instead; the next start tries again." in capsys.readouterr().err
    assert set_up.main(["lessons"]) == 0, "and so it is said each time, until it worked"
    assert set_up.main(["dev"]) == 2


def test_it_runs_without_anything_but_python():
    words = [sys.executable, "-I", "-S", set_up.__file__, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "lessons" in done.stdout and "--cpu" in done.stdout
