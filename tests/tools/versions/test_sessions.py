"""noxfile.py: which versions are tried, how each environment is made; the book and the workflow say the same."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement

from course_lib.command import main
from tools.commands import test_versions

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COLAB_LIST = (ROOT / "tools" / "versions" / "colab-2026-08.txt").read_text(encoding="utf-8")
ON_COLAB = dict(line.split("==") for line in COLAB_LIST.splitlines() if not line.startswith("#"))
RUN = (sys.executable, "-m", "tools.versions")
PYTHON = str(Path("bin") / "python")


@pytest.fixture(scope="module")
def noxfile():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class Session:
    """Notes what a session does; `freeze` are the answers to uv pip freeze."""

    bin, posargs = "bin", ["01"]

    def __init__(self, *freeze):
        self.done, self.freeze = [], list(freeze)

    def install(self, *arguments):
        self.done.append(("install", *arguments))

    def run(self, *arguments, **options):
        if arguments[:3] == ("uv", "pip", "freeze"):
            return self.freeze.pop(0)
        assert options == {"external": True}
        self.done.append(arguments)

    def error(self, message):
        raise RuntimeError(message)


def test_the_pythons_are_the_oldest_and_the_newest_of_the_classifiers(noxfile):
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert (noxfile.oldest.python, noxfile.newest.python) == (pythons[0], pythons[-1])
    assert f"(Python {noxfile.colab.python}." in COLAB_LIST
    assert test_versions.SESSIONS == ("colab", "oldest", "newest")


def test_colabs_versions_do_for_the_course():
    for line in PROJECT["dependencies"]:
        need = Requirement(line)
        assert need.specifier.contains(ON_COLAB[need.name]), f"Colab's {need.name} does not do for {line}"
    assert ON_COLAB["ipython"] == "7.34.0" and ON_COLAB["ipykernel"] == "6.17.1"


@pytest.mark.slow
def test_on_colab_pip_would_install_the_course_and_change_nothing(tmp_path):
    """Of the packages there is what pip reads of them: their names and versions."""
    environment = tmp_path / "colab"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python3.*/site-packages")
    for name, version in ON_COLAB.items():
        folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    stem = f"attention_course-{PROJECT['version']}"
    needs = "".join(f"Requires-Dist: {line}\n" for line in PROJECT["dependencies"])
    with zipfile.ZipFile(wheel := tmp_path / f"{stem}-py3-none-any.whl", "w") as archive:
        about = f"Metadata-Version: 2.1\nName: attention-course\nVersion: {PROJECT['version']}\n{needs}"
        archive.writestr(f"{stem}.dist-info/METADATA", about)
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    said = subprocess.run([*pip, "--dry-run", "--no-index", str(wheel)], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert f"Would install attention-course-{PROJECT['version']}\n" in said.stdout


def test_the_oldest_and_the_newest_are_chosen_by_uv(noxfile):
    session = Session()
    noxfile.oldest(session)
    noxfile.newest(session)
    course = ("install", "--no-deps", ".")
    needed = ("-r", "pyproject.toml", "--extra", "lessons")
    assert session.done == [
        ("install", "--resolution", "lowest-direct", *needed), course, (*RUN, PYTHON, "01"),
        ("install", "--upgrade", *needed), course, (*RUN, PYTHON, "01"),
    ]  # fmt: skip


def test_on_colab_the_setup_cell_may_change_nothing_but_the_course(noxfile):
    session = Session("numpy==2\n", "attention-course @ git+x\nnumpy==2\n")
    noxfile.colab(session)
    assert session.done == [("install", "-r", "tools/versions/colab-2026-08.txt"), (*RUN, "--as-colab", PYTHON, "01")]
    with pytest.raises(RuntimeError, match="the setup cell changed packages"):
        noxfile.colab(Session("numpy==2\n", "numpy==3\n"))


@pytest.mark.parametrize(("status", "said"), [(0, "Every cell agrees."), (1, "could not be tried: oldest.")])
def test_the_command_calls_nox_once_for_each(status, said, tmp_path, monkeypatch, capsys):
    calls = []

    def run(command, cwd, env):
        calls.append((command, env.get("UV_TORCH_BACKEND")))
        return SimpleNamespace(returncode=status * ("oldest" in command))

    monkeypatch.setattr(test_versions.subprocess, "run", run)
    monkeypatch.chdir(ROOT)
    assert main(["test-versions"]) == status
    assert said in capsys.readouterr().out
    assert [command[4] for command, _ in calls] == list(test_versions.SESSIONS)
    assert len({command[6] for command, _ in calls}) == 3 and not any(Path(each[0][6]).exists() for each in calls)
    assert main(["test-versions", "newest", "--keep", str(tmp_path), "--cpu", "--lessons", "01", "02"]) == 0
    kept = ["--envdir", str(tmp_path), "--reuse-venv", "yes", "--", "01", "02"]
    assert calls[-1] == ([sys.executable, "-m", "nox", "--session", "newest", *kept], "cpu")


def test_the_weekly_workflow_runs_all_of_them(noxfile):
    workflow = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["versions"]["steps"]
    pythons = next(step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", ""))
    assert set(pythons.split()) == {getattr(noxfile, name).python for name in test_versions.SESSIONS}
    assert steps[-1]["run"] == ".venv/bin/course test-versions --cpu"


def test_the_books_page_names_these_versions(noxfile):
    page = (ROOT / "book" / "versions.md").read_text(encoding="utf-8")
    extras = PROJECT["optional-dependencies"]
    bounds = {
        need.name: str(need.specifier)[2:] for need in map(Requirement, PROJECT["dependencies"] + extras["lessons"])
    }
    for name, versions in (("colab", ON_COLAB), ("oldest", bounds)):
        python = getattr(noxfile, name).python
        numbers = [versions[package] for package in ("torch", "numpy", "matplotlib", "ipykernel")]
        assert f"| {name} | {' | '.join([python, *numbers])} |" in page
