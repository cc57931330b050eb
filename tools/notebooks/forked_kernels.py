"""Start kernels as forks of a process that has imported PyTorch, Seaborn and Jupyter, which saves each two seconds.

Nothing of the course is imported before the fork. Run as a program, this file is that process: for each line of JSON
that it reads, it forks a kernel, which prints its process id.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

IN_THE_PAGE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # ipykernel would set it too late


class ForkedKernel:
    """A kernel's process, with what Jupyter asks of a `subprocess.Popen`; how it ends is not known."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], env: dict[str, str], cwd: str | None) -> None:
        server = _server()
        assert server.stdin and server.stdout
        print(json.dumps([arguments, env, cwd or os.getcwd()]), file=server.stdin, flush=True)
        self.pid = int(server.stdout.readline())

    def poll(self) -> int | None:
        """Return None while the kernel runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self) -> int:
        """Wait for the kernel's end."""
        while self.poll() is None:
            time.sleep(0.01)
        return 0

    def send_signal(self, number: int) -> None:
        """Send the kernel a signal, if it still runs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


@cache
def _server() -> subprocess.Popen[str]:
    environment = os.environ | IN_THE_PAGE
    return subprocess.Popen([sys.executable, __file__], stdin=-1, stdout=-1, env=environment, text=True)


def fork_kernels() -> None:
    """Have Jupyter fork this Python's usual kernels, where a process that has imported PyTorch may be forked."""
    from jupyter_client.provisioning import local_provisioner

    launch = local_provisioner.launch_kernel  # pyright: ignore[reportPrivateImportUsage]

    def launch_kernel(command: list[str], **options: Any) -> Any:
        if Path(command[0]) == Path(sys.executable) and "ipykernel_launcher" in command:
            return ForkedKernel(command[command.index("-f") :], options["env"], options["cwd"])
        return launch(command, **options)

    if sys.platform == "linux":
        local_provisioner.launch_kernel = launch_kernel  # pyright: ignore[reportPrivateImportUsage]


def end_forking() -> None:
    """Wait for the process that forks, so that the system counts its seconds and its kernels' as those of the tests."""
    if _server.cache_info().currsize:
        _server().communicate()


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve() -> None:
    """Fork a kernel for each line of the standard input."""
    import ipykernel.kernelapp
    import seaborn  # noqa: F401
    import torch  # noqa: F401

    signal.signal(signal.SIGCHLD, _reap)
    for line in sys.stdin:
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        print(os.getpid(), flush=True)
        arguments, env, cwd = json.loads(line)
        for stream in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.argv[1:] = arguments
        ipykernel.kernelapp.launch_new_instance()
        break


if __name__ == "__main__":
    del sys.path[0]  # this folder
    _serve()
