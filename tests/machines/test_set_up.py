"""The set-up on machines that lack something: it does without, or it says in one sentence what to do."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from machines.small_course import write_uv
from machines.stripped import namespaces, path_of, python_saying, with_mount, without_ensurepip

VERSION = "{}.{}.{}".format(*sys.version_info)
TESTED = "Python 3.11 to 3.14"
MADE = f"1/3 making .venv with Python {VERSION}"
KEPT = f"1/3 keeping .venv with Python {VERSION}"


def steps(done):
    """What was said, without the lines of make itself."""
    return [line for line in done.stdout.splitlines() if not line.startswith("make: ")]


def test_make_and_python_are_enough_and_the_second_start_is_silent_and_offline(beginner):
    done = beginner.make("set-up-dev")
    assert done.returncode == 0, done.stdout
    said = steps(done)
    assert [line[:3] for line in said] == ["1/3", "2/3", "   ", "3/3"]
    assert said[0] == MADE
    assert said[2] == "    uv can't install here (uv is not to be had); pip does it, which takes some minutes longer."
    assert beginner.has("sentence")
    start = time.monotonic()
    for goal in ("set-up-dev", "set-up-lessons"):
        again = beginner.make(goal, before=namespaces("--net"))
        assert (again.returncode, again.stdout) == (0, "")
    assert time.monotonic() - start < 5


def test_no_python(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "empty")
    done = beginner.make("lab")
    assert done.returncode == 2
    assert steps(done) == [
        "No Python was found: install Python 3.11 or newer, or name one, such as make lab PYTHON=/path/to/python3.12."
    ]


def test_a_python_that_is_too_old(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "old")
    python_saying("3.10.13", beginner.path)
    done = beginner.make("lab")
    assert done.returncode == 2
    assert steps(done) == [
        f"No {TESTED} was found: install one, or name one, such as make lab PYTHON=/path/to/python3.12 "
        "(without make: /path/to/python3.12 tools/set_up.py)."
    ]
    assert not beginner.environment.exists()


@pytest.mark.parametrize(("named", "have"), [("python3.10", "Python 3.10.13"), ("/nowhere/python3", "not there")])
def test_a_named_python_that_does_not_fit(beginner, named, have):
    python_saying("3.10.13", beginner.path, "python3.10")
    done = beginner.make("lab", f"PYTHON={named}")
    assert done.returncode == 2
    sentence = f"PYTHON={named} is not {TESTED} ({have}): name another one, such as PYTHON=python3.12."
    assert steps(done) == [sentence]
    assert not beginner.environment.exists()


def test_a_python_that_fits_is_found_beside_one_that_is_too_old(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "two", "python3.12")
    python_saying("3.10.13", beginner.path)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == MADE


def test_a_python_newer_than_all_tested_ones_is_tried_with_a_warning(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "new")
    python_saying("3.15.1", beginner.path)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[:2] == [
        "Python 3.15.1 is newer than 3.14, the newest that was tested: trying it.",
        "1/3 making .venv with Python 3.15.1",
    ]
    assert beginner.has("sentence")


def test_a_python_without_venv_is_named_with_its_package_and_leaves_nothing_behind(beginner):
    for goal in ("lab", "test"):  # the second start says the same
        done = beginner.make(goal, before=without_ensurepip())
        assert done.returncode == 2
        assert steps(done)[0] == MADE
        (sentence,) = steps(done)[1:]
        assert sentence.startswith(
            f"Python {VERSION} is here without the part that makes environments (venv): install "
        )
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
def test_an_environment_that_does_not_work_is_made_anew(beginner, broken):
    assert beginner.make("set-up-lessons").returncode == 0
    broken(beginner.environment)
    if broken is break_off:
        next(beginner.environment.glob(".lessons-installed")).unlink()
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == MADE
    assert beginner.has("sentence")


def test_an_environment_whose_set_up_broke_off_is_kept_and_completed(beginner):
    assert beginner.make("set-up-lessons").returncode == 0
    (beginner.environment / ".lessons-installed").unlink()
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == KEPT


def test_a_folder_with_a_blank(beginner):
    beginner.course = beginner.course.rename(beginner.course.with_name("my clone"))
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert beginner.has("sentence")


REFUSING = """
import sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("uv 1"))
print("error: Request failed after 3 retries", file=sys.stderr)
print("  Caused by: invalid peer certificate: UnknownIssuer", file=sys.stderr)
sys.exit(2)
"""


def test_a_proxy_that_uv_does_not_trust(beginner):
    write_uv(beginner.wheels, REFUSING)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[1:3] == [
        "2/3 installing the course and the packages it was tested with (see README.md for sizes and times)",
        "    uv can't install here (Caused by: invalid peer certificate: UnknownIssuer); pip does it, which takes some "
        "minutes longer.",
    ]
    assert beginner.has("sentence")


TOLD = """
import json, os, subprocess, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("uv 1"))
names = ("UV_SYSTEM_CERTS", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_FIND_LINKS", "SSL_CERT_FILE", "UV_INDEX_STRATEGY",
         "UV_CACHE_DIR")
