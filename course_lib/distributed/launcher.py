"""Starts the script on several processes of this machine from Python, as `torchrun` does in a terminal."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from course_lib.attention import check_positive

SCRIPT = "course_lib.distributed.tensor_parallel"
REFUSED = "refused: "  # how the script's error message begins, on stderr
STOP_SECONDS = 40.0  # time for torchrun to stop its processes by itself, for which it takes up to 30


def launch(num_processes: int, *arguments: str, script: str = SCRIPT, timeout: float = 180.0) -> str:
    """Run `torchrun --nproc-per-node num_processes -m script arguments` and wait for it.

    The processes connect through a free port of 127.0.0.1; no other network is needed. None of them outlives the call,
    even if it is interrupted.

    Args:
        num_processes: number of processes.
        arguments: the script's arguments, as in a terminal.
        script: the module to run, "package.module", or a file, "folder/name.py".
        timeout: seconds after which all processes are stopped.

    Returns:
        What the script printed, without what PyTorch writes to stderr.

    Raises:
        ValueError: arguments that the script refused, in its own sentence.
        RuntimeError: the processes failed or took too long; the message ends with the last error they wrote.
        TypeError: num_processes that is not an integer.

    Example:
        >>> print(launch(2, "--form", "multi-head"))
        multi-head, 8 heads of width 3, on 2 devices
    """
    check_positive(num_processes=num_processes)
    check_loopback()
    target = [script] if script.endswith(".py") else ["-m", script]
    command = [*torchrun_command(num_processes), *target, *arguments]
    with subprocess.Popen(
        command,
        env=process_environment(),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            printed, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"{num_processes} processes gave no answer within {timeout:g} seconds and were stopped: close other "
                "programs, or give launch() a longer timeout."
            ) from None
        finally:
            stop(process)
    if process.returncode == 0:
        return printed.rstrip("\n")
    lines = [line.strip() for line in errors.splitlines()]
    for line in lines:
        if line.startswith(REFUSED):
            raise ValueError(line.removeprefix(REFUSED))
    failures = [line for line in lines if re.search(r"Error\b|No module named", line)]
    failures = [line for line in failures if "ChildFailedError" not in line]
    raise RuntimeError(f"{num_processes} processes failed; the last error: {(failures or ['none was written'])[-1]}")


def torchrun_command(num_processes: int) -> list[str]:
    """The command that starts processes on this machine; they connect through a free port."""
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_processes), *rendezvous]


def process_environment() -> dict[str, str]:
    """The environment of the processes: this course on the path, one thread each, the loopback interface."""
    variables = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [root, variables.get("PYTHONPATH")]))
    variables.setdefault("OMP_NUM_THREADS", "1")
    # By default gloo looks up the machine's name, which fails on some laptops and in sandboxes.
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loopback:
        variables.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    return variables


def check_loopback() -> None:
    """Refuse at once if a process can't connect to itself, instead of after two minutes of waiting."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 5):
            pass
    except OSError as error:
        raise RuntimeError(
            f"processes can't talk to each other through 127.0.0.1 here ({error.strerror or error}): in a sandbox "
            "without any network, switch its loopback interface on."
        ) from error


def stop(process: subprocess.Popen[str]) -> None:
    """Stop torchrun if it still runs: with a signal, so that it stops its processes, and only then by force."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
