"""Write the page on published bugs, from what the last run of benchmarks/real_bugs stored."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from course_lib.mistakes import CATALOGUE

from . import markdown

SIGNS = {True: "yes", False: "no", None: "–"}
METHODS = ("shape", "allclose", "two paths", "TorchCode")
SCAN = {"found": "found by the scan", "accused after the fix": "accused by the scan after the fix"}
Row = Mapping[str, Any]


def parts(root: Path) -> dict[str, str]:
    """Return the tables of `real_bugs.md`.

    Raises:
        ValueError: No measurement is stored yet.
    """
    benchmarks, mistakes = root / "benchmarks", list(CATALOGUE)
    data = _stored(benchmarks, "real_bugs", " --fetch")
    operators = _stored(benchmarks, "default_operators")
    first, rates = (
        json.loads((benchmarks / "real_bugs" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("first", "kill_rates")
    )
    rows = [row for row in data["cases"] if "not measured" not in row]
    return {
        "totals": totals(data["totals"], first["real_bugs"]),
        "doctor": doctor(rows, mistakes),
        "others": others(rows),
        "left out": left_out(data),
        "operators": operator_table(operators["operators"], mistakes),
        "operators' totals": operator_totals(operators["totals"], first["default_operators"]),
        "kill rates": kill_rates(rates["repositories"]),
        "survivors": survivors(rates["repositories"], mistakes),
        "kill totals": kill_totals(rates),
        "read by hand": read_by_hand(rates["read by hand"]),
        "not planted": "".join(f"- {_repository(row)}: {row['why']}.\n" for row in rates["left out"]),
        "versions": ", ".join(f"{name} {version}" for name, version in data["versions"].items()),
    }


def totals(counts: Mapping[str, str], first: Mapping[str, str]) -> str:
    """Return what each method noticed, over all pairs, now and at the first measurement."""
    keys = {f"the doctor, {name}": name for name in ("found", "named", "line", "accused after the fix")}
    keys |= {f"the scan of whole models, {name}": key for name, key in SCAN.items()}
    keys |= {name: f"noticed by {name}" for name in METHODS}
    rows = [(name, counts[key], first.get(key, "–")) for name, key in keys.items() if key in counts]
    return markdown.table(("method", "pairs", "at first"), *rows)


def doctor(rows: Sequence[Row], mistakes: Sequence[str]) -> str:
    """Return a table with a row per pair: what the doctor says before and after the fix."""
    lines = []
    for row in rows:
        verdict = row["doctor"]
        answers = [SIGNS[verdict[name]] for name in ("found", "named", "line")]
        after = ", ".join(verdict["accused after"]) or "nothing"
        pair = f"{row['before']} → {row['after']}"
        lines.append(
            (f"[{row['title']}]({row['link']})<br>{pair}", row["path"], _mistake(row, mistakes), *answers, after)
        )
    head = ("bug", "shows on the path", "mistake", "found", "named", "line", "says of the fixed code")
    return markdown.table(head, *lines)


def others(rows: Sequence[Row]) -> str:
    """Return a table with a row per pair: what other methods notice."""
    lines = [
        (row["id"], *(SIGNS[row["others"][name]] for name in METHODS), SIGNS[row["doctor"]["found"]]) for row in rows
    ]
    return markdown.table(("pair", *METHODS, "the doctor"), *lines)


def left_out(data: Mapping[str, Any]) -> str:
    """Return a list of the bugs that were not measured, each with the reason."""
    unmeasured = [(row["title"], row["link"], row["not measured"]) for row in data["cases"] if "not measured" in row]
    named = [(bug["title"], bug["link"], bug["why"]) for bug in data["left out"]]
    return "".join(f"- [{title}]({link}): {why}.\n" for title, link, why in unmeasured + named)


def kill_rates(rows: Sequence[Row]) -> str:
    """Return a table with a row per repository: how many of the planted mistakes its tests catch."""
    lines = []
    for row in rows:
        planted = len(row["caught"]) + len(row["survive"])
        lines.append((_repository(row), f"`{row['name']}` in `{row['file']}`", f"{len(row['caught'])} of {planted}"))
    return markdown.table(("repository", "attention", "caught"), *lines)


def survivors(rows: Sequence[Row], mistakes: Sequence[str]) -> str:
    """Return a table with a row per mistake: in how many of the repositories with it it survives."""
    caught, survive = (Counter(name for row in rows for name in row[what]) for what in ("caught", "survive"))
    planted = caught + survive
    order = sorted(planted, key=lambda name: (-survive[name] / planted[name], -planted[name], name))
    lines = [(_mistake({"mistake": name}, mistakes), f"{survive[name]} of {planted[name]}") for name in order]
    return markdown.table(("mistake", "survives in"), *lines)


def kill_totals(rates: Mapping[str, Any]) -> str:
    """Return how many repositories there are and what their tests catch, in sentences."""
    rows = rates["repositories"]
    caught, survive = ([len(row[what]) for row in rows] for what in ("caught", "survive"))
    shares = [killed / (killed + alive) for killed, alive in zip(caught, survive, strict=True)]
    return (
        f"On {rates['date']} the tests of {len(rows)} repositories caught {sum(caught)} of {sum(caught + survive)} "
        f"planted mistakes: {min(shares):.0%} to {max(shares):.0%}, with a median of {median(shares):.0%}. "
        f"{len(rows) + len(rates['left out'])} were tried; at the end of this section is why the others are left out."
    )


def read_by_hand(counts: Mapping[str, int]) -> str:
    """Return what a reading of some survivors found, in a sentence."""
    return (
        f"Of {counts['survivors']} survivors that were read by hand, {counts['change what is computed']} change what "
        f"the code computes, and {counts['rightly named']} are what their name says."
    )


def operator_totals(counts: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """Return what is found of the operators, in sentences."""
    return (
        f"{counts['out of reach']} of them leave the output right or are faults of training. Of the others "
        f"{counts['found']} are found, and {counts['named']} that have a name are named (at first {first['found']} "
        f"and {first['named']})."
    )


def operator_table(rows: Sequence[Row], mistakes: Sequence[str]) -> str:
    """Return a table with a row per operator."""
    lines = []
    for row in rows:
        reason = row.get("out of reach")
        answers = ("–", "–", "–", reason) if reason else (_mistake(row, mistakes), *_answers(row), _doctor_says(row))
        lines.append((f"{row['id']} ({row['cause'].replace('_', ' ')})", *answers))
    return markdown.table(("operator", "mistake", "found", "named", "the doctor says"), *lines)


def _stored(benchmarks: Path, name: str, options: str = "") -> dict[str, Any]:
    file = benchmarks / name / "results.json"
    if not file.exists():
        raise ValueError(f"{name}/results.json is missing: run `python -m benchmarks.{name}{options}`.")
    return json.loads(file.read_text(encoding="utf-8"))


def _repository(row: Row) -> str:
    name, commit = row["repository"], row["commit"]
    return f"[{name}](https://github.com/{name}/tree/{commit})@{commit[:7]}"


def _answers(row: Row) -> tuple[str, str]:
    return SIGNS[row["found"]], SIGNS[row["named"]]


def _doctor_says(row: Row) -> str:
    return (
        ", ".join(
            sentence.removeprefix("It differs from attention in this way: ").rstrip(".") for sentence in row["says"]
        )
        or "nothing"
    )


def _mistake(row: Row, mistakes: Sequence[str]) -> str:
    name = row["mistake"]
    return f"[{name}](mistakes/{name}.md)" if name in mistakes else name
