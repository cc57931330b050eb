"""Write the page on the storyteller, from what its last training stored, and the page in which it writes."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

from course_lib.mistakes import CATALOGUE
from course_lib.stories import KINDS, TRAINED, load_storyteller, save_page, stories, words
from course_lib.wording import counted

from . import markdown
from .page_head import head_of
from .preview import preview_of

LATER = "planted later: loss", "planted later: facts kept"
LONG = 90  # words and signs
SHOWN = 3  # stories of the language
COLUMNS, NOTHING = {"trained": "Trained with it", "put_in": "Planted later"}, "(nothing)"
Row = Mapping[str, Any]
Consequences = Mapping[str, Mapping[str, Sequence[Row]]]  # mistake -> column -> measurements


def write_story(html: Path, site: str) -> Path:
    """Write the page in which the best storyteller writes, with what it says of itself where its address is shared."""
    page = save_page(load_storyteller("best"), html / "story.html")
    text = page.read_text(encoding="utf-8")
    before, _, says, after = re.split(r'(<meta name=description content="([^"]*)">)', text)
    head = head_of(site, "story", preview_of("story").heading, unescape(says))
    page.write_text(f"{before}{head}{after}", encoding="utf-8")
    return page


def parts() -> dict[str, str]:
    """The tables and stories of `storyteller.md`."""
    card = json.loads((TRAINED / "card.json").read_text(encoding="utf-8"))
    consequences = of_all_runs(json.loads((TRAINED / "consequences.json").read_text(encoding="utf-8")))
    return {
        "language": "\n\n".join(f"> {text}" for text in shown()),
        "card": card_table(card),
        "runs": runs(consequences),
        "consequences": consequence_table(consequences),
        "written": "\n\n".join(f"> {row['story']}" for row in card["best"]["seeds"]),
        "wrong stories": wrong_stories(consequences),
    }


def shown() -> list[str]:
    """Some stories of the language, not the shortest."""
    return [story.text for story in stories(30, seed=4) if len(words(story.text)) > LONG][:SHOWN]


def of_all_runs(found: Consequences) -> Consequences:
    """The measurements of those seeds and learning rates under which every mistake was measured, if it was."""
    columns = [rows for each in found.values() for rows in each.values() if rows]
    common = set[tuple[int, float]].intersection(*({(row["seed"], row["rate"]) for row in rows} for rows in columns))
    return {
        mistake: {name: [row for row in rows if (row["seed"], row["rate"]) in common] for name, rows in each.items()}
        for mistake, each in found.items()
        if any(each.values())
    }


def runs(found: Consequences) -> str:
    """The seeds and learning rates of the measurements, in words."""
    rows = [row for each in found.values() for row in each["trained"]]
    seeds, rates = ({row[name] for row in rows} for name in ("seed", "rate"))
    return counted(len(seeds), "seed") + (f" at {len(rates)} learning rates each" if len(rates) > 1 else "")


def card_table(card: Mapping[str, Row]) -> str:
    """A row for each form: its size, its loss, and of each kind of fact how many of a hundred stories keep it."""
    rows: list[tuple[str, ...]] = []
    for form, row in card.items():
        losses = low_to_high([one["loss"] for one in row["seeds"]])
        rows.append((form, f"{row['parameters']:,}", losses, *kept_by_kind(row["seeds"])))
    return markdown.table(("form", "parameters", "loss", *KINDS), *rows)


def kept_by_kind(seeds: Sequence[Row]) -> list[str]:
    """Of each kind, the share of stories that keep it, in percent: the lowest and the highest of the seeds."""
    shares = [[100 * one["kept"].get(kind, 0) / max(1, one["said"].get(kind, 0)) for one in seeds] for kind in KINDS]
    return [low_to_high(of_kind, digits=0) for of_kind in shares]


def low_to_high(values: Sequence[float], digits: int = 2) -> str:
    """The lowest and the highest of values, or both at once."""
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def consequence_table(found: Consequences) -> str:
    """A row for each mistake: losses and facts when trained with it, and when put into a right model."""
    head = ("mistake", *(f"trained with it: {name}" for name in ("training loss", "loss", "facts kept")), *LATER)
    rows: list[tuple[str, ...]] = []
    for mistake, columns in found.items():
        trained, put_in = columns["trained"], columns["put_in"]
        learned = low_to_high([one["training_loss"] for one in trained]) if trained else "–"
        rows.append((title(mistake), learned, *loss_and_facts(trained), *loss_and_facts(put_in)))
    return markdown.table(head, *rows)


def loss_and_facts(runs: Sequence[Row]) -> tuple[str, str]:
    """The loss, and the facts that all written stories keep, of those that they tell."""
    if not runs:
        return "–", "–"
    kept, written = (sum((Counter(one[name]) for one in runs), Counter[str]()) for name in ("kept", "said"))
    counts = [sum(count for kind, count in each.items() if kind in KINDS) for each in (kept, written)]
    return low_to_high([one["loss"] for one in runs]), f"{counts[0]:,} of {counts[1]:,}"


def wrong_stories(found: Consequences) -> str:
    """One story for each mistake."""
    lines: list[str] = []
    for mistake, columns in found.items():
        written = [(name, columns[name][0]["story"]) for name in ("trained", "put_in") if columns[name]]
        lines.append(f"**{title(mistake)}**")
        lines += [f"> {COLUMNS[name]}: {text or NOTHING}" for name, text in written]
    return "\n\n".join(lines)


def title(mistake: str) -> str:
    """A mistake's name, with a link where the catalogue has it."""
    return f"[{mistake}](mistakes/{mistake}.md)" if mistake in CATALOGUE else mistake
