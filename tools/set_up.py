"""Set the course up in .venv: an environment, the locked packages, the Jupyter kernels.

    python tools/set_up.py            what the lessons need (what `make lab` does first)
    python tools/set_up.py dev        also what checks the course (what `make test` does first)
    python tools/set_up.py --cpu      PyTorch's small build without CUDA, if it is available

Python 3.7 or newer can start this file; it needs only the standard library. If everything is installed already, it
ends at once without using the network.
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
UV_CACHE = os.path.join(VENV, ".uv-cache")  # if the home cannot be written; removed when everything is installed
STAMPS = {"lessons": ".lessons-installed", "dev": ".installed"}

OLDEST, NEWEST = (3, 11), (3, 14)  # a newer Python is tried, with a warning

# The settings of pip, and their names in uv, which reads neither pip's files nor its variables.
PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


class SetUpError(Exception):
    """The set-up cannot continue; the message is the reason and the remedy."""


def main(arguments=None):
    """Set up what is missing and return the exit status: 0, or 2 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="tools/set_up.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", nargs="?", choices=sorted(STAMPS), default="lessons")
    parser.add_argument("--cpu", action="store_true", help="PyTorch's small build without CUDA")
    parser.add_argument("--python", default="", help="the Python to make .venv with, instead of the first that fits")
    options = parser.parse_args(arguments)
    if is_set_up(options.what) and version_of(options.python or IN_VENV) == version_of(IN_VENV):
        return 0
    worked_before = is_set_up(options.what, outdated=True)
    try:
        set_up(options.what, options.cpu, options.python)
    except SetUpError as error:
        print(error, file=sys.stderr)
        if not worked_before or options.python:
            return 2
        print("What was installed before is used instead; the next start tries again.", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped: start again to continue the set-up.", file=sys.stderr)
        return 130
    return 0


def set_up(what, cpu, wanted):
    """Make the environment, install, add the kernels, and last write the stamp of a complete set-up."""
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
    """Return whether there is a stamp newer than the lock; with `outdated`, whether there is any."""
    stamp = os.path.join(VENV, STAMPS[what])
    if not (os.path.exists(stamp) and os.path.exists(IN_VENV)):
        return False
    return outdated or all(os.path.getmtime(stamp) >= os.path.getmtime(path) for path in (LOCK, PROJECT))


def choose_python(wanted=""):
    """Return the user's choice of Python, or the first tested version on the path, or the first newer version."""
    tested = "Python {}.{} to {}.{}".format(*OLDEST, *NEWEST)
    if wanted:
        version = parsed(version_of(wanted))
        if version < OLDEST:
            have = "Python " + version_of(wanted) if version_of(wanted) else "not found"
            raise SetUpError(
                f"PYTHON={wanted} is not {tested} ({have}): name a different one, such as PYTHON=python3.12."
            )
        return warned(wanted)
    named = ["python3"] + [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)] + ["python"]
    supported = [path for path in [*named, sys.executable] if path and parsed(version_of(path)) >= OLDEST]
    fits = [path for path in supported if parsed(version_of(path)) <= NEWEST]
    if not supported:
        raise SetUpError(
            f"No {tested} was found: install one, or name one, such as make lab PYTHON=/path/to/python3.12 "
            "(without make: /path/to/python3.12 tools/set_up.py)."
        )
    return outside(fits[0] if fits else warned(supported[0]))


def outside(python):
    """Return the Python, or the base of .venv's Python if an activated .venv is first on the path."""
    if not os.path.abspath(shutil.which(python) or python).startswith(VENV + os.sep):
        return python
    return attempt([python, "-c", "import sys; print(sys._base_executable)"]).stdout.strip() or python


def warned(python):
    """Print a warning if a Python is newer than all tested versions, and return it."""
    if parsed(version_of(python)) > NEWEST:
        say(f"Python {version_of(python)} is newer than 3.{NEWEST[1]}, the newest that was tested: trying it.")
    return python


def version_of(python, known={}):  # noqa: B006  # asked once of each
    """Return the version of an interpreter, such as 3.12.1, or an empty text."""
    if python not in known:
        done = attempt([python, "-c", "import platform; print(platform.python_version())"])
        known[python] = done.stdout.strip() if done.returncode == 0 else ""
    return known[python]


