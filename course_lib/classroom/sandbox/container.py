"""The walls of a container, by docker or podman: slower, because each notebook starts one; see the Dockerfile here."""

from __future__ import annotations

import subprocess
import uuid

from .places import COURSE, INSIDE, ONE_THREAD

FOR_TORCH = 1 << 30  # bytes that Python and torch need beside the notebook's own


def words(engine: str, image: str, real: bool, memory: int, disk: int) -> list[str]:
    """The words that start a program in a container; the program's own follow.

    Args:
        engine: docker or podman.
        image: with Python, torch, numpy and safetensors.
        real: whether the course itself can be seen.
        memory: bytes for a notebook.
        disk: megabytes of /tmp.
    """
    limit = f"{memory + FOR_TORCH}b"
    said = [engine, "run", "--rm", "--interactive", "--name", f"course-grade-{uuid.uuid4().hex[:12]}"]
    said += ["--network", "none", "--read-only", "--tmpfs", f"/tmp:size={disk}m", "--memory", limit]
    said += ["--memory-swap", limit, "--pids-limit", "64", "--cap-drop", "ALL", "--user", "65534:65534"]
    said += ["--security-opt", "no-new-privileges", "--workdir", "/tmp"]
    said += ["--volume", f"{INSIDE}:/sandbox/inside:ro"]
    if real:
        said += ["--volume", f"{COURSE}:/sandbox/course/course_lib:ro"]
    for name, value in {"HOME": "/tmp", "LANG": "C.UTF-8", **ONE_THREAD}.items():
        said += ["--env", f"{name}={value}"]
    return [*said, image]


def kill(command: list[str]) -> None:
    """End the container of a command. The engine's own process may be gone while its container goes on."""
    engine, name = command[0], command[command.index("--name") + 1]
    subprocess.run([engine, "kill", name], capture_output=True, check=False, timeout=60)
