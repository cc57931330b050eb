"""A small lesson in a repository of its own, run once, that tests may copy and harm."""

import shutil
from pathlib import Path

import pytest

from tools.notebooks.address import read_address
from tools.notebooks.lesson_files import Lesson, find_notebooks
from tools.notebooks.run import run_lesson

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def address():
    """The address that stands in pyproject.toml."""
    return read_address(ROOT)


@pytest.fixture(scope="session")
def real_lessons() -> list[Lesson]:
    """The course's own lessons; that there are any is itself a check."""
    lessons = find_notebooks(ROOT, folders=("",))
    assert lessons, "notebooks/ holds no lesson: nothing was checked."
    return lessons


@pytest.fixture(scope="session")
def small_repository(tmp_path_factory, address) -> Path:
    """A repository with one small lesson, run from its .py."""
    root = tmp_path_factory.mktemp("small")
    (root / "notebooks" / "sources").mkdir(parents=True)
    for name in ("pyproject.toml", "notebooks/jupytext.toml"):
        shutil.copy(ROOT / name, root / name)
    source = (Path(__file__).parent / "notebooks" / "small_lesson.py").read_text(encoding="utf-8")
    source = source.replace("COLAB_LINK", address.colab("00_small")).replace("SETUP_CELL", address.setup_cell)
    (root / "notebooks" / "sources" / "00_small.py").write_text(source, encoding="utf-8")
    run_lesson(find_notebooks(root)[0], kernel="python3")
    return root


@pytest.fixture
def small_lesson(small_repository, tmp_path) -> Lesson:
    """A fresh copy of the small lesson."""
    shutil.copytree(small_repository, tmp_path, dirs_exist_ok=True)
    return find_notebooks(tmp_path)[0]
