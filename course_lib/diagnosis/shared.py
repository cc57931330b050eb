"""Compare findings with those of a reference: what both have can't be why the code differs from it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from course_lib.tracing import SourceLine

from .finding import Finding
from .locate import Change


@dataclass(frozen=True)
class Shared:
    """What is known from a reference that computes something else.

    Attributes:
        about: what was found in the reference (`Finding.about`).
        only: the one change between the texts of both, which is then why the code differs; None if there are more.
    """

    about: frozenset[tuple] = frozenset()
    only: Change | None = None

    @classmethod
    def of(cls, findings: Iterable[Finding], changes: list[Change]) -> "Shared":
        """Return what the findings of the reference and the changed lines say."""
        return cls(frozenset(one.about for one in findings), changes[0] if len(changes) == 1 else None)

    def left(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that the reference does not have, each with the one changed line, if there is one."""
        return tuple(self._pointed(one) for one in findings if one.about not in self.about)

    def _pointed(self, finding: Finding) -> Finding:
        where, change = finding.where, self.only
        if change is None or not finding.examined:
            return finding
        if isinstance(where, SourceLine) and where.file == change.file and where.line in change.pointed:
            return finding
        line = SourceLine(change.file, change.lines[0])
        seen = f"{finding.evidence}, seen at {where}" if where else finding.evidence
        return replace(finding, where=line, evidence=f"{seen}; {change.said}, and no other line differs")
