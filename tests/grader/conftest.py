"""The real sandbox, shared by all tests that need no other: it imports torch once."""

import dataclasses
import functools
import os
import shutil
import threading

import pytest

from course_grader.sandbox import NoSandbox, ResourceLimits, Sandbox, choose_isolation

SECRET = "COURSE_TEST_PASSWORD"  # a variable of the teacher's environment


@functools.cache
def find_isolation():
    """Bubblewrap, or the reason why it isn't there."""
    if shutil.which("bwrap") is None:
        return "needs bubblewrap (Debian, Ubuntu: apt install bubblewrap)"
    try:
        return choose_isolation()
    except NoSandbox as error:
        return str(error)


def pytest_collection_modifyitems(items):
    """Mark what needs a sandbox, so that it can be chosen with `-m sandbox`."""
    for item in items:
        if "isolation" in getattr(item, "fixturenames", ()):
            item.add_marker("sandbox")


def pytest_runtest_setup(item):
    """Skip what needs a sandbox where there is none; here rather than in the fixture, so that one line counts all."""
    if "isolation" in item.fixturenames and isinstance(reason := find_isolation(), str):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def isolation():
    return find_isolation()


@pytest.fixture(scope="session")
def sandbox(isolation):
    """A sandbox with a fork server. The thread that started it is gone, as those of a worker may be."""
    os.environ[SECRET] = "hunter2"
    with Sandbox(isolation, ResourceLimits()) as sandbox:

        def start():
            with sandbox.session():
                pass

        starter = threading.Thread(target=start)
        starter.start()
        starter.join()
        assert not sandbox._server.is_gone(), "bubblewrap died with the thread that asked for it"
        yield sandbox


@pytest.fixture(scope="session")
def single(isolation):
    """A session in a process of its own, without the fork server."""
    os.environ[SECRET] = "hunter2"
    with Sandbox(dataclasses.replace(isolation, forks=False), ResourceLimits()).session() as session:
        yield session
