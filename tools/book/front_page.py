"""Make the front page: its picture, table, proof and doctor's report come from the course itself."""

import re
from html import escape
from pathlib import Path

from course_lib.exercises import EXERCISES
from tools.figures import the_wrong_view

from .course_map import as_list, course_map
from .lesson_table import length, read_walk, table
from .lessons import read
from .parts import fill

PICTURE, PORTRAIT = "the_wrong_view.svg", "the_wrong_view_portrait.svg"
RECORDING = "recordings/wrong_view.html"  # three steps: view, transpose, and the view that scrambles
TITLE = "A recorded run of view, transpose and the wrong view, step by step"
FRAME = f'<iframe loading="lazy" src="{RECORDING}" title="{TITLE}"></iframe>'
HERO = """\
<figure class="hero recording">
{frame}
<picture><source media="(max-width: 575px)" srcset="_static/pictures/{portrait}" {portrait_size}>
<img src="_static/pictures/{picture}" {size} alt="{words}"></picture>
<figcaption>{caption}</figcaption>
</figure>"""
PROOF_LESSON, PROOF_SAYS = "05_weight_split.ipynb", "agree to twelve decimals"


def proof(root: Path) -> str:
    """Return the cell of lesson 05 that proves the forms equal, with its output.

    Raises:
        ValueError: No cell prints that proof.
    """
    cells = [cell for cell in read(root / "notebooks" / PROOF_LESSON).cells if cell.cell_type == "code"]
    for cell in cells:
        printed = "".join(output.get("text", "") for output in cell.outputs)
        if PROOF_SAYS in printed:
            return f"```python\n{cell.source}\n```\n\n```text\n{printed.strip()}\n```\n"
    raise ValueError(
        f"No cell of {PROOF_LESSON} prints {PROOF_SAYS!r}: name a different proof in tools/book/front_page.py."
    )


def doctor(root: Path) -> str:
    """Return the code and the report that `doctor.md` shows, which a test in tests/project runs."""
    section = (root / "book" / "doctor.md").read_text(encoding="utf-8").split("## One module")[1]
    (code, *_), (report, *_) = (re.findall(rf"```{kind}\n.*?```", section, re.S) for kind in ("python", "console"))
    return f"{code}\n\n{report}\n"


def hero(pictures: Path) -> str:
    """Save the picture of right and wrong heads, upright for a phone as well, and show it below its recording."""
    pictures.mkdir(parents=True, exist_ok=True)
    picture = the_wrong_view()
    picture.save(pictures / PICTURE)
    (pictures / PORTRAIT).write_text(picture.portrait, encoding="utf-8")
    more = (
        f' <a href="{RECORDING}">Click through this run</a>, number by number, or through '
        '<a href="recordings.html">a whole attention layer</a>.'
    )
    return HERO.format(
        frame=FRAME,
        words=escape(" ".join(picture.description.split())),
        picture=PICTURE,
        size=_size(picture.svg),
        portrait=PORTRAIT,
        portrait_size=_size(picture.portrait),
        caption=escape(picture.caption) + more,
    )


def write_front(root: Path, source: Path) -> None:
    """Fill in the placeholders of `index.md` and save its pictures."""
    rows = read_walk(root)
    parts = {
        "recording": hero(source.parent / "static" / "pictures"),
        "map": as_list(course_map(rows)),
        "walk": table(rows),
        "length": length(rows, sum(exercise.minutes for exercise in EXERCISES.values())),
        "lessons": "\n".join(f"{row.number} {row.title} <notebooks/{row.name}>" for row in rows),
        "proof": proof(root),
        "doctor": doctor(root),
    }
    fill(source / "index.md", parts)


def _size(svg: str) -> str:
    """Return a drawing's width and height as attributes, so that its room is kept while it loads."""
    return " ".join(re.findall(r' ((?:width|height)="\d[\d.]*")', svg)[:2])
