"""Run a notebook in the sandbox, and start it again without the cell or the call that ended its process."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from course_grader.sandbox import NotebookEnded, Request, Sandbox, SandboxLost, Session
from course_grader.submissions import escape_hidden
from course_lib.exercises import LearnerError

SKIP_SECONDS = 1.0  # for the answers that a judge did not wait for
EXTRA_STARTS = 4  # besides one per answer that ended it
NO_ANSWER = "what it sent back was not a valid answer"


class Budget:
    """The seconds that a student's code may run, in all files and the doctor's sandbox together.

    Only the time in which it runs counts: not that of starting a sandbox, nor that of the judges.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    @contextlib.contextmanager
    def spent_by(self, session: Session, most: float = math.inf) -> Iterator[None]:
        """Count the time of the block, and let the session go on for no longer than what is left, or `most`."""
        begun = time.monotonic()
        session.until = begun + min(self.left, most)
        try:
            yield
        finally:
            self.left -= time.monotonic() - begun


class OutOfTime(LearnerError):
    """The notebook used up its time or its restarts."""

    def __init__(self, message: str) -> None:
        super().__init__({"kind": "", "message": message})
        self.sentence = message


class ProcessEnded(LearnerError):
    """The student's code ended its process or ran too long, so that no line and no shape is known."""

    def __init__(self, ended: NotebookEnded) -> None:
        super().__init__({"kind": "this", "message": ended.reason})
        self._lead = ended.lead

    def explain(
        self, axes: Mapping[int, str], arguments: Mapping[Any, str] | None = None
    ) -> tuple[tuple[str, ...], str | None]:
        """See `LearnerError`; what is known of the process leads on."""
        return ((self._lead[0],), self._lead[1]) if self._lead else super().explain(axes, arguments)


