"""The library's reference: one page a part, from the docstrings."""

import importlib
from pathlib import Path

from book.make.exercises import toctree

PARTS = {
    "attention": "Attention",
    "attention.convert": "Weights from one form to another",
    "inputs": "Toy inputs",
    "show": "Printing tensors",
    "device": "The device",
    "recorder": "The recorder",
    "pictures": "Pictures",
    "diagnosis": "The doctor",
    "exercises": "Exercises",
    "bench": "Benchmarks",
    "distributed": "Many devices",
}
INTRO = """\
# Reference

What the lessons import, from its docstrings: formulas, shapes, units, errors, sources. The code itself is meant to be
read, too: each file in `course_lib` holds one idea. Tensors are written by their axes, such as (batch, token, width).

"""


def write_reference(folder: Path) -> None:
    """Write the pages and their index."""
    folder.mkdir()
    rows = ["| part | what it is |", "|---|---|"]
    for part, title in PARTS.items():
        module = importlib.import_module(f"course_lib.{part}")
        summary = (module.__doc__ or "").strip().splitlines()[0]
        page = part.replace(".", "_")
        rows.append(f"| [{title}]({page}.md) | {summary} |")
        (folder / f"{page}.md").write_text(page_of(part, title), encoding="utf-8")
    pages = [part.replace(".", "_") for part in PARTS]
    (folder / "index.md").write_text(INTRO + "\n".join(rows) + "\n\n" + toctree(pages), encoding="utf-8")


def page_of(part: str, title: str) -> str:
    """Write one page: what the module says of itself, then everything it offers."""
    names = getattr(importlib.import_module(f"course_lib.{part}"), "__all__", None)
    members = f":members: {', '.join(names)}" if names else ":members:"
    options = "\n".join([members, ":imported-members:" if names else "", ":special-members: __call__"])
    directive = f".. automodule:: course_lib.{part}\n   {options}".replace("\n:", "\n   :")
    lines = [line for line in directive.splitlines() if line.strip()]
    return "\n".join([f"# {title}: `course_lib.{part}`", "", "```{eval-rst}", *lines, "```", ""])
