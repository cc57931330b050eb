"""Isolate on Linux with bubblewrap: namespaces and a file system that hold Python and nothing of the teacher's."""

from __future__ import annotations

import glob
import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import course_lib

from .guest import SCRATCH

GUEST = Path(__file__).resolve().parent / "guest"
COURSE = Path(course_lib.__file__).resolve().parent
ANSWERING = COURSE / "exercises" / "answering"  # calls answers, here as in a learner's own kernel
GRADER = Path(__file__).resolve().parents[1]
LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64", "/nix/store")
# One thread each: a process that forks must have no other, and a class is graded on all cores at once anyway.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
OLDEST = (0, 7, 0)  # the first with --size, the youngest of the options that are used here
HOLE, CLOSED = "CVE-2026-87766", (0, 12, 0)  # distributions close it in older versions, and say so in their changelog
CHANGELOGS = "/usr/share/doc/bubblewrap/changelog*"
# What bwrap writes where it can't work, and what helps; the first pattern that fits counts.
REMEDIES = (
    (
        r"Failed to make / slave",
        "this is a container that may not mount: start it with `--security-opt apparmor=unconfined --security-opt "
        "seccomp=unconfined`, or grade outside of it",
    ),
    (
        r"setting up [ug]id map|RTM_NEWADDR",
        "the system gives user namespaces no rights, as Ubuntu 24.04 does: on the machine itself, not in a container, "
        "its administrator gives bwrap a profile of AppArmor that says `userns,`, or allows all programs with `sudo "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    (
        r"[Nn]o permissions to creat|[Cc]reating new namespace failed",
        "user namespaces are forbidden: in a container, start it with `--security-opt seccomp=unconfined`; elsewhere "
        "the administrator sets `sysctl kernel.unprivileged_userns_clone=1` or raises `user.max_user_namespaces`",
    ),
    (
        r"Can't (mkdir parents|resolve|find source path|open)|execvp",
        "each folder above Python and its packages has to be open to you, and readable since bubblewrap 0.12.0, also "
        "for root: grade as the owner of these folders, or install Python and the course where all may read",
    ),
)
OPTIONS = (
    "--unshare-all --unshare-user --uid 1000 --gid 1000 --cap-drop ALL --die-with-parent --new-session "
    "--hostname sandbox"
)
ENVIRONMENT = {"HOME": SCRATCH, "TMPDIR": SCRATCH, "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", **ONE_THREAD}


def arguments(hidden: Sequence[str], expose_course: bool, disk: int = 16, *, single: bool = False) -> list[str]:
    """Return the command line that starts a program in bubblewrap; the program's own arguments follow it.

    The hidden folders are not seen, the course is if it is exposed, and `disk` megabytes may be written. A single
    program runs a notebook itself and starts no other process.

    Raises:
        ValueError: A folder cannot be hidden.
    """
    command = [shutil.which("bwrap") or "bwrap", *OPTIONS.split()]
    visible = visible_folders()
    for path in visible:
        command += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for path in paths_to_cover([*hidden, str(COURSE), str(GRADER)], visible):
        # Read-only: an empty folder that could be written would carry things from one notebook to the next.
        command += ["--tmpfs", path, "--remount-ro", path]
    command += ["--ro-bind", str(GUEST), "/sandbox/guest", "--ro-bind", str(ANSWERING), "/sandbox/answering"]
    if expose_course:
        command += ["--ro-bind", str(COURSE), "/sandbox/course/course_lib"]
    command += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--size", str(disk << 20)]
    command += ["--tmpfs", SCRATCH]
    if not any(Path(path).is_relative_to("/tmp") for path in visible):
        command += ["--symlink", SCRATCH, "/tmp"]  # where programs expect a temporary folder
    if single:
        # Otherwise bubblewrap runs a process of its own next to the program, whose memory and environment could be
        # reached. And a teacher who grades as root is root in /proc/sys too: a write there changes the whole machine.
        command += ["--as-pid-1", "--remount-ro", "/proc"]
    variables = [word for variable in ENVIRONMENT.items() for word in ("--setenv", *variable)]
    return [*command, "--remount-ro", "/", "--chdir", SCRATCH, "--clearenv", *variables]


def why_unavailable(hidden: Sequence[str]) -> str | None:
    """Explain why bubblewrap cannot be used here; None if it can."""
    if sys.platform != "linux":
        return "bubblewrap is for Linux only"
    if shutil.which("bwrap") is None:
        return "there is no bwrap on the path. Install bubblewrap (on Debian and Ubuntu: apt install bubblewrap)"
    if (installed := version()) and installed < OLDEST:
        return f"bubblewrap is {_dotted(installed)}, which is too old. Install {_dotted(OLDEST)} or newer"
    try:
        probe = [*arguments(hidden, False), sys.executable, "-I", "-c", "pass"]
        done = subprocess.run(probe, capture_output=True, errors="replace", timeout=60, check=False, env=ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap could not be started ({error})"
    except ValueError as error:
        return str(error).rstrip(".")
    if done.returncode == 0:
        return None
    reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    remedy = next((remedy for pattern, remedy in REMEDIES if re.search(pattern, reason)), None)
    return f"bwrap does not work ({reason}): {remedy or 'its administrator has to allow user namespaces here'}"


def version() -> tuple[int, ...] | None:
    """Read the version of bubblewrap; None if there is none, or it says none."""
    with suppress(OSError, subprocess.TimeoutExpired):
        words = [shutil.which("bwrap") or "bwrap", "--version"]
        output = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=60, check=False).stdout
        if match := re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", output):
            return tuple(int(part or 0) for part in match.groups())
    return None


def known_hole() -> str | None:
    """Name the hole that this bubblewrap has, and the remedy; None if it is closed.

    Only the changelog of the installed package tells whether a distribution closed it in an older version.
    """
    installed = version()
    if installed and (installed >= CLOSED or any(HOLE in text for text in _changelogs())):
        return None
    which = f"bubblewrap {_dotted(installed)}" if installed else "This bubblewrap, which doesn't say its version,"
    return (
        f"{which} may have the hole {HOLE}, closed in {_dotted(CLOSED)} and in updates of some distributions: update "
        "it, or give --image with docker or podman."
    )


def _changelogs() -> Iterator[str]:
    """Yield the changelogs of the package that bwrap belongs to."""
    program = os.path.realpath(shutil.which("bwrap") or "bwrap")
    if not program.startswith("/usr/bin/"):  # built by hand: no package's changelog is about it
        return
    for path in glob.glob(CHANGELOGS):
        with suppress(OSError, EOFError):
            content = Path(path).read_bytes()
            yield (gzip.decompress(content) if path.endswith(".gz") else content).decode("utf-8", "replace")


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def visible_folders() -> list[str]:
    """List the folders of Python, of its installed packages and of the system's libraries, without nested ones.

    Of an installation prefix only lib and bin are visible: the prefix itself may be a home directory, a whole conda
    installation, or the course's own folder.
    """
    candidates = list(LIBRARIES)
    for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix):
        candidates += [os.path.join(prefix, part) for part in ("bin", "lib", "lib64", "pyvenv.cfg")]
    candidates += [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    candidates += [os.path.dirname(os.path.realpath(sys.executable))]
    for package in ("torch", "numpy"):  # found, not imported: that takes as long as starting a sandbox
        spec = importlib.util.find_spec(package)
        candidates += [str(Path(spec.origin).parents[1])] if spec and spec.origin else []
    paths = {os.path.abspath(path) for path in candidates} | {os.path.realpath(path) for path in candidates}
    outermost: list[str] = []
    for path in sorted(paths, key=len):
        if os.path.exists(path) and not any(Path(path).is_relative_to(folder) for folder in outermost):
            outermost.append(path)
    return outermost


def paths_to_cover(hidden: Sequence[str], visible: Sequence[str]) -> list[str]:
    """Find where hidden folders would be seen: under each name that the visible folders have for them.

    Raises:
        ValueError: One of them cannot be covered.
    """
    paths = []
    for path in dict.fromkeys(os.path.realpath(path) for path in hidden):
        for folder in visible:
            real = os.path.realpath(folder)
            if not Path(path).is_relative_to(real):
                continue
            if not os.path.isdir(path):  # a missing folder cannot be covered, and it may be created later
                raise ValueError(
                    f"{path} lies within {folder}, where Python is installed, and is not a folder that could be hidden "
                    "from students' code: choose a different folder."
                )
            if not os.path.islink(folder):
                paths.append(os.path.normpath(os.path.join(folder, os.path.relpath(path, real))))
    return list(dict.fromkeys(paths))