def parsed(version):
    """Return (3, 12) for 3.12.1, and (0, 0) if there is no version."""
    numbers = re.findall(r"\d+", version)
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, 0)


def is_usable(python, wanted):
    """Return whether .venv can be kept: its Python fits, and pip or uv can install into it."""
    if not os.path.exists(IN_VENV) or parsed(version_of(IN_VENV)) < OLDEST:
        return False
    if wanted and version_of(IN_VENV) != version_of(python):
        return False
    return has_pip() or bool(shutil.which("uv"))


def has_pip():
    """Return whether the environment has pip; a set-up that was interrupted may have left it without pip."""
    return attempt([IN_VENV, "-m", "pip", "--version"]).returncode == 0


def make_environment(python):
    """Make .venv again from scratch; if neither this Python nor uv can create it, nothing of it is left."""
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
        raise SetUpError(f".venv could not be made: {last_line(done)}")
    if is_debian():
        sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
        remedy = f"install it with `{sudo}apt install python{version}-venv`, then start again"
    else:
        remedy = "install your system's package for it (often called python3-venv), or uv, then start again"
    raise SetUpError(f"Python {version_of(python)} lacks the module that creates environments (venv): {remedy}.")


def is_debian():
    """Return whether this is Debian or a derivative, where venv is a package of its own."""
    return os.path.exists("/etc/debian_version")


def install(what, cpu):
    """Install with uv, which takes a third of pip's time, or else with pip."""
    wanted = ["-c", LOCK, "-e", f"{ROOT}[{what}]"]
    backend = ["--torch-backend", "cpu"] if cpu else []
    uv, settings = find_uv(), uv_settings()
    why = "uv is not available"
    if uv:
        # First a dry run, because uv writes its progress and its errors to the same stream.
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
        raise SetUpError(
            f"PyTorch's CPU build could not be installed ({why}): start again without CPU=1 (--cpu) for the usual "
            "build."
        )
    if not has_pip():
        raise SetUpError(f"Nothing could be installed ({why}), and .venv has no pip: remove .venv and start again.")
    say(f"    uv can't install here ({why}); pip does it, which takes some minutes longer.")
    quiet = [] if sys.stderr.isatty() else ["-qq"]
    run([IN_VENV, "-m", "pip", "install", *quiet, "--disable-pip-version-check", *wanted], "pip could not install")


def find_uv():
    """Return the command that starts the environment's or the user's uv, or an empty list if there is none."""
    if has_pip():
        with open(LOCK, encoding="utf-8") as lock:
            pins = re.findall(r"^uv==\S+", lock.read(), re.MULTILINE)
        attempt([IN_VENV, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *pins])
    if attempt([IN_VENV, "-m", "uv", "--version"]).returncode == 0:
        return [IN_VENV, "-m", "uv"]
    return ["uv"] if shutil.which("uv") else []


def uv_settings():
    """Return the environment for uv: the system's certificates, pip's settings, and a cache if there is no home."""
    settings = dict(os.environ, UV_SYSTEM_CERTS="1", UV_NATIVE_TLS="1")
    listed = attempt([IN_VENV, "-m", "pip", "config", "list"]).stdout
    of_pip = dict(
        re.findall(r"^[\w:]+\.([\w-]+)=(.*)", listed, re.MULTILINE)
    )  # global.index-url='...', :env:.cert='...'
    for option, name in PIP_TO_UV.items():
        value = " ".join(" ".join(shlex.split(of_pip.get(option, ""))).replace("\\n", " ").split())
        if value:
            settings.setdefault(name, value)
    if "UV_INDEX" in settings:
        settings.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # as pip chooses
    if not os.access(os.path.expanduser("~"), os.W_OK):
        settings.setdefault("UV_CACHE_DIR", UV_CACHE)
    return settings


def run(command, failure):
    """Run a command and show its output to the user; the message of a failure begins with `failure`."""
    if subprocess.call(command, cwd=ROOT, stdout=subprocess.DEVNULL if "kernels" in command else None):
        raise SetUpError(f"{failure}: fix what the lines above report, then start again.")


def attempt(command, env=None):
    """Run a command without output; a command that cannot be started counts as failed."""
    try:
        return subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def last_line(done):
    """Return the last line of a command's output, as the reason of its failure."""
    lines = [line.strip(" │╰─▶×") for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}"


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


def say(sentence):
    """Print at once, before the next command prints something."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
