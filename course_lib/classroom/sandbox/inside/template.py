"""The warm parent: it has imported torch and makes a process for each notebook. It never runs a student's line itself.

It is told what to do by one socket, its standard input. With each "open" comes the socket of one notebook.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any

import torch

from . import confine
from .student import serve
from .wire import Broken, Channel


def warm_up(real_course: bool) -> None:
    """Do once what the first of each kind of operation does, with one thread, so that forks have it."""
    torch.set_num_threads(1)
    x = torch.randn(2, 3, 4)
    torch.nn.Linear(4, 4)(x).softmax(-1).transpose(1, 2).sum()
    torch.einsum("btd,btd->bt", x.double(), x.double())
    torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])
    if real_course:
        import course_lib.diagnosis  # noqa: F401


def main(settings: dict[str, Any]) -> None:
    """Serve until the standard input ends."""
    warm_up(settings["real_course"])
    control = socket.socket(fileno=0)
    _say(control, {"ready": _can_be_alone() if settings["alone"] else True})
    guards: dict[int, int] = {}  # number of a notebook -> process that guards it
    while True:
        line, ends, _, _ = socket.recv_fds(control, 4096, 1)
        if not line:
            break
        request = json.loads(line)
        number = request["number"]
        if request["do"] == "open":
            guards[number] = _guarded(ends[0], control, settings)
            os.close(ends[0])
            _say(control, {"open": number})
        else:
            _end(guards.pop(number))
            _say(control, {"closed": number})
    for guard in guards.values():  # whoever asked for them is gone
        _end(guard)


def _end(guard: int) -> None:
    """End a notebook's process through its guard, which outlives it."""
    os.kill(guard, signal.SIGTERM)
    os.waitpid(guard, 0)


def _can_be_alone() -> bool:
    """Try on a process of its own whether each notebook can have a world of its own within this one."""
    probe = os.fork()
    if probe == 0:
        code = 1
        try:
            confine.own_namespaces()
            inner = os.fork()
            if inner == 0:
                confine.own_disk(1)
                confine.no_powers()
                confine.few_calls()
                code = 0
            else:
                code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
        except OSError:
            pass
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(probe, 0)[1]) == 0


def _say(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def _guarded(end: int, control: socket.socket, settings: dict[str, Any]) -> int:
    """Make the process that guards one notebook, and in it the notebook's own; return the guard's number."""
    guard = os.fork()
    if guard:
        return guard
    try:
        control.close()
        _guard(end, settings)
    finally:
        os._exit(0)


def _guard(end: int, settings: dict[str, Any]) -> None:
    stop = {"asked": False, "child": 0}

    def on_stop(*_: Any) -> None:
        stop["asked"] = True
        if stop["child"]:
            _kill(stop["child"], settings["alone"])

    signal.signal(signal.SIGTERM, on_stop)
    channel = Channel(end, end)
    try:
        if settings["alone"]:
            confine.own_namespaces()
        confine.die_with_parent(signal.SIGTERM)
    except OSError as error:
        channel.send({"failed": str(error)})
        raise
    child = os.fork()
    if child == 0:
        try:
            _alone(channel, settings)
        finally:
            os._exit(1)
    stop["child"] = child
    if stop["asked"]:
        on_stop()
    _, status = os.waitpid(child, 0)
    if not settings["alone"]:
        _kill(child, False)  # what it left behind
    if not stop["asked"]:
        with contextlib.suppress(Broken):  # nobody may be listening any more
            channel.send({"ended": os.waitstatus_to_exitcode(status)})


def _kill(child: int, alone: bool) -> None:
    """End a notebook's process; process 1 of a world of its own takes that world with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.kill if alone else os.killpg)(child, signal.SIGKILL)


def _alone(channel: Channel, settings: dict[str, Any]) -> None:
    """The notebook's process: shut in first, then serve."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()  # a group of its own: a signal to its group must reach nobody else
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.closerange(channel.reading + 1, 1024)
    os.closerange(3, channel.reading)
    try:
        confine.die_with_parent(signal.SIGKILL)
        confine.limits(settings["memory"], settings["seconds"], settings["disk"] << 20)
        if settings["alone"]:
            confine.own_disk(settings["disk"])
            confine.no_powers()
            confine.few_calls()
    except OSError as error:
        channel.send({"failed": str(error)})
        raise
    serve(channel, settings["real_course"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    os._exit(0)  # taking torch apart takes longer than all the rest
