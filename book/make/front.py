"""The front page: what it shows of the course is taken from the course, a proof as a lesson ran it among it."""

import re
from pathlib import Path

from book.make.lessons import read
from book.make.walk import length, read_walk, table
from course_lib.exercises.catalogue import EXERCISES
from course_lib.figures import one_tensor_two_heads

PROOF_LESSON, PROOF_SAYS = "05_weight_split.ipynb", "agree to twelve decimals"


def proof(root: Path) -> str:
    """The last two cells of lesson 05's proof, with what they printed.

    Raises:
        ValueError: the lesson doesn't prove it any more.
    """
    cells = [cell for cell in read(root / "notebooks" / PROOF_LESSON).cells if cell.cell_type == "code"]
    for cell in cells:
        printed = "".join(output.get("text", "") for output in cell.outputs)
        if PROOF_SAYS in printed:
            return f"```python\n{cell.source}\n```\n\n```text\n{printed.strip()}\n```\n"
    raise ValueError(f"No cell of {PROOF_LESSON} prints {PROOF_SAYS!r}: name another proof in book/make/front.py.")


def doctor(root: Path) -> str:
    """The code and the report that `use.md` shows; tests/project run them."""
    section = (root / "book" / "use.md").read_text(encoding="utf-8").split("## The doctor")[1]
    code = re.search(r"```python\n.*?```", section, re.S)[0]
    report = re.search(r"```console\n.*?```", section, re.S)[0]
    return f"{code}\n\n{report}\n"


def write_front(root: Path, source: Path) -> None:
    """Fill in what `index.md` leaves open, and put the picture beside it."""
    rows, picture = read_walk(root), one_tensor_two_heads()
    picture.save(source / "one_tensor_two_heads.svg")
    parts = {
        "words of the picture": " ".join(picture.words.split()),
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
