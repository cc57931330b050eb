"""pyproject.toml is the one truth about versions: whatever else states one agrees with it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from rattler import MatchSpec
from rattler.exceptions import InvalidMatchSpecError

from tools import set_up

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"pytorch": "torch"}
ONLY_CONDA = {"python", "pip", "hatchling", "nbgitpuller"}


def read(name):
    path = ROOT / name
    assert path.exists(), f"{name} is missing."
    return path.read_text(encoding="utf-8")


def requirements(*extras):
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}
    if found.pop(PROJECT["name"], None):  # an extra that takes another one in
        found |= requirements(*(name for line in lines for name in Requirement(line).extras))
    return found


def pythons():
    """The Python versions of the classifiers, oldest first."""
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    return sorted((match[1] for match in found if match), key=Version)


def locked():
    """The pins of the lock: a name may have several, for different Pythons."""
    return [Requirement(line) for line in read("requirements.lock").splitlines() if line and not line.startswith("#")]


def test_pythons_agree_within_pyproject():
    assert PROJECT["requires-python"] == f">={pythons()[0]}"


def test_every_dependency_has_a_lower_bound():
    for extra in PROJECT["optional-dependencies"]:
        for name, requirement in requirements(extra).items():
            if name != PROJECT["name"]:
                assert re.match(r">=|==", str(requirement.specifier)), f"{name} has no lower bound"


def test_environment_yml_states_the_same_bounds():
    environment = yaml.safe_load(read("environment.yml"))
    assert environment["name"] == PROJECT["name"]
    assert environment["channels"] == ["conda-forge"]
    stated = {}
    for line in environment["dependencies"]:
        if isinstance(line, str):
            name, bound = re.fullmatch(r"([\w-]+)(.*)", line).groups()
            stated[CONDA_NAMES.get(name, name)] = re.sub(r"^=(?=\d)", "==", bound)
    assert stated.pop("python").removeprefix("==") in pythons()  # one version: repo2docker reads no range
    wanted = {name: str(requirement.specifier) for name, requirement in requirements("lessons").items()}
    assert {name: bound for name, bound in stated.items() if name not in ONLY_CONDA} == wanted
    build = tomllib.loads(read("pyproject.toml"))["build-system"]["requires"]
    assert [f"hatchling{stated['hatchling']}"] == build
    assert {"pip": ["-e ."]} in environment["dependencies"]


def test_conda_understands_environment_yml():
    found = {}
    for line in yaml.safe_load(read("environment.yml"))["dependencies"]:
        if isinstance(line, str):
            spec = MatchSpec(line, strict=True)
            found[spec.name.normalized] = str(spec.version)
    assert found["python"].removesuffix(".*") in pythons() and found["pytorch"] == str(
        requirements()["torch"].specifier
    )
    with pytest.raises(InvalidMatchSpecError):
        MatchSpec("pytorch >>= 2.6", strict=True)


def test_binder_runs_the_courses_own_commands():
    lines = [line for line in read("postBuild").splitlines() if line and not line.startswith("#")]
    assert (ROOT / "postBuild").stat().st_mode & 0o111, "repo2docker runs it only if it may be executed"
    assert lines[0] == "set -euo pipefail" and lines[-1] == "course kernels"
    assert not (ROOT / "Dockerfile").exists() and not (ROOT / "binder").exists(), "they would replace environment.yml"


@pytest.mark.parametrize("python", pythons())
def test_the_lock_holds_a_fitting_version_of_everything(python):
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.9"}
    pins = {}
    for pin in locked():
        if pin.marker is None or pin.marker.evaluate(environment):
            pins[canonicalize_name(pin.name)] = next(iter(pin.specifier))
    for name, requirement in requirements("lessons", "test", "dev").items():
        if name == PROJECT["name"]:
            continue
        assert name in pins, f"requirements.lock lacks {name} for Python {python}: run make lock"
        assert pins[name].operator == "=="
        assert requirement.specifier.contains(pins[name].version), (
            f"{name} {pins[name].version} is outside {requirement}"
        )


def test_the_lock_leaves_the_platform_to_pytorch():
    names = {pin.name for pin in locked()}
    assert "torch" in names
    assert not [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]
    assert "+cpu" not in read("requirements.lock"), "a local build can't be installed elsewhere"
    assert not re.search(r"(?m)^\s*-|://|^[^#]*@", read("requirements.lock")), "the lock names an index or a file"


def test_workflows_use_these_pythons():
    matrix = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == pythons()
    weekly = yaml.safe_load(read(".github/workflows/weekly.yml"))["jobs"]
    bounds = weekly["bounds"]["strategy"]["matrix"]["include"]
    assert {row["versions"]: (row["python"], row["resolution"]) for row in bounds} == {
        "newest": (pythons()[-1], "highest"),
        "oldest": (pythons()[0], "lowest-direct"),
    }


def test_ci_runs_the_readmes_command():
    assert "make test" in read(".ci/run") and "make test" in read("README.md")
    assert "make test" in read(".github/workflows/cuda.yml")
    assert ".ci/run" in read(".github/workflows/tests.yml")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "Makefile", "requirements.lock"])
def test_stated_pythons(name):
    span = re.findall(r"3\.\d+ to 3\.\d+", read(name))
    assert span, f"{name} states no range of Python versions such as '{pythons()[0]} to {pythons()[-1]}'"
    assert set(span) == {f"{pythons()[0]} to {pythons()[-1]}"}


def test_the_set_up_takes_these_pythons():
    assert (".".join(map(str, set_up.OLDEST)), ".".join(map(str, set_up.NEWEST))) == (pythons()[0], pythons()[-1])
    searched = re.search(r"SEARCHED := (.*)", read("Makefile"))[1].split()
    assert searched == ["python3", *(f"python{version}" for version in pythons()[::-1]), "python"]


def test_the_readme_states_the_oldest_pytorch():
    oldest = next(iter(requirements()["torch"].specifier)).version
    assert set(re.findall(r"PyTorch (\d+\.\d+)", read("README.md"))) == {oldest}


def test_the_version_and_the_licence_stand_everywhere():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert f"## {Version(PROJECT['version']).base_version}" in read("CHANGELOG.md")
    assert read("LICENSE").startswith(PROJECT["license"])


def test_ruff_reads_the_oldest_python():
    ruff = tomllib.loads(read("pyproject.toml"))["tool"]["ruff"]
    assert ruff["target-version"] == "py" + pythons()[0].replace(".", "")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_no_file_names_a_place_outside_the_project():
    """An index's address or a folder of one machine in a file would not hold elsewhere."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    own = re.compile(re.escape(str(ROOT)) + r"\b|--(?:extra-)?index-url|" + re.escape(sys.prefix) + r"\b")
    for name in filter(None, tracked.split("\0")):
        path = ROOT / name
        if path.suffix not in (".svg", ".png", ".woff2", ".xz", ".npz") and path.exists() and path != Path(__file__):
            assert not own.search(path.read_text(encoding="utf-8")), f"{name} names a place outside the project"
