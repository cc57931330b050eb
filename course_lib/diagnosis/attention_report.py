"""What was found in each of the attentions of a whole, and how the same finding in several is said once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib.wording import listed

from .finding import Finding


@dataclass(frozen=True)
class AttentionReport:
    """The result for one attention of the code.

    Attributes:
        name: where it is, such as "blocks.1.attn".
        where: the line of its module's class, or None if unknown.
        findings: the likeliest first.
        missing: why it was not examined, or "".
        checked: what was found to be right.
        remarks: what is worth knowing but no mistake.
        of_memory: whether it makes or reads the memory of an encoder, which may be seen as a whole.
    """

    name: str
    where: str | None = None
    findings: tuple[Finding, ...] = ()
    missing: str = ""
    checked: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    of_memory: bool = False

    @property
    def ok(self) -> bool:
        """Whether it was examined and nothing was found."""
        return not self.findings and not self.missing

    def as_dict(self) -> dict[str, Any]:
        findings = [finding.as_dict() for finding in self.findings]
        return {"name": self.name, "where": self.where, "findings": findings, "not_examined": self.missing or None}


def said_once(attentions: Sequence[AttentionReport]) -> tuple[Finding, ...]:
    """Return the findings in all attentions; the same mistake at the same line is one finding that names them."""
    alike: dict[tuple[str | None, str | None], list[tuple[str, Finding]]] = {}
    for attention in attentions:
        for finding in attention.findings:
            alike.setdefault((finding.mistake, finding.where), []).append((attention.name, finding))
    said = ((_among([name for name, _ in same], len(attentions)), same[0][1]) for same in alike.values())
    return tuple(replace(first, evidence=f"{where}{first.evidence}") for where, first in said)


def sentences(attentions: Iterable[AttentionReport], kind: str) -> tuple[str, ...]:
    """Return the sentences of all attentions ("checked" or "remarks"), each once, after the names it is true of."""
    names: dict[str, list[str]] = {}
    found = list(attentions)
    for attention in found:
        for sentence in getattr(attention, kind):
            names.setdefault(sentence, []).append(attention.name)
    return tuple(type(sentence)(f"{_among(where, len(found))}{sentence}") for sentence, where in names.items())


def _among(names: Sequence[str], count: int) -> str:
    """Return the beginning of a clause that says which of several attentions it is about; "" if there is only one."""
    if count == 1:
        return ""
    if len(names) == 1:
        return f"in {names[0]}: "
    if len(names) == count:
        return f"in all {count} attentions: "
    return f"in {len(names)} of {count} attentions ({listed(names)}): "
