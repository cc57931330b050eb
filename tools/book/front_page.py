"""Make the front page: its table, proof and doctor's report come from the course itself."""

import re
from pathlib import Path

from course_lib.exercises import EXERCISES

from .course_map import as_list, course_map
from .lesson_table import length, read_walk, table
from .lessons import read
from .moving_figures import FRONT
from .parts import fill

HERO = f"""\
<figure class="hero">
<iframe class="moving-figure" src="{FRONT}" title="Why view, and then transpose? Twenty-four cells that move"></iframe>
<figcaption><a href="{FRONT}">In a window of its own</a> · <a href="figures.html">More figures that move</a>: write the
line yourself, and see whose rows it gives.</figcaption>
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


def write_front(root: Path, source: Path) -> None:
    """Fill in the placeholders of `index.md`."""
    rows = read_walk(root)
    parts = {
        "figure": HERO,
        "map": as_list(course_map(rows)),
        "walk": table(rows),
        "length": length(rows, sum(exercise.minutes for exercise in EXERCISES.values())),
        "lessons": "\n".join(f"{row.number} {row.title} <notebooks/{row.name}>" for row in rows),
        "proof": proof(root),
        "doctor": doctor(root),
    }
    fill(source / "index.md", parts)
