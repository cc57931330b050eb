"""The real walls, shared by all tests that need no other: torch is imported behind them once."""

import dataclasses
import os
import threading

import pytest

from course_lib.classroom.sandbox import Limits, NoSandbox, Sandbox, choose

SECRET = "COURSE_TEST_PASSWORD"  # a variable of the teacher's environment


@pytest.fixture(scope="session")
def walls():
    """Bubblewrap, or the reason why it isn't there."""
    try:
        return choose()
    except NoSandbox as error:
        pytest.skip(str(error))


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
