"""Choose what isolates students' code: bubblewrap on Linux, a container elsewhere, or nothing on request."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import bubblewrap
from .bubblewrap import ANSWERING, COURSE, GUEST, ONE_THREAD
from .guest import GuestSettings

# Python starts in isolated mode, without PYTHONPATH and the current folder, so the path of its modules is passed.
# Garbage collection begins after the imports, which it makes a sixth slower.
START = (
    "import gc, json, sys; gc.disable(); sys.path[:0] = {paths!r}; from guest import GuestSettings; "
    "from guest.fork_server import {program}; {program}(GuestSettings(**json.loads(sys.argv[1])))"
)
UNSAFE = (
    "students' code would run as you, with your files, your network and your passwords in reach. "
    "Say --unsafe only for code that you would run yourself"
)

FOR_TORCH = 1 << 30  # bytes that Python and torch need in a container in addition to the notebook's own


class NoSandbox(ValueError):
    """Students' code cannot be isolated here; the message says what to do."""


@dataclass(frozen=True)
class Isolation:
    """The way in which an isolated process is started.

    Attributes:
        name: What isolates it, for the teacher.
        forks: Whether notebooks can be forks of one process that has imported torch.
        image: The container's image.
        hidden: Folders that must not be seen, even if they lie within a visible one.
    """

    name: str
    forks: bool = True
    image: str | None = None
    hidden: tuple[str, ...] = ()

    def command(self, program: str, settings: GuestSettings) -> list[str]:
        """Return the command line that starts `fork_server` or `single_run` of `guest.fork_server` in isolation.

        Raises:
            NoSandbox: A hidden folder cannot be hidden.
        """
        expose_course, disk = settings.expose_course, settings.disk
        prefix, python, paths = [], sys.executable, ["/sandbox", "/sandbox/course"]
        if self.name == "nothing":
            paths = [str(GUEST.parent), str(ANSWERING.parent), str(COURSE.parent)]
        elif self.image:
            prefix, python = container_arguments(self.name, self.image, expose_course, settings.memory, disk), "python"
        else:
            try:
                prefix = bubblewrap.arguments(self.hidden, expose_course, disk, single=program == "single_run")
            except ValueError as error:
                raise NoSandbox(str(error)) from None
        start = START.format(paths=paths if expose_course else paths[:-1], program=program)
        return [*prefix, python, "-I", "-c", start, json.dumps(asdict(settings))]

    def start(
        self, program: str, settings: GuestSettings, stdin: Any, stdout: int, stderr: Any
    ) -> subprocess.Popen[bytes]:
        """Start a program of the guest in isolation, in a session of its own, so that Ctrl-C reaches only the grader.

        Raises:
            NoSandbox, OSError: It cannot be started.
        """
        command, environment = self.command(program, settings), self.environment()
        return subprocess.Popen(command, -1, None, stdin, stdout, stderr, env=environment, start_new_session=True)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process, and its container, which may continue after the engine's own process has ended."""
        if self.image:
            command: Any = process.args
            kill = [self.name, "kill", command[command.index("--name") + 1]]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(kill, capture_output=True, check=False, timeout=60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def warning(self) -> str | None:
        """Return a sentence on a known hole of what isolates here; None if there is none."""
        return bubblewrap.known_hole() if self.name == "bubblewrap" else None

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the command: with bubblewrap, no variable of the teacher's."""
        return bubblewrap.ENVIRONMENT if self.name == "bubblewrap" else {**os.environ, **ONE_THREAD}


def choose_isolation(unsafe: bool = False, image: str | None = None, hidden: Iterable[Path] = ()) -> Isolation:
    """Find what can isolate students' code here.

    Args:
        unsafe: Whether to run without isolation if none is available.
        image: A container's image with Python and torch, see the Dockerfile here; without it, only bubblewrap is tried.
        hidden: Folders that students' code must not see: the submissions, the results.

    Raises:
        NoSandbox: No isolation is available, and `unsafe` is false.
    """
    out_of_sight = tuple(str(path.resolve()) for path in hidden)
    if sys.platform == "win32":  # it has neither `fork` nor sockets that carry file descriptors
        raise NoSandbox("Students' code can't be isolated on Windows itself: run `course grade` in WSL.")
    if image is None:
        problem = bubblewrap.why_unavailable(out_of_sight)
        if problem is None:
            return Isolation("bubblewrap", hidden=out_of_sight)
    else:
        engine = next((name for name in ("docker", "podman") if shutil.which(name)), None)
        if engine is not None:
            return Isolation(engine, forks=False, image=image)
        problem = "neither docker nor podman is there"
    if unsafe:
        return Isolation("nothing")
    raise NoSandbox(
        f"Students' code can't be isolated here: {problem}. Or give --image with docker or podman. Without a sandbox "
        f"{UNSAFE}."
    )


def container_arguments(engine: str, image: str, expose_course: bool, memory: int, disk: int) -> list[str]:
    """Return the command line that starts a program in a container; the program's own arguments follow it.

    The engine is docker or podman; memory is in bytes per notebook, and disk in megabytes of /tmp.
    """
    limit = f"{memory + FOR_TORCH}b"
    options = (
        f"--rm --interactive --name course-grade-{uuid.uuid4().hex[:12]} --network none --read-only "
        f"--tmpfs /tmp:size={disk}m --memory {limit} --memory-swap {limit} --pids-limit 64 --cap-drop ALL "
        "--user 65534:65534 --security-opt no-new-privileges --workdir /tmp"
    )
    command = [engine, "run", *options.split(), "--volume", f"{GUEST}:/sandbox/guest:ro"]
    command += ["--volume", f"{ANSWERING}:/sandbox/answering:ro"]
    if expose_course:
        command += ["--volume", f"{COURSE}:/sandbox/course/course_lib:ro"]
    for name, value in {"HOME": "/tmp", "LANG": "C.UTF-8", **ONE_THREAD}.items():
        command += ["--env", f"{name}={value}"]
    return [*command, image]
