"""What the tests of `check` and `progress` share: a kernel that has seen nothing, and a workspace."""

import pytest

from course_lib.exercises import attempts, progress_store
from course_lib.exercises.progress_location import PROGRESS_FILE, PROGRESS_VARIABLE
from course_lib.workspace import MARKER


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """A kernel that has just started, in an empty folder outside of every workspace; called, it starts anew."""

    def start():
        monkeypatch.setattr(progress_store, "_KERNEL", {})
        monkeypatch.setattr(attempts, "_LAST", {})

    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    start()
    return start


@pytest.fixture
def workspace(kernel, tmp_path, monkeypatch):
    """A learner's workspace; the kernel runs in a folder below it."""
    (tmp_path / MARKER).touch()
    (tmp_path / "sheets").mkdir()
    monkeypatch.chdir(tmp_path / "sheets")
    return tmp_path


@pytest.fixture
def file(workspace):
    """The file in which the workspace keeps progress; it isn't there yet."""
    return workspace / PROGRESS_FILE
