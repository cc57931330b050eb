"""Start notebooks' processes: import torch once and fork for each notebook, or run a single notebook.

The fork server never runs a student's code itself. It reads requests from a socket, its standard input. With each
"open" comes the socket of one notebook. Each notebook has two processes: a guard, which outlives it and reports how it
ended, and the notebook's own.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
from typing import Any

import torch

from . import GuestSettings, hardening
from .messages import ProtocolError
from .student import serve
from .wire import Channel


def _warm_up(expose_course: bool) -> None:
    """Run in a single thread whatever is slow the first time, so that forked processes start warm."""
    torch.set_num_threads(1)
    x = torch.randn(2, 3, 4)
    torch.nn.Linear(4, 4)(x).softmax(-1).transpose(1, 2).sum()
    torch.einsum("btd,btd->bt", x.double(), x.double())
    torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])
    if expose_course:
        import course_lib.diagnosis  # noqa: F401
    gc.freeze()  # what is imported stays for good: forked processes need neither search nor copy it
    gc.enable()


def single_run(settings: GuestSettings) -> None:
    """Run one notebook in this process, which was started for it alone, over standard input and output."""
    channel = Channel(os.dup(0), os.dup(1))
    hardening.silence_standard_streams()
    _warm_up(settings.expose_course)
    _serve_restricted(channel, settings, forked=False)


def fork_server(settings: GuestSettings) -> None:
    """Serve requests until the standard input closes."""
    _warm_up(settings.expose_course)
    control = socket.socket(fileno=0)
    _reply(control, {"ready": not settings.bubblewrap or _namespaces_work()})
    guards: dict[int, int] = {}  # number of a notebook -> process id of its guard
    while True:
        line, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not line:
            break
        request = json.loads(line)
        number = request["number"]
        if request["do"] == "open":
            guards[number] = _start_guard(descriptors[0], control, settings)
            os.close(descriptors[0])
            _reply(control, {"open": number})
        else:
            _stop_guard(guards.pop(number))
            _reply(control, {"closed": number})
    for guard in guards.values():  # nobody is left to ask for it
        _stop_guard(guard)
    os._exit(0)  # unloading torch takes longer than everything else


def _reply(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _namespaces_work() -> bool:
    """Test in a separate process whether each notebook can have its own namespaces within this sandbox."""
    probe = os.fork()
    if probe == 0:
        code = 1
        try:
            hardening.unshare_namespaces()
            inner = os.fork()
            if inner == 0:
                hardening.private_tmpfs(1)
                hardening.drop_capabilities()
                hardening.seccomp_filter()
                code = 0
            else:
                code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
        except OSError:
            pass
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(probe, 0)[1]) == 0


def _start_guard(descriptor: int, control: socket.socket, settings: GuestSettings) -> int:
    """Fork the guard of one notebook, which forks the notebook's own process; return the guard's process id."""
    guard = os.fork()
    if guard:
        return guard
    try:
        control.close()
        _guard_notebook(Channel(descriptor, descriptor), settings)
    finally:
        os._exit(0)


def _stop_guard(guard: int) -> None:
    os.kill(guard, signal.SIGTERM)
    os.waitpid(guard, 0)


def _guard_notebook(channel: Channel, settings: GuestSettings) -> None:
    stop_requested, child = False, 0

    def on_stop(*_: Any) -> None:
        nonlocal stop_requested
        stop_requested = True
        if child:
            _kill(child, settings.bubblewrap)

    signal.signal(signal.SIGTERM, on_stop)
    try:
        if settings.bubblewrap:
            hardening.unshare_namespaces()
        hardening.die_with_parent(signal.SIGTERM)
    except OSError as error:
        channel.send({"failed": str(error)})
        raise
    child = os.fork()
    if child == 0:
        try:
            _run_notebook(channel, settings)
        finally:
            os._exit(1)
    if stop_requested:  # the signal came before the child's id was known
        on_stop()
    _, status = os.waitpid(child, 0)
    if not settings.bubblewrap:
        _kill(child, False)  # what it left behind
    if not stop_requested:
        with contextlib.suppress(ProtocolError):  # nobody may be listening any more
            channel.send({"ended": os.waitstatus_to_exitcode(status)})


def _kill(child: int, own_namespaces: bool) -> None:
    """End a notebook's process: with process 1 of a namespace all others in it end, elsewhere its group does."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.kill if own_namespaces else os.killpg)(child, signal.SIGKILL)


def _run_notebook(channel: Channel, settings: GuestSettings) -> None:
    """Serve in the notebook's own process, with no file of the fork server open."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()  # a group of its own, so that a signal to the group reaches no other process
    hardening.silence_standard_streams()
    os.closerange(channel.reading + 1, 1024)
    os.closerange(3, channel.reading)
    _serve_restricted(channel, settings, forked=True)


def _serve_restricted(channel: Channel, settings: GuestSettings, *, forked: bool) -> None:
    """Restrict this process, which runs one notebook, then serve."""
    try:
        if forked:
            hardening.die_with_parent(signal.SIGKILL)
        hardening.set_limits(settings.memory, settings.cpu_seconds, settings.disk << 20)
        if forked and settings.bubblewrap:
            hardening.private_tmpfs(settings.disk)
            hardening.drop_capabilities()
        if settings.bubblewrap:
            hardening.seccomp_filter()
    except OSError as error:
        channel.send({"failed": str(error)})
        raise
    serve(channel, settings.expose_course)
