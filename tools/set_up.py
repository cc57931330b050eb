"""Set the course up in .venv: an environment, the locked packages, the Jupyter kernels.

    python tools/set_up.py            what the lessons need (what `make lab` does first)
    python tools/set_up.py dev        also what checks the course (what `make test` does first)
    python tools/set_up.py --cpu      PyTorch's small build without CUDA, where it can be had

Python 3.7 or newer can start this file; it needs nothing but the standard library. Where all is installed already, it
ends at once and asks nobody on the network.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
IN_VENV = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")
LOCK, PROJECT = os.path.join(ROOT, "requirements.lock"), os.path.join(ROOT, "pyproject.toml")
UV_CACHE = os.path.join(VENV, ".uv-cache")  # where the home can't be written; removed when all is installed
STAMPS = {"lessons": ".lessons-installed", "dev": ".installed"}

OLDEST, NEWEST = (3, 11), (3, 14)  # a newer Python is tried, with a warning

# What pip is told, in uv's words: uv reads neither pip's files nor its variables.
PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


class Refused(Exception):
    """The set-up can't go on; the message says why and what helps."""


def main(words=None):
    """Set up what is missing and return the exit status: 0, or 2 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="tools/set_up.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("what", nargs="?", choices=sorted(STAMPS), default="lessons")
    parser.add_argument("--cpu", action="store_true", help="PyTorch's small build without CUDA")
    parser.add_argument("--python", default="", help="the Python to make .venv with, instead of the first that fits")
    options = parser.parse_args(words)
    if is_set_up(options.what) and version_of(options.python or IN_VENV) == version_of(IN_VENV):
        return 0
    worked_before = is_set_up(options.what, outdated=True)
    try:
        set_up(options.what, options.cpu, options.python)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        if not worked_before or options.python:
            return 2
        print("What was installed before is used instead; the next start tries again.", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped: the next start goes on with the set-up.", file=sys.stderr)
        return 130
    return 0


def set_up(what, cpu, wanted):
    """Make the environment, install, add the kernels; a stamp written last says that nothing is missing."""
    python = choose_python(wanted)
    if is_usable(python, wanted):
        say("1/3 keeping .venv with Python " + version_of(IN_VENV))
    else:
        say("1/3 making .venv with Python " + version_of(python))
        make_environment(python)
    say("2/3 installing the course and the packages it was tested with (see README.md for sizes and times)")
    install(what, cpu)
    say("3/3 installing its Jupyter kernels")
    run([IN_VENV, "-m", "course_lib.command", "kernels"], "The Jupyter kernels could not be installed")
    for name in [STAMPS["lessons"]] + ([STAMPS["dev"]] if what == "dev" else []):
        open(os.path.join(VENV, name), "w").close()


def is_set_up(what, outdated=False):
    """Say whether a stamp is there that is newer than the lock; with `outdated`, whether one is there at all."""
    stamp = os.path.join(VENV, STAMPS[what])
    if not (os.path.exists(stamp) and os.path.exists(IN_VENV)):
        return False
    return outdated or all(os.path.getmtime(stamp) >= os.path.getmtime(path) for path in (LOCK, PROJECT))


def choose_python(wanted=""):
    """Return the Python to make the environment with.

    Args:
        wanted: the user's choice; empty means the first tested version on the path, or else the first newer one.

    Raises:
        Refused: none fits.
    """
    tested = "Python {}.{} to {}.{}".format(*OLDEST, *NEWEST)
    if wanted:
        version = parsed(version_of(wanted))
        if version < OLDEST:
            have = "Python " + version_of(wanted) if version_of(wanted) else "not there"
            raise Refused(f"PYTHON={wanted} is not {tested} ({have}): name another one, such as PYTHON=python3.12.")
        return warned(wanted)
    named = ["python3"] + [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)] + ["python"]
    found = [path for path in [*named, sys.executable] if path and parsed(version_of(path)) >= OLDEST]
    fits = [path for path in found if parsed(version_of(path)) <= NEWEST]
    if not found:
        raise Refused(
            f"No {tested} was found: install one, or name one, such as make lab PYTHON=/path/to/python3.12 "
            "(without make: /path/to/python3.12 tools/set_up.py)."
        )
    return outside(fits[0] if fits else warned(found[0]))


def outside(python):
    """Return the Python that .venv was made from where .venv, activated, comes first on the path."""
    if not os.path.abspath(shutil.which(python) or python).startswith(VENV + os.sep):
        return python
    return attempt([python, "-c", "import sys; print(sys._base_executable)"]).stdout.strip() or python


def warned(python):
    """Say so where a Python is newer than all that were tested."""
    if parsed(version_of(python)) > NEWEST:
        say(f"Python {version_of(python)} is newer than 3.{NEWEST[1]}, the newest that was tested: trying it.")
    return python


def version_of(python, known={}):  # noqa: B006  # asked once of each
    """Return the version of an interpreter, such as 3.12.1, or an empty text."""
    if python not in known:
        ask = [python, "-c", "import platform; print(platform.python_version())"]
        done = attempt(ask)
        known[python] = done.stdout.strip() if done.returncode == 0 else ""
    return known[python]


def parsed(version):
    """Return (3, 12) for 3.12.1, and (0, 0) where there is no version."""
    numbers = re.findall(r"\d+", version)
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, 0)


def is_usable(python, wanted):
    """Say whether .venv can be kept: a fitting Python that something can install into."""
    if not os.path.exists(IN_VENV) or parsed(version_of(IN_VENV)) < OLDEST:
        return False
    if wanted and version_of(IN_VENV) != version_of(python):
        return False
    return has_pip() or bool(shutil.which("uv"))


def has_pip():
    """Say whether the environment has pip: a set-up that broke off may have left it without."""
    return attempt([IN_VENV, "-m", "pip", "--version"]).returncode == 0


def make_environment(python):
    """Make .venv anew; nothing is left of it where that fails.

    Raises:
        Refused: this Python can't make one, and no uv is there that can.
    """
    remove(VENV)
    done = attempt([python, "-m", "venv", VENV])
    if done.returncode and shutil.which("uv"):
        remove(VENV)
        done = attempt(["uv", "venv", "-q", "--python", python, VENV])
    if done.returncode == 0:
        return
    remove(VENV)
    version = "{}.{}".format(*parsed(version_of(python)))
    if attempt([python, "-c", "import venv, ensurepip; ensurepip.version()"]).returncode == 0:
        raise Refused(f".venv could not be made: {last_line(done)}")
    if is_debian():
        sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
        remedy = f"install it with `{sudo}apt install python{version}-venv`, then start again"
    else:
        remedy = "install your system's package for it (often called python3-venv), or uv, then start again"
    raise Refused(f"Python {version_of(python)} is here without the part that makes environments (venv): {remedy}.")


def is_debian():
    """Say whether this is Debian or one of its kin, which keep venv in a package of its own."""
    return os.path.exists("/etc/debian_version")


def install(what, cpu):
    """Install with uv, which takes a third of pip's time; where uv can't, pip does.

    Raises:
        Refused: neither could.
    """
    wanted = ["-c", LOCK, "-e", f"{ROOT}[{what}]"]
    backend = ["--torch-backend", "cpu"] if cpu else []
    uv, settings = find_uv(), uv_settings()
    why = "uv is not to be had"
    if uv:
        # Tried dry first, because uv shows its progress and its errors in the same stream.
        dry = attempt([*uv, "pip", "install", "-q", "--dry-run", "--python", IN_VENV, *backend, *wanted], settings)
        why = last_line(dry)
        if dry.returncode == 0:
            quiet = [] if sys.stderr.isatty() else ["-q"]
            command = [*uv, "pip", "install", *quiet, "--compile-bytecode", "--python", IN_VENV, *backend, *wanted]
            status = subprocess.call(command, env=settings, cwd=ROOT)
            remove(UV_CACHE)
            if status == 0:
                return
            why = "uv stopped"
    if cpu:
        raise Refused(
            f"PyTorch's CPU build could not be had here ({why}): start again without CPU=1 (--cpu) for the usual build."
        )
    if not has_pip():
        raise Refused(f"Nothing could be installed ({why}), and .venv has no pip: remove .venv and start again.")
    say(f"    uv can't install here ({why}); pip does it, which takes some minutes longer.")
    quiet = [] if sys.stderr.isatty() else ["-qq"]
    run([IN_VENV, "-m", "pip", "install", *quiet, "--disable-pip-version-check", *wanted], "pip could not install")


def find_uv():
    """Return the words that start uv: the environment's own, or the user's; an empty list where neither is there."""
    if has_pip():
        with open(LOCK, encoding="utf-8") as lock:
            pin = re.search(r"^uv==\S+", lock.read(), re.MULTILINE).group()
        attempt([IN_VENV, "-m", "pip", "install", "-qq", "--disable-pip-version-check", pin])
    if attempt([IN_VENV, "-m", "uv", "--version"]).returncode == 0:
        return [IN_VENV, "-m", "uv"]
    return ["uv"] if shutil.which("uv") else []


def uv_settings():
    """Return the environment for uv: the system's certificates, pip's settings, a cache where there is no home."""
    settings = dict(os.environ, UV_SYSTEM_CERTS="1", UV_NATIVE_TLS="1")
    given = {}
    for line in attempt([IN_VENV, "-m", "pip", "config", "list"]).stdout.splitlines():
        found = re.match(r"[\w:]+\.([\w-]+)=(.*)", line)  # global.index-url='...', or :env:.cert='...'
        if found and found.group(1) in PIP_TO_UV:
            given[found.group(1)] = " ".join(" ".join(shlex.split(found.group(2))).replace("\\n", " ").split())
    for option, name in PIP_TO_UV.items():
        if given.get(option):
            settings.setdefault(name, given[option])
    if "UV_INDEX" in settings:
        settings.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # as pip chooses
    home = os.path.expanduser("~")
    if not os.access(home, os.W_OK):
        settings.setdefault("UV_CACHE_DIR", UV_CACHE)
    return settings


def run(command, failure):
    """Run a command whose output is the user's.

    Raises:
        Refused: it failed; the message begins with `failure`.
    """
    if subprocess.call(command, cwd=ROOT, stdout=subprocess.DEVNULL if "kernels" in command else None):
        raise Refused(f"{failure}: see the lines above. Mend that and start again.")


def attempt(command, env=None):
    """Run a command quietly; one that can't be started counts as failed."""
    try:
        return subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def last_line(done):
    """Return the last line that a command said, as its reason."""
    lines = [line.strip(" │╰─▶×") for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}"


def remove(path):
    """Remove a file or a folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


def say(sentence):
    """Print at once, before what the next command prints."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
