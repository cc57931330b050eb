"""A notebook's answers behind walls, as the judges of the exercises see them: they call, and numbers come back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.classroom.handed_in.unreadable import shown
from course_lib.classroom.sandbox import Ended, Lost, Sandbox, Session
from course_lib.classroom.sandbox.inside.wire import Other
from course_lib.exercises.running import Stopped

TRIES = 4  # how often a notebook is begun anew, besides once for each answer that ended it


class OutOfTime(Stopped):
    """The notebook's time or its tries are used up."""

    def __init__(self, says: str) -> None:
        super().__init__("", says)
        self.says = says


class Remote:
    """One notebook behind walls. What ends its process ends one cell or one call: it is begun anew without that.

    Leaving its context raises Lost if the sandbox was ended from outside: what was said since is no verdict on it.

    Args:
        sandbox: makes its processes.
        cells: (number, source) of its code cells.
        names: of the exercises that are asked about.
        given: modules of the course that its exercises give, name -> source.
    """

    def __init__(
        self, sandbox: Sandbox, cells: Sequence[tuple[int, str]], names: Sequence[str], given: dict[str, str]
    ) -> None:
        self.sandbox, self.cells, self.names, self.given = sandbox, list(cells), list(names), given
        self.kinds: dict[str, str] = {}
        self.raised: dict[int, dict[str, Any]] = {}  # cell -> why it stopped
        self.ended: dict[int, str] = {}  # cell -> why it was left out
        self._until = time.monotonic() + sandbox.limits.notebook
        self._tries = 0
        self._session: Session | None = None
        self._lost: Lost | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._open.close()
        if self._lost and kind is None:
            raise self._lost

    def load(self) -> None:
        """Run the cells, if they have not been run in a process that is still there.

        Raises:
            OutOfTime: it ended too often, or took too long.
        """
        while self._session is None:
            self._tries += 1
            if self._tries > TRIES + len(self.names) or time.monotonic() > self._until:
                raise OutOfTime(
                    "Your notebook ended Python, or ran out of time, again and again; the rest was not run."
                )
            cell = None
            try:
                session = self._open.enter_context(self.sandbox.session())
                session.until = min(session.until, self._until)
                cells = [one for one in self.cells if one[0] not in self.ended]
                asked = {"cells": cells, "names": self.names, "given": self.given}
                for said in session.follow("load", self.sandbox.limits.cell, **asked):
                    if isinstance(said.get("loaded"), dict):
                        self.kinds = {name: str(said["loaded"][name]) for name in self.names if name in said["loaded"]}
                        break
                    if (begun := said.get("cell")) is not None:
                        cell = self._known(begun, cell)
                        if isinstance(said.get("raised"), dict):
                            self.raised[cell] = said["raised"]
                    else:
                        raise Ended("what it gave back was no answer")
                self._session = session
            except Ended as ended:
                self._open.close()
                if cell is None:
                    raise OutOfTime(f"Your notebook could not be run: {ended.reason}.") from None
                self.ended[cell] = ended.reason
            except Lost as lost:
                self._lose(lost)

    def _known(self, begun: Any, cell: int | None) -> int:
        """The cell that is said to have begun: one of those that were sent, and none that was already past."""
        numbers = [number for number, _ in self.cells if number not in self.ended]
        past = numbers.index(cell) if cell is not None else 0
        if type(begun) is not int or begun not in numbers[past:]:
            raise Ended("what it gave back was no answer")
        return begun

    def _lose(self, lost: Lost) -> None:
        self._lost = lost
        self.forget()
        raise Stopped("this", "the sandbox was ended from outside") from None

    def ask(self, do: str, **with_: Any) -> dict[str, Any]:
        """Ask for one call.

        Raises:
            Stopped: the student's code raised, took too long or ended Python.
            OutOfTime: as in load.
        """
        self.load()
        try:
            said = self._session.ask(do, self.sandbox.limits.answer, **with_)
        except Ended as ended:
            self.forget()
            raise Stopped("this", ended.reason) from None
        except Lost as lost:
            self._lose(lost)
        if isinstance(said.get("raised"), dict):
            raise stopped(said["raised"])
        return said

    def forget(self) -> None:
        """Give the process up; the next question begins with a new one."""
        self._session = None
        self._open.close()