if "UV_CACHE_DIR" in os.environ:
    os.makedirs(os.environ["UV_CACHE_DIR"], exist_ok=True)
with open("told.json", "w") as file:
    json.dump({name: os.environ[name] for name in names if name in os.environ}, file)
where = sys.argv.index("-c")
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "-qq", *sys.argv[where:]]))
"""


def test_uv_is_told_what_pip_is_told_and_installs(beginner):
    write_uv(beginner.wheels, TOLD)
    (beginner.home / ".config/pip").mkdir(parents=True)
    settings = "[global]\ncert = /company.pem\nextra-index-url =\n    https://one/simple\n    https://two/simple\n"
    (beginner.home / ".config/pip/pip.conf").write_text(settings)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert len(steps(done)) == 3, "nothing is said of pip"
    assert json.loads((beginner.course / "told.json").read_text()) == {
        "UV_SYSTEM_CERTS": "1",
        "UV_INDEX": "https://one/simple https://two/simple",
        "UV_FIND_LINKS": str(beginner.wheels),
        "SSL_CERT_FILE": "/company.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_a_home_in_which_nothing_can_be_written(beginner):
    write_uv(beginner.wheels, TOLD)
    home = beginner.home
    read_only = with_mount(f"mount --bind '{home}' '{home}' && mount -o remount,ro,bind '{home}'")
    done = beginner.make("set-up-lessons", before=read_only)
    assert done.returncode == 0, done.stdout
    assert len(steps(done)) == 3, "pip and uv don't complain about their caches"
    assert beginner.has("sentence")
    cache = Path(json.loads((beginner.course / "told.json").read_text())["UV_CACHE_DIR"])
    assert cache.is_relative_to(beginner.environment), "on the same disk, so that files can be linked"
    assert not cache.exists()


def test_without_a_network_the_first_time(beginner):
    done = beginner.make("lab", before=namespaces("--net"), PIP_FIND_LINKS="", PIP_RETRIES="0", PIP_NO_INDEX="")
    assert done.returncode == 2
    assert steps(done)[-1] == "pip could not install: see the lines above. Mend that and start again."


def test_without_a_network_after_a_new_lock_what_is_there_is_used_each_time(beginner):
    assert beginner.make("set-up-lessons").returncode == 0
    lock = beginner.course / "requirements.lock"
    lock.write_text(lock.read_text().replace("sentence==1", "sentence==2"))
    for _ in range(2):
        done = beginner.make("set-up-lessons", before=namespaces("--net"))
        assert done.returncode == 0, done.stdout
        assert steps(done)[-1] == "What was installed before is used instead; the next start tries again."
    assert beginner.has("sentence")


def test_stopped_with_ctrl_c_it_says_so_and_the_next_start_goes_on(beginner):
    write_uv(beginner.wheels, 'import sys, time\nprint("uv 1")\nif "pip" in sys.argv: time.sleep(60)\n')
    words = ["env", "-i", f"PATH={beginner.path}", f"HOME={beginner.home}", "PIP_NO_INDEX=1"]
    words += [f"PIP_FIND_LINKS={beginner.wheels}", "make", "set-up-lessons"]
    with subprocess.Popen(
        words, cwd=beginner.course, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        for line in process.stdout:
            if line.startswith("2/3"):
                break
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
    assert "Stopped: the next start goes on with the set-up." in rest
    assert "Traceback" not in rest
    write_uv(beginner.wheels, REFUSING)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == KEPT
