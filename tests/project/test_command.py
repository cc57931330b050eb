"""The `course` command: its words, its errors, what it hands to JupyterLab and to pytest."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from course_lib.command import SUBCOMMANDS, lab, lock, main, test
from course_lib.lessons import check, kernels
from course_lib.lessons.check import PytestRun, Tally

ROOT = Path(__file__).resolve().parents[2]
LESSON = '# %% [markdown]\n# # One\n\n# %%\n0.12345\n\n# %%\nprint("two")\n'


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one tiny lesson; the command is called from inside it."""
    (tmp_path / "notebooks").mkdir()
    for name in ("pyproject.toml", "requirements.lock", "notebooks/jupytext.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "notebooks" / "00_start_here.py").write_text(LESSON, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(kernels, "kernels_ready", lambda: True)
    return tmp_path


def test_help_lists_every_subcommand(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    shown = capsys.readouterr().out
    assert stopped.value.code == 0
    assert all(f"\n    {module.NAME}" in shown for module in SUBCOMMANDS)


def test_help_imports_nothing_heavy():
    seen = "import sys; sys.argv = ['course', '--help']\nfrom course_lib.command import main\n"
    seen += "try: main()\nexcept SystemExit: pass\n"
    seen += "print([m for m in ('torch', 'nbformat', 'jupytext', 'numpy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", [["lab"], ["test"], ["run"], ["links"], ["lock"]])
def test_outside_a_clone_it_says_so(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "pyproject.toml").write_text("not toml [", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "pyproject.toml").write_text('[project]\nname = "another"', encoding="utf-8")
    monkeypatch.chdir(tmp_path / "inside")
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"course {words[0]}: {tmp_path / 'inside'} is not inside a clone of attention-course" in said


@pytest.mark.parametrize("words", [[], ["dance"], ["test", "--fast"], ["test", "--library-only", "--lessons-only"]])
def test_unknown_words_are_refused(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "usage: course" in capsys.readouterr().err


def test_the_command_is_a_module_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["course", "links", "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("course_lib.command", run_name="__main__")
    assert stopped.value.code == 0 and "usage: course links" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["bench", "figures"])
def test_all_words_go_on_to_bench_and_figures(name, monkeypatch):
    got = []
    stand_in = types.SimpleNamespace(main=lambda words: got.append(words) or 7)
    monkeypatch.setitem(sys.modules, f"course_lib.{name}", stand_in)
    assert main([name, "--quick", "--help", "x"]) == 7
    assert got == [["--quick", "--help", "x"]]


def test_an_interruption_is_quiet(repository, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(lab, "sync_lessons", stop)
    assert main(["lab"]) == 130
    assert "Stopped." in capsys.readouterr().err


# --- kernels ---


def test_kernels_are_installed_under_a_prefix(tmp_path, capsys):
    assert not kernels.kernels_ready(str(tmp_path))
    settings = tmp_path / "share/jupyter/lab/settings/overrides.json"
    settings.parent.mkdir(parents=True)
    viewers = "@jupyterlab/docmanager-extension:plugin"
    settings.write_text(json.dumps({"mine": 1, viewers: {"defaultViewers": {"csv": "x"}}}), encoding="utf-8")
    assert main(["kernels", "--prefix", str(tmp_path)]) == 0
    assert kernels.kernels_ready(str(tmp_path))
    for name, (title, device) in kernels.KERNELS.items():
        spec = json.loads((tmp_path / "share/jupyter/kernels" / name / "kernel.json").read_text(encoding="utf-8"))
        assert (spec["display_name"], spec["env"]) == (title, {"COURSE_DEVICE": device})
        assert spec["argv"][0] == sys.executable
    merged = json.loads(settings.read_text(encoding="utf-8"))
    assert merged["mine"] == 1
    assert merged[viewers]["defaultViewers"] == {"csv": "x", "python": "Jupytext Notebook"}
    assert str(tmp_path) in capsys.readouterr().out


def test_a_kernel_of_another_python_is_not_ready(tmp_path):
    kernels.install_kernels(str(tmp_path))
    path = tmp_path / "share/jupyter/kernels/attention-cuda/kernel.json"
    path.write_text(path.read_text(encoding="utf-8").replace(sys.executable, "/elsewhere/python"), encoding="utf-8")
    assert not kernels.kernels_ready(str(tmp_path))


# --- lab ---


def test_lab_becomes_jupyterlab_with_the_pairs_in_step(repository, monkeypatch, capsys):
    got, installed = [], []
    monkeypatch.setattr(os, "execv", lambda path, words: got.append(words))
    monkeypatch.setattr(kernels, "kernels_ready", lambda: False)
    monkeypatch.setattr(kernels, "install_kernels", lambda: installed.append(True))
    assert main(["lab", "--port", "8890", "--no-browser", "--", "--debug"]) == 0
    (words,) = got
    assert words[:3] == [sys.executable, "-m", "course_lib.lessons.quick_start"]
    assert f"--ServerApp.root_dir={repository}" in words
    assert words[-3:] == ["--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb", "--no-browser", "--debug"]
    assert {"--port=8890", "--ServerApp.port_retries=0", "--LabApp.news_url=None"} <= set(words)
    assert installed and Path.cwd() == repository
    assert "00_start_here: made the .ipynb from the .py." in capsys.readouterr().out


def test_lab_opens_the_folder_while_there_is_no_first_lesson(tmp_path):
    assert not [word for word in lab.lab_command(tmp_path, None, []) if "default_url" in word or "port" in word]


def test_on_windows_lab_waits_for_jupyterlab(repository, monkeypatch):
    monkeypatch.setattr(lab, "os", types.SimpleNamespace(name="nt"))
    monkeypatch.setattr(subprocess, "call", lambda words, cwd: 3 if cwd == repository else 0)
    assert main(["lab"]) == 3


def test_an_unreadable_lesson_does_not_keep_lab_from_opening(repository, capsys):
    (repository / "notebooks" / "00_start_here.ipynb").write_text("{", encoding="utf-8")
    lab.sync_lessons(repository)
    assert "00_start_here: left as it is, because a file can't be read (" in capsys.readouterr().out
    (repository / "notebooks" / "00_start_here.ipynb").unlink()
    lab.sync_lessons(repository)
    assert "made the .ipynb" in capsys.readouterr().out
    lab.sync_lessons(repository)
    assert capsys.readouterr().out == ""


def test_jupyterlab_knows_its_options():
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.lessons.quick_start", *lab.QUIET, "--version"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith("4."), done.stderr


# --- run ---


def test_run_says_what_changed(repository, capsys):
    assert main(["run", "--kernel", "python3"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["00_start_here", "2"]
    ipynb = repository / "notebooks" / "00_start_here.ipynb"
    ipynb.write_text(ipynb.read_text(encoding="utf-8").replace('two\\n"', 'three\\n"'), encoding="utf-8")
    (repository / "notebooks" / "00_start_here.py").write_text(LESSON.replace("0.12345", "0.5"), encoding="utf-8")
    assert main(["run", "00", "--kernel", "python3"]) == 0
    shown = capsys.readouterr().out
    assert "2 changed" in shown and "cell 1: new or rewritten: '0.5'" in shown and "cell 2: 'three' -> 'two'" in shown


def test_run_names_a_failing_cell(repository, monkeypatch, capsys):
    installed = []
    monkeypatch.setattr(kernels, "kernels_ready", lambda: False)
    monkeypatch.setattr(kernels, "install_kernels", lambda: installed.append(True))
    (repository / "notebooks" / "00_start_here.py").write_text(LESSON.replace("0.12345", "1 / 0"), encoding="utf-8")
    assert main(["run", "--kernel", "python3"]) == 1
    assert "FAILED  00_start_here, code cell 1, `1 / 0` (00_start_here.py:5)" in capsys.readouterr().err
    assert installed


@pytest.mark.parametrize("name", ["run", "test"])
def test_an_unknown_lesson_is_refused(name, repository, capsys):
    assert main([name, "99_none"]) == 2
    assert "There is no lesson '99_none'; the lessons are: 00_start_here." in capsys.readouterr().err


def test_run_without_lessons_says_so(repository, capsys):
    (repository / "notebooks" / "00_start_here.py").unlink()
    assert main(["run"]) == 2
    assert "There is no lesson in" in capsys.readouterr().err


# --- test: pytest itself is replaced by what it would have reported ---


@pytest.fixture
def pytest_says(monkeypatch):
    """Replace pytest by a table: what was run last -> (status, {file: tally}); collect the calls."""
    calls, answers = [], {}

    def stand_in(root, arguments, workers):
        kernel = next((word.split("=")[1] for word in arguments if word.startswith("--nbval-kernel-name")), "library")
        calls.append((kernel, arguments))
        status, files = answers.get(kernel, (0, {"00_start_here": Tally(passed=2, seconds=1.0)}))
        run = PytestRun(status, 1.0)
        run.files.update(files)
        return run

    monkeypatch.setattr(check, "run_pytest", stand_in)
    monkeypatch.setattr(test, "sees_gpu", lambda: False)
    return calls, answers


def test_the_summary_without_a_gpu(repository, pytest_says, capsys):
    calls, _ = pytest_says
    assert main(["test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [kernel for kernel, _ in calls] == ["library", "attention-cpu"]
    assert [line.split()[-3:] for line in lines if "passed" in line and "1.0" in line] == [["2", "1.0", "passed"]] * 2
    assert lines[-3:] == [test.TWICE, test.NO_GPU, "4 passed, 0 failed"]
    assert {"--nbval-cell-timeout=120", "--twice"} <= set(calls[1][1])


def test_with_a_gpu_both_kernels_are_checked(repository, pytest_says, monkeypatch, capsys):
    calls, _ = pytest_says
    monkeypatch.setattr(test, "sees_gpu", lambda: True)
    monkeypatch.setattr(kernels, "kernels_ready", lambda: False)
    installed = []
    monkeypatch.setattr(kernels, "install_kernels", lambda: installed.append(True))
    assert main(["test", "--lessons-only"]) == 0
    shown = capsys.readouterr().out
    assert [kernel for kernel, _ in calls] == ["attention-cpu", "attention-cuda"] and installed
    assert shown.count("00_start_here ") == 2 and test.NO_GPU not in shown


RED = [
    ("a failing test", "library", (1, {"a": Tally(passed=3, failed=1)}), "5 passed, 1 failed"),
    ("no test at all", "library", (5, {}), "2 passed, 0 failed"),
    ("a broken collection", "library", (2, {"a": Tally(passed=3)}), "5 passed, 1 failed"),
    ("a failing cell", "attention-cpu", (1, {"00_start_here": Tally(passed=1, failed=1)}), "3 passed, 1 failed"),
    ("a dead kernel", "attention-cpu", (1, {"00_start_here": Tally(failed=1, skipped=4)}), "2 passed, 5 failed"),
    ("a lesson that did not run", "attention-cpu", (0, {}), "2 passed, 1 failed"),
    ("a run that broke off", "attention-cpu", (3, {"00_start_here": Tally(passed=2)}), "4 passed, 1 failed"),
]


@pytest.mark.parametrize(("name", "where", "answer", "last"), RED, ids=[row[0] for row in RED])
def test_what_turns_the_check_red(name, where, answer, last, repository, pytest_says, capsys):
    pytest_says[1][where] = answer
    assert main(["test"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_no_lesson_is_a_failure(repository, pytest_says, capsys):
    (repository / "notebooks" / "00_start_here.py").unlink()
    assert main(["test"]) == 1
    assert "no lesson was found" in capsys.readouterr().out


def test_parts_can_be_chosen(repository, pytest_says):
    calls, _ = pytest_says
    assert main(["test", "--library-only", "--workers", "1"]) == 0
    assert main(["test", "00"]) == 0
    assert [kernel for kernel, _ in calls] == ["library", "attention-cpu"]
    assert "-n" not in calls[0][1]


def test_pytest_is_really_run_and_read(tmp_path, capfd):
    (tmp_path / "test_three.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pytest.skip('no')\n", encoding="utf-8"
    )
    run = check.run_pytest(tmp_path, ["-q", "test_three.py"])
    total = run.total()
    assert (run.status, total.passed, total.failed, total.skipped) == (1, 1, 1, 1)
    assert run.files["test_three"].failures == ["test_b"]
    assert total.verdict == "1 FAILED" and Tally().verdict == "NOTHING RAN"
    assert "1 failed, 1 passed, 1 skipped" in capfd.readouterr().out
    refused = check.run_pytest(tmp_path, ["--no-such-option"])
    assert (refused.status, refused.total().failed) == (4, 1)


def test_workers_share_the_cores(tmp_path, monkeypatch):
    threads = []

    def stand_in(words, cwd, env):
        threads.append(env["OMP_NUM_THREADS"])
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", stand_in)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    check.run_pytest(tmp_path, [], workers=4)
    check.run_pytest(tmp_path, [], workers=16)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    check.run_pytest(tmp_path, [], workers=4)
    assert threads == ["2", "1", "3"]


def test_pytorch_is_asked_for_a_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert test.sees_gpu()


# --- lock ---


def test_the_lock_is_made_without_gpu_packages(repository, monkeypatch, capsys):
    def resolve(words, cwd):
        assert "--universal" in words and "--upgrade" in words
        (cwd / "requirements.lock").write_text("# x\nnumpy==2.0\nnvidia-nccl-cu13==1\ntriton==3\ntorch==2.13.0\n")
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", resolve)
    assert main(["lock", "--upgrade"]) == 0
    text = (repository / "requirements.lock").read_text(encoding="utf-8")
    assert text == lock.HEADER + "numpy==2.0\ntorch==2.13.0\n"
    assert "lines differ" in capsys.readouterr().out


def test_a_lock_that_cannot_be_made_says_so(repository, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "run", lambda words, cwd: types.SimpleNamespace(returncode=1))
    assert main(["lock"]) == 2
    assert "the lock is unchanged" in capsys.readouterr().err