class RemoteNotebook:
    """One notebook in the sandbox, whose process is started again without the cell or the call that ended it.

    Leaving its context raises SandboxLost if the sandbox was ended from outside, because what was found since then is
    no verdict on the notebook.

    Args:
        sandbox: Starts its processes.
        cells: (number, source) of its code cells.
        names: The names of the exercises that are judged.
        provided: Module -> source of what the exercises provide of the course.
        budget: What all notebooks of a student share; without one, the limit of a notebook.

    Attributes:
        kinds: Name -> what the notebook defines under it: "class", "function", or the name of a type;
            "ellipsis" for a function or class without a body, too.
        raised: Cell -> the error that stopped it.
        ended: Cell -> why it was left out.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        cells: Sequence[tuple[int, str]],
        names: Sequence[str],
        provided: dict[str, str],
        budget: Budget | None = None,
    ) -> None:
        self.sandbox, self.cells, self.names, self.provided = sandbox, list(cells), list(names), provided
        self.kinds: dict[str, str] = {}
        self.raised: dict[int, dict[str, Any]] = {}
        self.ended: dict[int, str] = {}
        self.session: Session | None = None
        self.budget = budget or Budget(sandbox.limits.notebook)
        self._starts = 0
        self._lost: SandboxLost | None = None
        self._unread: Iterator[dict[str, Any]] = iter(())  # answers to requests that were made together
        self._open = contextlib.ExitStack()

    def __enter__(self) -> RemoteNotebook:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._open.close()
        if self._lost and kind is None:
            raise self._lost

    @property
    def remaining_cells(self) -> list[tuple[int, str]]:
        """Return (number, source) of the cells that did not end the process."""
        return [(number, source) for number, source in self.cells if number not in self.ended]

    def load(self) -> Session:
        """Run the cells, unless a process that has run them still exists; return the session of that process.

        Raises:
            OutOfTime: It ended too often, or took too long.
            LearnerError: The sandbox was ended from outside.
        """
        while self.session is None:
            self._starts += 1
            if self._starts > EXTRA_STARTS + len(self.names) or self.budget.left <= 0:
                raise OutOfTime(
                    "Your notebook ended Python, or ran out of time, again and again; the rest was not run."
                )
            self._start()
        return self.session

    def _start(self) -> None:
        """Run the cells in a new process; the cell that ends it is left out next time."""
        running: int | None = None
        try:
            session = self._open.enter_context(self.sandbox.session())
            arguments = {"cells": self.remaining_cells, "names": self.names, "provided": self.provided}
            with self.budget.spent_by(session):
                for message in session.follow("load", self.sandbox.limits.cell, **arguments):
                    loaded = message.get("loaded")
                    if isinstance(loaded, dict):
                        self.kinds = {name: str(loaded[name]) for name in self.names if name in loaded}
                        self.session = session
                        return
                    running = self._begun(message.get("cell"), running)
                    if isinstance(message.get("raised"), dict):
                        self.raised[running] = message["raised"]
        except NotebookEnded as ended:
            self._open.close()
            if running is None:
                raise OutOfTime(f"Your notebook could not be run: {ended.reason}.") from None
            self.ended[running] = ended.reason
        except SandboxLost as lost:
            self._lose(lost)

    def _begun(self, number: Any, running: int | None) -> int:
        """Return the cell that is reported to have begun; it must have been sent, and must not be over already."""
        numbers = [sent for sent, _ in self.remaining_cells]
        past = numbers.index(running) if running is not None else 0
        if type(number) is not int or number not in numbers[past:]:
            raise NotebookEnded(NO_ANSWER)
        return number

    def _lose(self, lost: SandboxLost) -> NoReturn:
        self._lost = lost
        self.forget()
        raise LearnerError({"kind": "this", "message": "the sandbox was ended from outside"}) from None

    def ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        """Send one request to the loaded notebook.

        Raises:
            LearnerError: The student's code raised an error, took too long or ended Python.
            OutOfTime: As in `load`.
        """
        return next(self.ask_all([(request, arguments)]))

    def ask_all(self, requests: Sequence[Request]) -> Iterator[dict[str, Any]]:
        """Send requests to the loaded notebook together; yield the answer to each, as far as one is wanted.

        Raises:
            LearnerError, OutOfTime: As in `ask`, at the first answer that is none.
        """
        self.skip()
        session = self.load()
        self._unread = session.ask_all(requests, self.sandbox.limits.answer)
        for _ in requests:
            message = self._answer(session)
            if isinstance(message.get("raised"), dict):
                raise _stopped_by(message["raised"])
            yield message

    def _answer(self, session: Session) -> dict[str, Any]:
        try:
            with self.budget.spent_by(session):
                return next(self._unread)
        except NotebookEnded as ended:
            self.forget()
            raise ProcessEnded(ended) from None
        except SandboxLost as lost:
            self._lose(lost)

    def skip(self) -> None:
        """Let the notebook finish what nobody waits for any more, or end its process if that takes long."""
        if self.session is None:
            return
        try:
            with self.budget.spent_by(self.session, SKIP_SECONDS):
                for _ in self._unread:
                    pass
        except NotebookEnded:
            self.forget()
        except SandboxLost as lost:
            self._lose(lost)

    def forget(self) -> None:
        """End the process; the next request starts a new one."""
        self.session, self._unread = None, iter(())
        self._open.close()


def _stopped_by(error: dict[str, Any]) -> LearnerError:
    """Describe the error that a student's process reports, made harmless."""
    report = {key: safe_text(error.get(key)) for key in ("kind", "message", "text", "function", "unwritten")}
    file, line = safe_text(error.get("file")), error.get("line")
    where = f"{file}:{line}" if file and type(line) is int and 0 <= line < 10**9 else None
    return LearnerError(
        report | {"tensors": _tensors(error.get("tensors")), "made": safe_texts(error.get("made"))}, where
    )


def safe_text(value: Any) -> str:
    """Return what a student's process reports, made harmless; empty for anything but a string."""
    return escape_hidden(value, 300) if isinstance(value, str) else ""


def safe_texts(value: Any) -> list[str]:
    """Return the strings of a list that a student's process reports, made harmless."""
    texts = value[:100] if isinstance(value, (list, tuple)) else ()
    return [escape_hidden(text, 60) for text in texts if isinstance(text, str)]


def _tensors(value: Any) -> list[tuple[str, tuple[int, ...], int, bool]]:
    """Return the shapes that a student's process reports, if they are such."""
    if not isinstance(value, list):
        return []
    return [
        (escape_hidden(part[0], 60), tuple(part[1]), part[2], part[3])
        for part in value[:6]
        if isinstance(part, (list, tuple))
        and len(part) == 4
        and isinstance(part[0], str)
        and type(part[2]) is int
        and type(part[3]) is bool
        and isinstance(part[1], (list, tuple))
        and len(part[1]) <= 8
        and all(type(size) is int for size in part[1])
    ]
