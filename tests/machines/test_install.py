"""What installs the packages: uv, or pip in its place; without a network, without a home to write in."""

import json
import time
from pathlib import Path

from .small_course import write_uv
from .stripped import MADE, namespaces, steps, with_mount


def test_make_and_python_are_enough_and_the_second_start_is_silent_and_offline(beginner):
    done = beginner.make("set-up-dev")
    assert done.returncode == 0, done.stdout
    said = steps(done)
    assert [line[:3] for line in said] == ["1/3", "2/3", "   ", "3/3"]
    assert said[0] == MADE
    assert said[2] == "    uv can't install here (uv is not available); pip does it, which takes some minutes longer."
    assert beginner.has("sentence")
    start = time.monotonic()
    for goal in ("set-up-dev", "set-up-lessons"):
        again = beginner.make(goal, before=namespaces("--net"))
        assert (again.returncode, again.stdout) == (0, "")
    assert time.monotonic() - start < 5


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
    assert steps(done)[-1] == "pip could not install: fix what the lines above report, then start again."


def test_without_a_network_after_a_new_lock_what_is_there_is_used_each_time(settled):
    lock = settled.course / "requirements.lock"
    lock.write_text(lock.read_text().replace("sentence==1", "sentence==2"))
    for _ in range(2):
        done = settled.make("set-up-lessons", before=namespaces("--net"))
        assert done.returncode == 0, done.stdout
        assert steps(done)[-1] == "What was installed before is used instead; the next start tries again."
    assert settled.has("sentence")
