"""Starts the script on several processes of this machine, as `torchrun` does in a terminal, from Python."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from course_lib.attention.checks import check_positive

SCRIPT = "course_lib.distributed.tensor_parallel"
REFUSED = "refused: "  # how the script's one sentence begins, on stderr
PATIENCE = 40.0  # seconds in which torchrun may stop its processes by itself; it gives them 30


def launch(num_processes: int, *arguments: str, script: str = SCRIPT, timeout: float = 180.0) -> str:
    """Run `torchrun --nproc-per-node num_processes -m script arguments` and wait for it.

    The processes find each other through a free port of 127.0.0.1; no other network is needed. None of them outlives
    the call, not even one that is interrupted.

    Args:
        num_processes: how many.
        arguments: of the script, as in a terminal.
        script: the module to run, "package.module".
        timeout: seconds after which all processes are stopped.

    Returns:
        What the script printed. What PyTorch says beside it is dropped.

    Raises:
        ValueError: what the script refused, in its own sentence.
        RuntimeError: the processes failed or took too long; the sentence ends with the last error they wrote.
        TypeError: num_processes that is no whole number.

    Example:
        >>> print(launch(2, "--form", "multi-head"))
        multi-head, 8 heads of 3 numbers, on 2 devices
    """
    check_positive(num_processes=num_processes)
    check_loopback()
    command = [*torchrun(num_processes), "-m", script, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    with subprocess.Popen(command, env=environment(), start_new_session=True, **pipes) as process:
        try:
            printed, said = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"{num_processes} processes gave no answer within {timeout:g} seconds and were stopped: close other "
                "programs, or give launch() a longer timeout."
            ) from None
        finally:
            stop(process)
    if process.returncode == 0:
        return printed.rstrip("\n")
    lines = [line.strip() for line in said.splitlines()]
    for line in lines:
        if line.startswith(REFUSED):
            raise ValueError(line.removeprefix(REFUSED))
    errors = [line for line in lines if re.search(r"Error\b|No module named", line) and "ChildFailedError" not in line]
    raise RuntimeError(f"{num_processes} processes failed; the last error: {(errors or ['none was written'])[-1]}")


def torchrun(num_processes: int) -> list[str]:
    """The command that starts processes on this machine, and lets them meet at a free port of it."""
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_processes), *meeting]


def environment() -> dict[str, str]:
    """The variables the processes start with: this course on the path, one thread each, this machine's own network."""
    variables = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [root, variables.get("PYTHONPATH")]))
    variables.setdefault("OMP_NUM_THREADS", "1")
    # Left alone, gloo looks up the machine's name, which fails on some laptops and in sandboxes.
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loopback:
        variables.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    return variables


def check_loopback() -> None:
    """Refuse at once where a process can't talk to itself, instead of after two minutes of waiting."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 5):
            pass
    except OSError as error:
        raise RuntimeError(
            f"processes can't talk to each other through 127.0.0.1 here ({error.strerror or error}): in a sandbox "
            "without any network, switch its loopback interface on."
        ) from error


def stop(process: subprocess.Popen) -> None:
    """Stop torchrun, if it still runs: kindly, so that it stops its processes, and only then by force."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
