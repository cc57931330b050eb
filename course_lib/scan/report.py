"""The report of a scan: a row per path, and each thing that is wrong with its module, line and page."""

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from course_lib.about import page_of, version
from course_lib.diagnosis import CATALOGUE, Report
from course_lib.wording import counted

from .outcome import Outcome

SIGNS = {"agrees": "ok", "wrong": "WRONG", "remark": "differs", "not run": "-"}


@dataclass(frozen=True)
class ScanReport:
    """The result of `scan`.

    Attributes:
        subject: the name of the model.
        outcomes: of each path, in the order in which they were run.
        diagnosis: the doctor's report on the attention inside, or None if it was not asked.
        not_examined: why nothing could be run; "" otherwise.
    """

    subject: str
    outcomes: tuple[Outcome, ...] = ()
    diagnosis: Report | None = None
    not_examined: str = ""

    @property
    def wrong(self) -> tuple[Outcome, ...]:
        """What is wrong, in the order of the paths."""
        return tuple(one for one in self.outcomes if one.status == "wrong")

    @property
    def ok(self) -> bool:
        """Whether the paths were run and nothing was found, neither by the paths nor by the doctor."""
        return not self.not_examined and not self.wrong and (self.diagnosis is None or self.diagnosis.ok)

    @property
    def verdict(self) -> str:
        """The result as a clause."""
        if self.not_examined:
            return f"it could not be examined: {self.not_examined}."
        run = sum(one.status != "not run" for one in self.first_of_each_path)
        paths = f"{counted(run, 'path')} run"
        bad = len({one.path for one in self.wrong})
        return f"{paths}, {'all agree' if not bad else f'{bad} wrong'}."

    @property
    def first_of_each_path(self) -> list[Outcome]:
        """One outcome per path: what is wrong if anything is, else the first."""
        found: dict[str, Outcome] = {}
        for one in self.outcomes:
            if one.path not in found or (one.status == "wrong" and found[one.path].status != "wrong"):
                found[one.path] = one
        return list(found.values())

    def __repr__(self) -> str:
        lines = [f"{self.subject}: {self.verdict}", ""]
        width = max((len(one.path) for one in self.outcomes), default=0)
        for one in self.first_of_each_path:
            lines.append(f"  {one.path:<{width}}  {SIGNS[one.status]:<7}  {one.said}")
        for number, one in enumerate(self.wrong, 1):
            title = CATALOGUE[one.mistake].title if one.mistake else "This path differs."
            lines += ["", f"{number}. {title} [{one.mistake}]", f"   Path: {one.path}", f"   Seen: {one.said}"]
            if one.place:
                at = f" at {one.place.where}" if one.place.where else ""
                lines.append(f"   First module that differs: {one.place.module} ({one.place.kind}){at}")
        if self.diagnosis is not None and not self.diagnosis.ok:
            lines += ["", repr(self.diagnosis)]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(one.path)}</td><td>{SIGNS[one.status]}</td><td>{escape(one.said)}</td></tr>"
            for one in self.first_of_each_path
        )
        places = "".join(
            f"<li><code>{escape(one.place.module)}</code>: {escape(one.said)}</li>" for one in self.wrong if one.place
        )
        return (
            f"<p><strong>{escape(f'{self.subject}: {self.verdict}')}</strong></p><table><thead><tr><th>path</th>"
            f"<th>result</th><th>measured</th></tr></thead><tbody>{rows}</tbody></table><ul>{places}</ul>"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for `course scan --json` and other programs."""
        return {
            "version": version(),
            "subject": self.subject,
            "ok": self.ok,
            "not_examined": self.not_examined,
            "paths": [one.as_dict() | {"url": page_of(one.mistake)} for one in self.outcomes],
            "diagnosis": None if self.diagnosis is None else self.diagnosis.as_dict(),
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)
