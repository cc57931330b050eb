"""An environment that can't be made, that broke, or that somebody stopped half-way."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from .small_course import write_uv
from .stripped import KEPT, MADE, VERSION, steps, without_ensurepip


def test_a_python_without_venv_is_named_with_its_package_and_leaves_nothing_behind(beginner):
    for goal in ("lab", "test"):  # the second start says the same
        done = beginner.make(goal, before=without_ensurepip())
        assert done.returncode == 2
        assert steps(done)[0] == MADE
        (sentence,) = steps(done)[1:]
        assert sentence.startswith(f"Python {VERSION} lacks the module that creates environments (venv): install ")
        if os.path.exists("/etc/debian_version"):
            package = "python{}.{}-venv".format(*sys.version_info)
            assert f"`apt install {package}`" in sentence  # without sudo: namespaces make everybody root
        assert not beginner.environment.exists()
    done = beginner.make("set-up-lessons")  # the package is there now
    assert done.returncode == 0, done.stdout
    assert beginner.has("sentence")


def break_off(environment):
    """As Ctrl-C leaves it while pip is put in."""
    for one in environment.glob("lib/python*/site-packages/pip"):
        shutil.rmtree(one)


def lose_python(environment):
    """As the system leaves it when it replaces its Python."""
    for one in environment.glob("bin/python*"):
        one.unlink()
        one.symlink_to("/usr/bin/python3.0")


def empty(environment):
    shutil.rmtree(environment)
    environment.mkdir()


def be_a_file(environment):
    shutil.rmtree(environment)
    environment.write_text("")


@pytest.mark.parametrize("broken", [break_off, lose_python, empty, be_a_file])
def test_an_environment_that_does_not_work_is_made_anew(settled, broken):
    broken(settled.environment)
    if broken is break_off:
        next(settled.environment.glob(".lessons-installed")).unlink()
    done = settled.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == MADE
    assert settled.has("sentence")


def test_an_environment_whose_set_up_broke_off_is_kept_and_completed(settled):
    (settled.environment / ".lessons-installed").unlink()
    done = settled.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == KEPT


def test_a_folder_with_a_blank(beginner):
    beginner.course = beginner.course.rename(beginner.course.with_name("my clone"))
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert beginner.has("sentence")


SLOW = """
import os, sys, time
if "pip" in sys.argv:
    time.sleep(0 if os.path.exists("no-network") else 60)
    sys.exit(2)
"""


def test_stopped_with_ctrl_c_it_says_so_and_the_next_start_goes_on(beginner):
    write_uv(beginner.wheels, SLOW)
    words, how = beginner.command("set-up-lessons")
    with subprocess.Popen(words, **how, start_new_session=True) as process:
        for line in process.stdout:
            if line.startswith("2/3"):
                break
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
    assert "Stopped: start again to continue the set-up." in rest
    assert "Traceback" not in rest
    (beginner.course / "no-network").touch()
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == KEPT
