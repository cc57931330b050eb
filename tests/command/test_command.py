"""The `course` command: its words, its errors, what it hands to JupyterLab and to pytest."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from course_lib import command
from course_lib.about import repository_address
from course_lib.command import clone, kernels, lab, main
from course_lib.command.subcommands import GROUPS, SUBCOMMANDS
from tools import notebooks
from tools.commands import lock, test
from tools.notebooks import Tally, pytest_runs
from tools.notebooks.pytest_runs import PytestRun

ROOT = Path(__file__).resolve().parents[2]
FIRST = "notebooks/sources/00_start_here.py"
LESSON = '# %% [markdown]\n# # One\n\n# %%\n0.12345\n\n# %%\nprint("two")\n'


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one tiny lesson; the command is called from inside it."""
    (tmp_path / "notebooks" / "sources").mkdir(parents=True)
    for name in ("pyproject.toml", "requirements.lock", "notebooks/jupytext.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "notebooks" / "sources" / "00_start_here.py").write_text(LESSON, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(kernels, "kernels_ready", lambda **_: True)
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_subcommand_in_groups(words, capsys):
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in SUBCOMMANDS)
    titles = [shown.index(f"\n{title}:") for title in GROUPS]
    assert titles == sorted(titles) and "learn" in GROUPS


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_it_names_its_version(word, capsys):
    assert main([word]) == 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert capsys.readouterr().out == f"course {project['version']}\n"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("labs", "there is no command 'labs'. Did you mean `course lab`?"),
        ("docter", "there is no command 'docter'. Did you mean `course doctor`?"),
        ("dance", "there is no command 'dance'. `course` alone lists them all."),
    ],
)
def test_an_unknown_command_is_refused(word, said, capsys):
    assert main([word]) == 2
    assert said in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_the_command_quietly():
    """As in `course doctor FILE.py:NAME | head -n 1`."""
    code = "import sys; from course_lib.command import main, start\n"
    code += "start.run = lambda args: print('x' * 1_000_000) or 0\nsys.exit(main(['start']))"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


NEEDING = [command for command in SUBCOMMANDS.values() if command.packages]


@pytest.mark.parametrize("needing", NEEDING, ids=lambda needing: needing.name)
def test_a_missing_package_gets_one_sentence_with_a_command(needing, monkeypatch, capsys):
    extra, package = needing.extra, needing.packages.split()[0]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extra in extras
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(clone.importlib.util, "find_spec", lambda name: None if name == package else object())
    monkeypatch.setattr(command, "load", lambda _: types.SimpleNamespace())
    monkeypatch.setattr(command, "parse", lambda *_: types.SimpleNamespace())
    assert main([needing.name]) == 2
    said = capsys.readouterr().err
    assert f"course {needing.name}: {package} is needed for this and not installed. Install it with: " in said
    assert said.strip().endswith(f'-m pip install -e ".[{extra}]"')


def test_outside_a_clone_the_command_names_the_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert clone.install_hint("teach") == (
        f'{sys.executable} -m pip install "attention-course[teach] @ git+{repository_address()}"'
    )


def test_help_imports_nothing_heavy():
    seen = "import sys; sys.argv = ['course', '--help']\nfrom course_lib.command import main\nmain()\n"
    seen += "print([m for m in ('torch', 'nbformat', 'jupytext', 'numpy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", [["lab", "--sources"], ["test"], ["run"], ["lock"]])
def test_outside_a_clone_it_says_so(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "pyproject.toml").write_text("not toml [", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "pyproject.toml").write_text('[project]\nname = "another"', encoding="utf-8")
    monkeypatch.chdir(tmp_path / "inside")
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"course {words[0]}: {tmp_path / 'inside'} is not inside a clone of attention-course" in said


