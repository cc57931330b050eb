"""Turn the measurements of both sides into a row of the results: what each method says of the bug."""

from collections.abc import Mapping, Sequence
from typing import Any

from .case import Case

NEAR = 1  # lines
CLOSE = 1e-4
Side = Mapping[str, Any]
Findings = Sequence[Mapping[str, Any]]


def judged(case: Case, before: Side, after: Side) -> dict[str, Any]:
    """Return a row of the results; "not measured" says why there is nothing to judge."""
    sides = {"before": before, "after": after}
    row = {
        "id": case.id, "title": case.title, "before": str(case.before), "after": str(case.after), "link": case.link,
        "mistake": case.mistake, "path": case.path, "blame": case.blame,
    }  # fmt: skip
    failed = [f"{name} the fix: {side['not built']}" for name, side in sides.items() if "not built" in side]
    if failed:
        return row | {"not measured": "; ".join(failed)}
    difference = _difference(before["path"], after["path"])
    return row | {
        "shows": difference is None or difference > CLOSE,
        "difference": _difference_in_words(before["path"], difference),
        "doctor": _doctor(case, before, after),
        "others": {
            "shape": _shape(before, after),
            "allclose": _allclose(before, after),
            "two paths": _two_paths(before, after),
            "TorchCode": _torchcode(before, after),
        },
    }


def _doctor(case: Case, before: Side, after: Side) -> dict[str, Any]:
    left = {_key(finding) for finding in after["findings"]}
    new = [finding for finding in before["findings"] if _key(finding) not in left]
    named = [finding for finding in new if finding["mistake"] in case.accepted]
    return {
        "found": bool(new),
        "named": bool(named) if case.accepted else None,
        "first": bool(new) and new[0]["mistake"] in case.accepted if case.accepted else None,
        "line": any(_is_near(case, finding) for finding in named or new[:1]),
        "says": [_summary(finding) for finding in new],
        "accused after": [_summary(finding) for finding in after["findings"]],
        "refused": before["refused"],
        "scan": _scan(before["scan"], after["scan"]),
        "seconds": before["seconds"],
    }


def _key(finding: Mapping[str, Any]) -> tuple[Any, Any]:
    return finding["mistake"], finding["title"]


def _summary(finding: Mapping[str, Any]) -> str:
    return finding["mistake"] or finding["title"].removeprefix("It differs from attention in this way: ").rstrip(".")


def _is_near(case: Case, finding: Mapping[str, Any]) -> bool:
    file, lines = case.blamed
    line = finding["line"]
    return line is not None and finding["path"].endswith(file) and lines.start - NEAR <= line < lines.stop + NEAR


def _scan(before: Findings | None, after: Findings | None) -> dict[str, Any] | None:
    """Return what the scan finds of both sides; None where it was not run."""
    if before is None or after is None:
        return None
    left = {_key(finding) for finding in after}
    new = [_summary(finding) for finding in before if _key(finding) not in left]
    return {"found": bool(new), "says": new, "accused after": [_summary(finding) for finding in after]}


def _difference(first: Side, other: Side) -> float | None:
    """Return the largest difference of two outputs; None if one raised, has another shape or holds NaN."""
    if "value" not in first or "value" not in other or first["value"].shape != other["value"].shape:
        return None
    difference = float(abs(first["value"] - other["value"]).max())
    return None if difference != difference else difference


def _difference_in_words(side: Side, difference: float | None) -> str:
    if "value" not in side:
        return "it raises"
    return "it is not finite" if difference is None else f"{difference:.1g}"


def _shape(before: Side, after: Side) -> bool:
    """Return whether the bug raises or changes the shape of the output."""
    return "value" not in before["path"] or before["path"]["value"].shape != after["path"]["value"].shape


def _allclose(before: Side, after: Side) -> bool:
    """Return whether the outputs of a first, plain call differ from those of the fixed code."""
    first, fixed = before["plain"] or before["path"], after["plain"] or after["path"]
    difference = _difference(first, fixed)
    return difference is None or difference > CLOSE


def _two_paths(before: Side, after: Side) -> bool | None:
    """Return whether the two forms of one computation differ, which the fixed code's don't."""
    if before["other"] is None:
        return None
    difference, fixed = _difference(before["path"], before["other"]), _difference(after["path"], after["other"])
    if fixed is None or fixed > CLOSE:
        return None
    return difference is None or difference > CLOSE


def _torchcode(before: Side, after: Side) -> bool | None:
    """Return whether a published check that the fixed code passes fails."""
    if not before["torchcode"]:
        return None
    return any(set(failed) - set(after["torchcode"][task]) for task, failed in before["torchcode"].items())