def stopped(told: dict[str, Any]) -> Stopped:
    """What a student's process says of an error, made harmless."""
    kind, words, where, text = (shown(str(told.get(key) or ""), 300) for key in ("kind", "words", "where", "text"))
    return Stopped(kind or "an error", words, where or None, text, unwritten=told.get("unwritten") is True)


class RemoteFunction:
    """A student's function that is called with the same inputs as the judge's reference, in the same order.

    Args:
        remote: its notebook.
        name: of the function.
        inputs: as they are sent: plain data, tensors and Made, where the judge has what was made.
    """

    def __init__(self, remote: Remote, name: str, inputs: Sequence[tuple]) -> None:
        self.remote, self.name, self.inputs = remote, name, list(inputs)
        self.calls = 0

    def __call__(self, *mine: Any) -> Any:
        given, self.calls = self.inputs[self.calls], self.calls + 1
        said = self.remote.ask("call", name=self.name, arguments=list(given), seed=self.calls)
        changed = said.get("changed")
        for at, after in changed.items() if isinstance(changed, dict) else ():
            if isinstance(at, int) and 0 <= at < len(mine):
                _change(mine[at], after)
        return plain(said.get("result"))


def _change(value: Any, after: Any) -> None:
    """Do to the judge's copy what was done to the student's, so that the judge sees it."""
    with torch.no_grad():
        if isinstance(value, Tensor) and isinstance(after, Tensor):
            value.data = after
        elif isinstance(value, (list, tuple)) and isinstance(after, (list, tuple)):
            for one, other in zip(value, after, strict=False):
                _change(one, other)
        elif isinstance(value, nn.Module):
            for parameter in value.parameters():
                parameter.add_(1.0)  # whatever it was: it is another module now


def plain(result: Any) -> Any:
    """A result as the judges know it: what is no plain data becomes a thing whose type has the right name."""
    if isinstance(result, Other):
        return type(shown(result.kind) or "thing", (), {})()
    if isinstance(result, str):
        return shown(result, 200)
    if isinstance(result, (tuple, list, set)):
        return type(result)(plain(one) for one in result)
    if isinstance(result, dict):
        return {key: plain(one) for key, one in result.items()}
    return result


class RemoteClass:
    """A student's class, as class_judge sees it."""

    def __init__(self, remote: Remote, name: str) -> None:
        self.remote, self.name = remote, name

    def build(self, sizes: tuple[int, ...], seed: int) -> RemoteModule:
        """Build it.

        Raises:
            Stopped: it raised, or is no module.
        """
        said = self.remote.ask("build", name=self.name, sizes=tuple(sizes), seed=seed)
        if "no_module" in said:
            words = f"it gives a {str(said['no_module'])[:60]}, no `nn.Module`: write `class {self.name}(nn.Module)`"
            raise Stopped("TypeError", words)
        return RemoteModule(self.remote, said)


class RemoteModule:
    """A module that was built behind walls; it is lost when its process ends.

    Attributes:
        parameters: name -> shape, in the order of their registration.
    """

    def __init__(self, remote: Remote, said: dict[str, Any]) -> None:
        self.remote, self.session = remote, remote._session
        self.number = said.get("built")
        shapes = said.get("parameters")
        if not isinstance(shapes, dict) or not all(_is_shape(shape) for shape in shapes.values()):
            raise Stopped("this", "what it said of its parameters was no answer")
        self.parameters = {str(name): tuple(shape) for name, shape in shapes.items()}

    def run(self, weights: dict[str, Tensor], x: Tensor) -> tuple[Any, Any]:
        """Give it weights and run it; its output, and what x holds afterwards.

        Raises:
            Stopped: it raised, or its process is gone.
        """
        if self.session is not self.remote._session:
            raise Stopped("this", "its process ended before")
        said = self.remote.ask("run", module=self.number, weights=weights, x=x, seed=0)
        return plain(said.get("result")), said.get("x")


def _is_shape(said: Any) -> bool:
    return isinstance(said, tuple) and all(type(size) is int for size in said)
