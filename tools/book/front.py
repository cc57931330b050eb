"""Make the front page: its picture, table, proof and doctor's report come from the course itself."""

import re
from html import escape
from pathlib import Path

from course_lib.exercises import EXERCISES
from tools.figures import one_tensor_two_heads

from .course_map import as_list, course_map
from .lessons import read
from .walk import length, read_walk, table

PICTURE, PORTRAIT = "one_tensor_two_heads.svg", "one_tensor_two_heads_portrait.svg"
RECORDING = "recordings/weight_split.html"
VIEW = f"{RECORDING}#step-1"  # the first `view`
FRAME = f'<iframe loading="lazy" src="{VIEW}" title="A recorded run of the weight split, step by step"></iframe>'
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
    raise ValueError(f"No cell of {PROOF_LESSON} prints {PROOF_SAYS!r}: name a different proof in tools/book/front.py.")


def doctor(root: Path) -> str:
    """Return the code and the report that `doctor.md` shows, which a test in tests/project runs."""
    section = (root / "book" / "doctor.md").read_text(encoding="utf-8").split("## One module")[1]
    (code, *_), (report, *_) = (re.findall(rf"```{kind}\n.*?```", section, re.S) for kind in ("python", "console"))
    return f"{code}\n\n{report}\n"


def hero(pictures: Path) -> str:
    """Save the picture of view and transpose, upright for a phone as well, and show it below its recording."""
    pictures.mkdir(parents=True, exist_ok=True)
    picture = one_tensor_two_heads()
    picture.save(pictures / PICTURE)
    (pictures / PORTRAIT).write_text(picture.portrait, encoding="utf-8")
    more = f' <a href="{RECORDING}">Click through this run</a>, number by number.'
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
    page = source / "index.md"
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{ {name} }}}}", part.strip())
    page.write_text(text, encoding="utf-8")


def _size(svg: str) -> str:
    """Return a drawing's width and height as attributes, so that its room is kept while it loads."""
    return " ".join(re.findall(r' ((?:width|height)="\d[\d.]*")', svg)[:2])
