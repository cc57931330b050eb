"""Write the page on published bugs, from what the last run of benchmarks/real_bugs stored."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import markdown

SIGNS = {True: "yes", False: "no", None: "–"}
METHODS = ("shape", "allclose", "two paths", "TorchCode")
Row = Mapping[str, Any]


def write_real_bugs(stored: Path, page: Path, mistakes: Sequence[str]) -> None:
    """Fill in the tables of `real_bugs.md`.

    Raises:
        ValueError: No measurement is stored yet.
    """
    if not stored.exists():
        raise ValueError(f"{stored.name} is missing: run `python -m benchmarks.real_bugs --fetch` (two minutes).")
    data = json.loads(stored.read_text(encoding="utf-8"))
    rows = [row for row in data["cases"] if "not measured" not in row]
    parts = {
        "totals": totals(data["totals"]),
        "doctor": doctor(rows, mistakes),
        "others": others(rows),
        "left out": left_out(data),
        "versions": ", ".join(f"{name} {version}" for name, version in data["versions"].items()),
    }
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{ {name} }}}}", part.rstrip())
    page.write_text(text, encoding="utf-8")


def totals(counts: Mapping[str, str]) -> str:
    """Return what each method noticed, over all pairs."""
    rows = [(f"the doctor, {name}", counts[name]) for name in ("found", "named", "line", "accused after the fix")]
    rows += [(name, counts[f"noticed by {name}"]) for name in METHODS]
    return markdown.table(("method", "pairs"), *rows)


def doctor(rows: Sequence[Row], mistakes: Sequence[str]) -> str:
    """Return a table with a row per pair: what the doctor says before and after the fix."""
    lines = []
    for row in rows:
        said = row["doctor"]
        answers = [SIGNS[said[name]] for name in ("found", "named", "line")]
        after = ", ".join(said["accused after"]) or "nothing"
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
    named = [(one["title"], one["link"], one["why"]) for one in data["left out"]]
    return "".join(f"- [{title}]({link}): {why}.\n" for title, link, why in unmeasured + named)


def _mistake(row: Row, mistakes: Sequence[str]) -> str:
    name = row["mistake"]
    return f"[{name}](mistakes/{name}.md)" if name in mistakes else name
