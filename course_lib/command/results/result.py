"""The result of one target, and the status of several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.diagnosis import Report
    from course_lib.scan import ScanReport


@dataclass(frozen=True)
class Result:
    """One target and its report, or the sentence that says why there is none.

    Attributes:
        target: as it was typed.
        notes: what was stood in for, left out or guessed to open it.
    """

    target: str
    report: Report | ScanReport | None = None
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the code."""
        return self.target if self.report is None else self.report.subject

    @property
    def not_examined(self) -> tuple[str, ...]:
        """A sentence for the target if it was not opened, or for each attention or path that was not examined."""
        if self.report is None:
            return (self.error,)
        return tuple(f"{unseen.name} was not examined: {unseen.missing}" for unseen in self.report.not_examined)

    @property
    def status(self) -> int:
        """0 if nothing is wrong, 1 if something is, 2 if it could not be opened or examined."""
        return 2 if self.report is None else self.report.exit_status

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        report = {"ok": False, "error": self.error} if self.report is None else self.report.as_dict()
        return {"target": self.target, "status": self.status, **report, "notes": list(self.notes)}


def overall(results: Sequence[Result]) -> int:
    """Return 1 if something is wrong anywhere, else 2 if something was not examined, else 0."""
    statuses = {result.status for result in results}
    return 1 if 1 in statuses else max(statuses, default=0)


def as_json(results: Sequence[Result]) -> str:
    """Return one object for one target, and a list for several."""
    listed = [result.as_dict() for result in results]
    return json.dumps(listed[0] if len(listed) == 1 else listed, indent=2)
