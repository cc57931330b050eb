"""Write the library's reference: one page per module, from the docstrings."""

import importlib
import re
from pathlib import Path
from typing import Any

from .markdown import table, toctree

PARTS = {
    "attention": "Attention",
    "attention.convert": "Converting weights between forms",
    "inputs": "Toy inputs",
    "show": "Printing tensors",
    "device": "The device",
    "recorder": "The recorder",
    "pictures": "Pictures",
    "diagnosis": "The doctor",
    "scan": "All paths of a model",
    "testing": "The doctor in a test",
    "exercises": "Exercises",
    "distributed": "Many devices",
    "timing": "Time and memory",
}
# The other names of exercises judge answers, here and in the grader.
FOR_LEARNERS = {
    "exercises": ("check", "filled", "from_earlier", "predict", "progress", "review", "mistake_of_the_day", "Verdict")
}
SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples):\s*$")
INTRO = """\
# Reference

What the lessons import, from its docstrings: formulas, shapes, units, errors, sources. The code itself is meant to be
read, too: each file in `course_lib` holds one idea. Shapes are written as the names of their axes, such as
(batch, token, width).

"""


def write_reference(folder: Path) -> None:
    folder.mkdir()
    rows = [("part", "what it is")]
    for part, title in PARTS.items():
        module = importlib.import_module(f"course_lib.{part}")
        summary = (module.__doc__ or "").strip().splitlines()[0]
        page = part.replace(".", "_")
        rows.append((f"[{title}]({page}.md)", summary))
        (folder / f"{page}.md").write_text(page_of(part, title), encoding="utf-8")
    pages = [part.replace(".", "_") for part in PARTS]
    (folder / "index.md").write_text(f"{INTRO}{table(*rows)}\n{toctree(pages)}", encoding="utf-8")


def names_on_page(part: str) -> tuple[str, ...]:
    """Return the names that a module's page describes; none means all that the module defines."""
    return FOR_LEARNERS.get(part) or tuple(getattr(importlib.import_module(f"course_lib.{part}"), "__all__", ()))


def page_of(part: str, title: str) -> str:
    """Return one page: the docstring of the module, then all that it exports."""
    names = names_on_page(part)
    members = [f":members: {', '.join(names)}", ":imported-members:"] if names else [":members:"]
    options = [f"   {option}" for option in (*members, ":special-members: __call__")]
    directive = ["```{eval-rst}", f".. automodule:: course_lib.{part}", *options, "```"]
    return "\n".join([f"# {title}: `course_lib.{part}`", "", *directive, ""])


def as_literal_blocks(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Insert `::`, which marks literal text, before each indented block outside of a section; `lines` is changed."""
    done, in_section, in_block = [], False, False
    for line in lines:
        if line and not line[0].isspace():
            in_section, in_block = bool(SECTION.match(line)), False
        elif line.strip() and not in_section and not in_block and done and not done[-1].strip():
            done += ["::", ""]
            in_block = True
        done.append(line)
    lines[:] = done
