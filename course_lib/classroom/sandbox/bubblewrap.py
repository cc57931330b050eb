"""The walls of Linux: a world of its own, made by bubblewrap, that has Python and nothing of the teacher's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from .inside import DISK
from .places import COURSE, INSIDE, ONE_THREAD, covered, shown, within

ENVIRONMENT = {"HOME": DISK, "TMPDIR": DISK, "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", **ONE_THREAD}


def words(hidden: Sequence[str], real: bool, disk: int = 16, *, single: bool = False) -> list[str]:
    """The words that start a program behind bubblewrap; the program's own follow.

    Args:
        hidden: folders that must not be seen.
        real: whether the course itself can be seen.
        disk: megabytes that may be written.
        single: whether the program is the student's own process: no other is beside it, and /proc can't be written.

    Raises:
        ValueError: a folder can't be hidden.
    """
    said = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000"]
    said += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    seen = shown()
    for path in seen:
        said += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for path in covered([*hidden, str(COURSE)], seen):
        # An empty folder that could be written would carry things from one notebook to the next.
        said += ["--tmpfs", path, "--remount-ro", path]
    said += ["--ro-bind", str(INSIDE), "/sandbox/inside"]
    if real:
        said += ["--ro-bind", str(COURSE), "/sandbox/course/course_lib"]
    said += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--size", str(disk << 20), "--tmpfs", DISK]
    if not any(within(path, "/tmp") for path in seen):
        said += ["--symlink", DISK, "/tmp"]  # where programs look for it
    if single:
        # Beside a program bubblewrap puts a process of its own, whose memory and environment it could reach. And who
        # grades as root is root in /proc/sys too: what is written there changes the whole machine.
        said += ["--as-pid-1", "--remount-ro", "/proc"]
    said += ["--remount-ro", "/", "--chdir", DISK, "--clearenv"]
    for name, value in ENVIRONMENT.items():
        said += ["--setenv", name, value]
    return said


def wrong(hidden: Sequence[str]) -> str | None:
    """Why bubblewrap can't be used here, or None."""
    if sys.platform != "linux":
        return "bubblewrap is for Linux only"
    if shutil.which("bwrap") is None:
        return "there is no bwrap on the path"
    try:
        start = [*words(hidden, False), sys.executable, "-I", "-c", "pass"]
        done = subprocess.run(
            start, capture_output=True, text=True, errors="replace", timeout=60, check=False, env=ENVIRONMENT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap could not be started ({error})"
    except ValueError as error:
        return str(error).rstrip(".")
    if done.returncode == 0:
        return None
    said = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    return (
        f"bwrap does not work ({said}); where the system forbids user namespaces, as Ubuntu 24.04 and some containers "
        "do, its administrator has to allow them"
    )
