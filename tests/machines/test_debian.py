"""The README's two commands on a clean Debian: what somebody sees who starts from nothing, as root and as a user.

Needs root, debootstrap, a kernel with overlayfs, and some 6 GB for each machine while it is tried. Variables:
COURSE_MACHINES (a folder) keeps the Debians for the next time, COURSE_DEBIANS ("bookworm forky") chooses some.
"""

import os
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from .debian import make_debian, new_machine
from .lab import computes, make_lab, opens

DEBIANS = os.environ.get("COURSE_DEBIANS", "trixie forky").split()  # stable with Python 3.13, testing with 3.14
FOLDER = os.environ.get("COURSE_MACHINES")

if os.geteuid() != 0 or shutil.which("debootstrap") is None:
    pytest.skip("Clean Debians need root and debootstrap (apt install debootstrap).", allow_module_level=True)


@pytest.fixture(scope="module", params=[(name, user) for name in DEBIANS for user in ("root", "learner")], ids="-".join)
def machine(request, tmp_path_factory):
    """A clean Debian with Python, make and Git, and a clone that nobody has set up."""
    name, user = request.param
    temporary = tmp_path_factory.mktemp(f"{name}-{user}")
    debian = make_debian(name, Path(FOLDER) if FOLDER else temporary.parent)
    yield new_machine(debian, temporary, user)
    shutil.rmtree(temporary)  # 6 GB before the next one comes


@pytest.fixture
def seconds(machine, record_property):
    """Note how long a command took, for the report."""

    @contextmanager
    def measured(what):
        start = time.monotonic()
        yield
        took = time.monotonic() - start
        record_property(what, took)
        print(f"{machine.lower.name} {machine.user}: {what} {took:.0f} s")

    return measured


def test_1_what_is_missing_is_named_and_doing_what_is_said_is_enough(machine):
    done = machine.run(f"cd {machine.course} && make lab")
    assert done.returncode == 2, done.stdout
    remedy = re.search(r"venv\): install it with `(sudo )?(apt install [\w.-]+)`, then start again\.", done.stdout)
    assert remedy, done.stdout
    assert bool(remedy[1]) == (machine.user != "root")
    installed = machine.run(f"{remedy[2]} --yes", user="root")
    assert installed.returncode == 0, installed.stdout


def test_2_make_lab_answers(machine, seconds):
    with seconds("make lab, the first time"), make_lab(machine) as (said, address):
        assert opens(address)
    assert [line[:3] for line in said if line[1:3] == "/3"] == ["1/3", "2/3", "3/3"], said
    assert not [line for line in said if re.search("error|warning|traceback|not recommended", line, re.I)], said
    with seconds("make lab, the second time"), make_lab(machine) as (said, address):
        assert opens(address)
        assert computes(address, "import course_lib, torch; print(6 * 7)") == "42\n"
    assert not [line for line in said if "/3 " in line], said
    assert len(said) <= 3, said


def test_3_make_test_is_green(machine, seconds):
    with seconds("make test"):
        done = machine.run(f"cd {machine.course} && make test", seconds=3600)
    failed = re.findall("^_+ .+ _+$|^E  .*|.* [0-9]+ FAILED.*", done.stdout, re.MULTILINE)
    assert done.returncode == 0, "\n".join(failed) or done.stdout
    assert re.search(r"^\d+ passed, 0 failed$", done.stdout, re.MULTILINE)
