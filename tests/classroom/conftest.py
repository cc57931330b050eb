"""The real walls, shared by all tests that need no other: torch is imported behind them once."""

import dataclasses
import functools
import os
import shutil
import threading

import pytest

from course_lib.classroom.sandbox import Limits, NoSandbox, Sandbox, choose

SECRET = "COURSE_TEST_PASSWORD"  # a variable of the teacher's environment


@functools.cache
def find_walls():
    """Bubblewrap, or the reason why it isn't there."""
    if shutil.which("bwrap") is None:
        return "needs bubblewrap (Debian, Ubuntu: apt install bubblewrap)"
    try:
        return choose()
    except NoSandbox as error:
        return str(error)


def pytest_collection_modifyitems(items):
    """Mark what needs the walls, so that it can be chosen with `-m sandbox`."""
    for item in items:
        if "walls" in getattr(item, "fixturenames", ()):
            item.add_marker("sandbox")


def pytest_runtest_setup(item):
    """Skip what needs the walls where there are none; here rather than in the fixture, so that one line counts all."""
    if "walls" in item.fixturenames and isinstance(reason := find_walls(), str):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def walls():
    return find_walls()


@pytest.fixture(scope="session")
def box(walls):
    """A warm sandbox. The thread that started it is gone, as those of a worker may be."""
    os.environ[SECRET] = "hunter2"
    with Sandbox(walls, Limits()) as sandbox:

        def start():
            with sandbox.session():
                pass

        starter = threading.Thread(target=start)
        starter.start()
        starter.join()
        assert not sandbox._process.is_gone(), "bubblewrap died with the thread that asked for it"
        yield sandbox


@pytest.fixture(scope="session")
def single(walls):
    """One session of the slow kind: a process that was started for one notebook."""
    os.environ[SECRET] = "hunter2"
    with Sandbox(dataclasses.replace(walls, warm=False), Limits()).session() as session:
        yield session
