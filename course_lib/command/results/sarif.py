"""SARIF 2.1.0, the format in which GitHub's code scanning and editors read the findings of tools.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from course_lib.about import page_of, repository_address, version

from .locations import location_of
from .result import Result

if TYPE_CHECKING:
    from course_lib.diagnosis import Finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
UNNAMED, NOT_EXAMINED = "differs-from-attention", "not-examined"


def sarif(results: Sequence[Result], tool: str) -> dict[str, Any]:
    """Return the log of one run over all targets as plain data."""
    findings = [(finding, result) for result in results if result.report for finding in result.report.findings]
    driver: dict[str, Any] = {"name": tool, "version": version(), "rules": list(_rules(findings))}
    if address := repository_address():
        driver["informationUri"] = address
    failed = [_notification(result, sentence) for result in results for sentence in result.not_examined]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not failed, "toolExecutionNotifications": failed}],
        "results": [_entry(finding, result) for finding, result in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(findings: list[tuple[Finding, Result]]) -> Iterator[dict[str, Any]]:
    for name, finding in {_rule(finding): finding for finding, _ in findings}.items():
        title = finding.title if finding.mistake else "It differs from attention, or could not be examined."
        rule: dict[str, Any] = {"id": name, "shortDescription": {"text": title}}
        if address := page_of(finding.mistake):
            rule["helpUri"] = address
        yield rule


def _rule(finding: Finding) -> str:
    return finding.mistake or (UNNAMED if finding.examined else NOT_EXAMINED)


def _entry(finding: Finding, result: Result) -> dict[str, Any]:
    hint = f" Ask yourself: {finding.hint}" if finding.hint else ""
    return {
        "ruleId": _rule(finding),
        "level": "error" if finding.examined else "warning",
        "message": {"text": f"{finding.title} Seen: {finding.evidence}{hint}"},
        **_locations(finding, result),
    }


def _notification(result: Result, sentence: str) -> dict[str, Any]:
    return {"level": "error", "message": {"text": f"{result.target}: {sentence}"}, **_locations(None, result)}


def _locations(finding: Finding | None, result: Result) -> dict[str, Any]:
    location = location_of(finding, result.target)
    if location is None:
        return {}
    physical = {"artifactLocation": {"uri": quote(location[0])}, "region": {"startLine": location[1]}}
    return {"locations": [{"physicalLocation": physical}]}
