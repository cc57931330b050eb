"""Leave out what the doctor finds in a reference as well, because it can't be why the code differs from it."""

from collections.abc import Iterable

from .finding import Finding


def kinds(findings: Iterable[Finding]) -> frozenset[str]:
    """Return the mistakes of findings, or their titles where they have no name."""
    return frozenset(one.mistake or one.title for one in findings)


def unshared(findings: Iterable[Finding], shared: frozenset[str]) -> tuple[Finding, ...]:
    """Return the findings that the reference does not share; without a reference that differs, all of them."""
    return tuple(one for one in findings if (one.mistake or one.title) not in shared)
