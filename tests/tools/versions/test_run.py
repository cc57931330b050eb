"""Notebooks run in the kernel of another environment, and what differs there is found."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbformat import v4

from tools.notebooks import pytest_runs
from tools.notebooks.lesson_files import Lesson
from tools.versions import __main__ as command
from tools.versions import colab

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_a_notebook_runs_as_on_colab_and_every_planted_difference_is_found(tmp_path, capfd):
    ask = "import os, sys\nprint('google.colab' in sys.modules, os.environ['COURSE_DEVICE'], os.listdir())"
    stored = {
        ask: "True cpu []\n",
        "print(0.1235)": "0.1234\n",
        "print(0.26)": "0.25\n",
        "1 / 0": "",
        "import warnings; warnings.warn('odd')": "",
    }
    cells = [
        v4.new_code_cell(source, outputs=[v4.new_output("stream", text=text)] if text else [], execution_count=count)
        for count, (source, text) in enumerate(stored.items(), start=1)
    ]
    lesson = Lesson("00_one", tmp_path)
    lesson.ipynb.write_text(json.dumps(v4.new_notebook(cells=cells)), encoding="utf-8")
    command.write_kernel(tmp_path, Path(sys.executable), colab.LAUNCHER, {"PYTHONPATH": str(colab.STAND_IN)})
    arguments = pytest_runs.lesson_arguments([lesson], command.KERNEL)
    hooks = ["-p", "tools.notebooks.nbval_hooks", f"--rootdir={tmp_path}"]
    run = pytest_runs.run_pytest(ROOT, [*hooks, *arguments], environment=command.surroundings(tmp_path))
    failed = [run.files["00_one"].failures, run.files["00_one"].passed]
    assert failed == [["Cell 2", "Cell 3", "Cell 4"], 2], capfd.readouterr().out


def test_nothing_leads_the_kernel_back_to_this_python(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    found = command.surroundings(tmp_path)
    assert found["JUPYTER_PATH"] == str(tmp_path) and not {"PYTHONPATH", "VIRTUAL_ENV"} & set(found)


@pytest.mark.parametrize(("options", "runs"), [([], [2]), (["--as-colab"], [1, 1])])
def test_on_colab_each_notebook_starts_without_the_course(options, runs, monkeypatch):
    seen, removed = [], []

    def run_pytest(root, arguments, environment):
        spec = json.loads(next(Path(environment["JUPYTER_PATH"]).rglob("kernel.json")).read_text(encoding="utf-8"))
        seen.append((len([word for word in arguments if word.endswith(".ipynb")]), spec["argv"][2], len(removed)))
        return SimpleNamespace(status=len(seen) > 1)

    monkeypatch.setattr(command, "run_pytest", run_pytest)
    monkeypatch.setattr(command, "remove_course", removed.append)
    monkeypatch.setattr(colab, "serve_working_tree", lambda *_: "file:///remote.git")
    assert command.main(["python", "exercises/01", "00", *options]) == (len(runs) > 1)
    assert [count for count, _, _ in seen] == runs
    module = colab.LAUNCHER if options else "ipykernel_launcher"
    assert [rest for _, *rest in seen] == [[module, number if options else 0] for number in range(1, len(runs) + 1)]


def test_an_unknown_notebook_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["python", "99"])
    assert "There is no lesson '99'; the lessons are: " in capsys.readouterr().err


@pytest.mark.parametrize("ref", ["main", "v1.0"])
def test_git_fetches_the_working_tree_from_the_courses_address(ref, tmp_path):
    address, root = SimpleNamespace(slug="ada/course", ref=ref), tmp_path / "root"
    root.mkdir()
    for name, text in ((".gitignore", "kept_out\n"), ("new.py", "1"), ("kept_out", "2")):
        (root / name).write_text(text, encoding="utf-8")
    variables = colab.colab_variables(colab.serve_working_tree(root, tmp_path / "remote.git", address), address)
    clone = ["git", "clone", "--quiet", "--branch", ref, "https://github.com/ada/course", str(tmp_path / "clone")]
    subprocess.run(clone, env={**os.environ, **variables}, check=True, capture_output=True)
    assert sorted(path.name for path in (tmp_path / "clone").iterdir()) == [".git", ".gitignore", "new.py"]
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "kept_out", "new.py"], "the tree is untouched"
