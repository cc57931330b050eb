"""GitHub's workflow commands, which show each finding beside its line in a pull request.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from collections.abc import Iterator, Sequence

from .locations import location_of
from .result import Result

IN_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
IN_PROPERTY = {**IN_TEXT, ":": "%3A", ",": "%2C"}


def github_lines(results: Sequence[Result], tool: str) -> Iterator[str]:
    """Yield a line for each finding: an error for a mistake, a warning for what could not be examined."""
    for result in results:
        for sentence in result.not_examined:
            yield _line("warning", tool, sentence, location_of(None, result.target))
        for finding in result.report.findings if result.report else ():
            hint = f" Ask yourself: {finding.hint}" if finding.hint else ""
            text = f"{finding.title} Seen: {finding.evidence}{hint}"
            kind, title = ("error", finding.mistake or "attention") if finding.examined else ("warning", "not examined")
            yield _line(kind, f"{result.name}: {title}", text, location_of(finding, result.target))


def _line(kind: str, title: str, text: str, location: tuple[str, int] | None) -> str:
    where = f"file={_escaped(location[0], IN_PROPERTY)},line={location[1]}," if location else ""
    return f"::{kind} {where}title={_escaped(title, IN_PROPERTY)}::{_escaped(text, IN_TEXT)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(letter, letter) for letter in text)