CLONE_ONLY = [name for name, command in SUBCOMMANDS.items() if command.module.startswith("tools.")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what a wheel installs, as far as the command itself goes."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "course_lib").mkdir()
    for name in ("__init__.py", "about.py", "workspace.py", "atomic_file.py"):
        shutil.copy(ROOT / "course_lib" / name, folder / "course_lib" / name)
    shutil.copytree(ROOT / "course_lib" / "command", folder / "course_lib" / "command")
    return folder


def course(path, words, cwd):
    """Run the command where Python finds packages in this folder first."""
    words = [sys.executable, "-m", "course_lib.command", *words]
    return subprocess.run(words, cwd=cwd, env={**os.environ, "PYTHONPATH": str(path)}, capture_output=True, text=True)


def test_without_a_clone_a_command_that_needs_one_says_so(installed):
    assert len(CLONE_ONLY) > 8
    code = "from course_lib.command import main\n"
    code += f"print([main([name]) for name in {CLONE_ONLY}], main(['lab', '--sources']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True)
    assert done.stdout.split("] ") == [str([2] * len(CLONE_ONLY))[:-1], "2\n"]
    first = done.stderr.splitlines()[0]
    assert "this needs a clone of attention-course, not only the installed package: git clone https://" in first
    assert "is not inside a clone" in done.stderr.splitlines()[-1]


def test_another_package_called_tools_is_passed_over(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("raise ImportError('the wrong tools')", encoding="utf-8")
    done = course(f"{tmp_path}{os.pathsep}{ROOT}", ["lock", "--help"], tmp_path)
    assert done.returncode == 0 and "usage: course lock" in done.stdout, done.stderr


@pytest.mark.parametrize("words", [["test", "--fast"], ["test", "--library-only", "--lessons-only"]])
def test_unknown_words_are_refused(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "usage: course" in capsys.readouterr().err


def test_the_command_is_a_module_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["course", "lock", "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("course_lib.command", run_name="__main__")
    assert stopped.value.code == 0 and "usage: course lock" in capsys.readouterr().out


def test_an_interruption_is_quiet(repository, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(notebooks, "sync_all", stop)
    assert main(["lab", "--sources"]) == 130
    assert "Stopped." in capsys.readouterr().err


# --- kernels ---


def test_kernels_are_installed_under_a_prefix(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "sees_gpu", lambda: True)
    assert not kernels.kernels_ready(str(tmp_path))
    settings = tmp_path / "share/jupyter/lab/settings/overrides.json"
    settings.parent.mkdir(parents=True)
    viewers = "@jupyterlab/docmanager-extension:plugin"
    settings.write_text(json.dumps({"mine": 1, viewers: {"defaultViewers": {"csv": "x"}}}), encoding="utf-8")
    assert main(["kernels", "--prefix", str(tmp_path)]) == 0
    assert kernels.kernels_ready(str(tmp_path), gpu=True)
    for name, (title, device) in kernels.KERNELS.items():
        spec = json.loads((tmp_path / "share/jupyter/kernels" / name / "kernel.json").read_text(encoding="utf-8"))
        assert (spec["display_name"], spec["env"]) == (title, {"COURSE_DEVICE": device})
        assert spec["argv"][0] == sys.executable
    merged = json.loads(settings.read_text(encoding="utf-8"))
    assert merged["mine"] == 1
    assert merged[viewers]["defaultViewers"] == {"csv": "x", "python": "Jupytext Notebook"}
    assert str(tmp_path) in capsys.readouterr().out


def test_a_kernel_of_another_python_is_not_ready(tmp_path):
    kernels.install_kernels(str(tmp_path), gpu=True)
    path = tmp_path / "share/jupyter/kernels/attention-cuda/kernel.json"
    path.write_text(path.read_text(encoding="utf-8").replace(sys.executable, "/elsewhere/python"), encoding="utf-8")
    assert not kernels.kernels_ready(str(tmp_path))


def test_without_a_gpu_no_cuda_kernel_is_offered(tmp_path, monkeypatch):
    kernels.install_kernels(str(tmp_path), gpu=True)
    monkeypatch.setattr(kernels, "sees_gpu", lambda: False)
    folder = kernels.install_kernels(str(tmp_path))
    assert [path.name for path in folder.iterdir()] == ["attention-cpu"]
    assert kernels.kernels_ready(str(tmp_path)) and not kernels.kernels_ready(str(tmp_path), gpu=True)


# --- lab ---


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """A folder outside of any clone, with no display, no root and a home: what `course lab` makes its copies in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lab, "is_root", lambda: False)
    monkeypatch.setattr(lab, "has_display", lambda: True)
    monkeypatch.setattr(lab, "prepare_jupyter", lambda: None)
    return tmp_path / "my_course"


@pytest.fixture
def started(monkeypatch):
    """What would have been started."""
    got = []
    monkeypatch.setattr(os, "execv", lambda path, words: got.append(words))
    return got


@pytest.mark.slow
def test_lab_opens_the_learners_own_copies(copies, started, capsys):
    assert main(["lab"]) == 0
    (words,) = started
    assert (
        f"--ServerApp.root_dir={copies}" in words
        and words[-1] == "--LabApp.default_url=/lab/tree/1_lessons/00_start_here.ipynb"
    )
    assert (copies / "2_exercises" / "01_exercises.ipynb").exists() and not list(copies.rglob("*.py"))
    assert re.fullmatch(r"\d+ notebooks copied\.\n", capsys.readouterr().out)
    assert main(["lab"]) == 0
    assert capsys.readouterr().out == ""


def test_as_root_lab_says_that_it_is_allowed(copies, started, monkeypatch, capsys):
    monkeypatch.setattr(lab, "is_root", lambda: True)
    assert main(["lab"]) == 0
    assert started[0][-1] == "--allow-root"
    assert "You are root, as in a container: JupyterLab runs with --allow-root." in capsys.readouterr().out
    assert main(["lab", "--allow-root"]) == 0
    assert started[1].count("--allow-root") == 1


@pytest.mark.slow
def test_without_a_display_no_browser_is_looked_for(copies, started, monkeypatch):
    monkeypatch.setattr(lab, "has_display", lambda: False)
    assert main(["lab"]) == 0
    assert started[0][-1] == "--no-browser"


@pytest.mark.parametrize(("variable", "there"), [("DISPLAY", True), ("WAYLAND_DISPLAY", True), (None, False)])
def test_a_display_is_known_by_its_variable(variable, there, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    if variable:
        monkeypatch.setenv(variable, ":0")
    assert lab.has_display() is there


def test_a_home_that_cannot_be_written_is_not_written(tmp_path, monkeypatch, capsys):
    assert lab.folders_for_home() == {}
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nowhere")
    folders = lab.folders_for_home()
    assert set(folders) == set(lab.AT_HOME) and not any("nowhere" in folder for folder in folders.values())
    assert f"Your home {tmp_path / 'nowhere'} can't be written" in capsys.readouterr().out


def test_kernels_that_cannot_be_installed_do_not_keep_lab_from_opening(monkeypatch, capsys):
    def refuse(**_):
        raise PermissionError("not yours")

    monkeypatch.setattr(kernels, "kernels_ready", lambda **_: False)
    monkeypatch.setattr(kernels, "install_kernels", refuse)
    lab.prepare_jupyter()
    assert "The kernels could not be added (not yours): the kernel Python 3" in capsys.readouterr().out


def test_lab_becomes_jupyterlab_with_the_pairs_in_step(repository, monkeypatch, capsys):
    got, installed = [], []
    monkeypatch.setattr(os, "execv", lambda path, words: got.append(words))
    monkeypatch.setattr(kernels, "kernels_ready", lambda **_: False)
    monkeypatch.setattr(kernels, "install_kernels", lambda **_: installed.append(True))
    monkeypatch.setattr(lab, "is_root", lambda: False)
    monkeypatch.setattr(lab, "has_display", lambda: True)
    assert main(["lab", "--sources", "--port", "8890", "--no-browser", "--", "--debug"]) == 0
    (words,) = got
    assert words[:3] == [sys.executable, "-m", "course_lib.command.lab_server"]
    assert f"--ServerApp.root_dir={repository}" in words
    assert words[-3:] == ["--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb", "--no-browser", "--debug"]
    assert {"--port=8890", "--ServerApp.port_retries=0", "--LabApp.news_url=None"} <= set(words)
    assert installed and Path.cwd() == repository
    assert "00_start_here: made the .ipynb from the .py." in capsys.readouterr().out


def test_lab_opens_the_folder_while_there_is_no_first_lesson(tmp_path):
    words = lab.lab_command(tmp_path, "00_start_here.ipynb", None, [])
    assert not [word for word in words if "default_url" in word or word.startswith(("--port", "--ServerApp.port"))]


def test_lab_gives_the_address_where_the_course_is_open_already(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "execv", lambda path, words: print("a new JupyterLab"))
    (tmp_path / "jpserver-1.json").write_text("{", encoding="utf-8")  # being written
    answer = type("Answer", (BaseHTTPRequestHandler,), {"do_GET": lambda handler: handler.send_response_only(200) or
                  handler.end_headers(), "log_message": lambda *_: None})  # fmt: skip
    with ThreadingHTTPServer(("127.0.0.1", 0), answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        told = {"port": port, "root_dir": str(repository), "url": f"http://127.0.0.1:{port}/", "token": "secret"}
        (tmp_path / "jpserver-2.json").write_text(json.dumps(told), encoding="utf-8")
        here = f"The course is already open: http://127.0.0.1:{port}/lab?token=secret"
        for options, opened in (([], here), (["--port", f"{port}"], here), (["--port", "1"], "a new JupyterLab")):
            assert main(["lab", "--sources", *options]) == 0
            assert capsys.readouterr().out.splitlines()[-1] == opened, options
        server.shutdown()
    assert main(["lab", "--sources"]) == 0  # it has ended, but its file is still there
    assert capsys.readouterr().out.splitlines()[-1] == "a new JupyterLab"


def test_on_windows_lab_waits_for_jupyterlab(repository, monkeypatch):
    monkeypatch.setattr(lab, "folders_for_home", dict)
    monkeypatch.setattr(lab, "os", types.SimpleNamespace(name="nt", environ={}))
    monkeypatch.setattr(subprocess, "call", lambda words, cwd: 3 if cwd == repository else 0)
    assert main(["lab", "--sources"]) == 3


def test_an_unreadable_lesson_does_not_keep_lab_from_opening(repository, capsys):
    (repository / "notebooks" / "00_start_here.ipynb").write_text("{", encoding="utf-8")
    notebooks.sync_all(repository)
    assert "00_start_here: left as it is, because a file can't be read (" in capsys.readouterr().out
    (repository / "notebooks" / "00_start_here.ipynb").unlink()
    notebooks.sync_all(repository)
    assert "made the .ipynb" in capsys.readouterr().out
    notebooks.sync_all(repository)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_jupyterlab_knows_its_options():
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.command.lab_server", *lab.QUIET, "--version"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith("4."), done.stderr


# --- run ---


@pytest.mark.slow
def test_run_says_what_changed(repository, capsys):
    assert main(["run", "--kernel", "python3"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["00_start_here", "2"]
    ipynb = repository / "notebooks" / "00_start_here.ipynb"
    ipynb.write_text(ipynb.read_text(encoding="utf-8").replace('two\\n"', 'three\\n"'), encoding="utf-8")
    (repository / FIRST).write_text(LESSON.replace("0.12345", "0.5"), encoding="utf-8")
    assert main(["run", "00", "--kernel", "python3"]) == 0
    shown = capsys.readouterr().out
    assert "2 changed" in shown and "cell 1: new or rewritten: '0.5'" in shown and "cell 2: 'three' -> 'two'" in shown


@pytest.mark.slow
def test_run_names_a_failing_cell(repository, monkeypatch, capsys):
    installed = []
    monkeypatch.setattr(kernels, "kernels_ready", lambda **_: False)
    monkeypatch.setattr(kernels, "install_kernels", lambda **_: installed.append(True))
    (repository / FIRST).write_text(LESSON.replace("0.12345", "1 / 0"), encoding="utf-8")
    assert main(["run", "--kernel", "python3"]) == 1
    assert "FAILED  00_start_here, code cell 1, `1 / 0` (00_start_here.py:5)" in capsys.readouterr().err
    assert installed


@pytest.mark.parametrize("name", ["run", "test"])
def test_an_unknown_lesson_is_refused(name, repository, capsys):
    assert main([name, "99_none"]) == 2
    assert "There is no lesson '99_none'; the lessons are: 00_start_here." in capsys.readouterr().err


def test_run_without_lessons_says_so(repository, capsys):
    (repository / FIRST).unlink()
    assert main(["run"]) == 2
    assert "There is no lesson in" in capsys.readouterr().err


# --- test: pytest itself is replaced by what it would have reported ---


@pytest.fixture
def pytest_says(monkeypatch):
    """Replace pytest by a table: what was run last -> (status, {file: tally}); collect the calls."""
    calls, answers = [], {}

    def stand_in(root, arguments, workers=1, quiet=False):
        kernel = next((word.split("=")[1] for word in arguments if word.startswith("--nbval-kernel-name")), "library")
        calls.append((kernel, arguments))
        status, files = answers.get(kernel, (0, {"00_start_here": Tally(passed=2, seconds=1.0)}))
        run = PytestRun(status, 1.0)
        run.files.update(files)
        return run

    monkeypatch.setattr(test, "run_pytest", stand_in)
    monkeypatch.setattr(test, "sees_gpu", lambda: False)
    return calls, answers


def test_the_summary_says_what_was_not_checked(repository, pytest_says, monkeypatch, capsys):
    calls, _ = pytest_says
    monkeypatch.setattr(test.shutil, "which", lambda name: None)
    assert main(["test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(kernel for kernel, _ in calls) == ["attention-cpu", "library"]
    assert [line.split()[-3:] for line in lines if "passed" in line and "1.0" in line] == [["2", "1.0", "passed"]] * 2
    said = [test.ONCE, test.NO_GPU, test.NO_SANDBOX, test.NO_BROWSER]
    assert lines[-5:] == [*said, "4 passed, 0 failed"]
    lessons = dict(calls)["attention-cpu"]
    assert "--nbval-cell-timeout=300" in lessons and "--twice" not in lessons


def test_with_a_gpu_both_kernels_are_checked(repository, pytest_says, monkeypatch, capsys):
    calls, _ = pytest_says
    monkeypatch.setattr(test, "sees_gpu", lambda: True)
    monkeypatch.setattr(kernels, "kernels_ready", lambda **_: False)
    installed = []
    monkeypatch.setattr(kernels, "install_kernels", lambda **_: installed.append(True))
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
    (repository / FIRST).unlink()
    assert main(["test"]) == 1
    assert "no lesson was found" in capsys.readouterr().out


def test_parts_can_be_chosen(repository, pytest_says):
    calls, _ = pytest_says
    assert main(["test", "--library-only", "--workers", "1"]) == 0
    assert main(["test", "00"]) == 0
    assert main(["test", "--sandbox-only", "--workers", "1"]) == 0
    assert main(["test", "--every-page"]) == 0
    assert [kernel for kernel, _ in calls] == ["library", "attention-cpu", "library", "library"]
    assert "-n" not in calls[0][1] and "sandbox" in calls[2][1] and test.EVERY_PAGE in calls[3][1]
    assert (Path(__file__).resolve().parents[2] / test.EVERY_PAGE).exists()


@pytest.mark.slow
def test_pytest_is_really_run_and_read(tmp_path, capfd):
    (tmp_path / "test_three.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pytest.skip('no')\n", encoding="utf-8"
    )
    run = pytest_runs.run_pytest(tmp_path, ["-q", "test_three.py"])
    total = run.total()
    assert (run.status, total.passed, total.failed, total.skipped) == (1, 1, 1, 1)
    assert run.files["test_three"].failures == ["test_b"]
    assert total.verdict == "1 FAILED" and Tally().verdict == "NOTHING RAN"
    assert "1 failed, 1 passed, 1 skipped" in capfd.readouterr().out
    refused = pytest_runs.run_pytest(tmp_path, ["--no-such-option"])
    assert (refused.status, refused.total().failed) == (4, 1)


def test_workers_share_the_cores(tmp_path, monkeypatch):
    threads = []

    def stand_in(words, cwd, env, **_):
        threads.append(env["OMP_NUM_THREADS"])
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", stand_in)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    pytest_runs.run_pytest(tmp_path, [], workers=4)
    pytest_runs.run_pytest(tmp_path, [], workers=16)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    pytest_runs.run_pytest(tmp_path, [], workers=4)
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
