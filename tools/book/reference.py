"""Write the library's reference: one page per module, from the docstrings.

Autodoc and autosummary list what a module has in their own order; here what one comes for stands first.
"""

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
    "pictures.live": "Figures that move",
    "mutations": "Planting mistakes",
    "diagnosis": "The doctor",
    "scan": "All paths of a model",
    "testing": "The doctor in a test",
    "exercises": "Exercises",
    "stories": "Little stories",
    "checkpoint": "Published models",
    "distributed": "Many devices",
    "timing": "Time and memory",
}
# The other names of exercises judge answers, here and in the grader.
FOR_LEARNERS = {
    "mutations": ("inject", "Injected", "MADE"),
    "exercises": (
        "check",
        "filled",
        "from_earlier",
        "hint",
        "predict",
        "progress",
        "review",
        "sneak",
        "solution_with",
        "mistake_of_the_day",
        "Verdict",
    ),
}
FIRST = {  # what one comes for stands first, in this order
    "attention": (
        "SingleHeadAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention", "MultiQueryAttention",
        "GroupedQueryAttention", "LlamaAttention", "KVCache", "attend",
    ),
    "checkpoint": ("load_checkpoint",),
    "diagnosis": ("diagnose", "Report", "Finding"),
    "exercises": ("check",),
    "pictures": ("layout_steps", "memory_row", "heatmap"),
    "recorder": ("record", "Recording", "Step"),
    "scan": ("scan", "ScanReport"),
    "timing": ("compare_times",),
}  # fmt: skip
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
    """Return a page: the docstring of the module, then its exports, the most important ones first."""
    name, names = f"course_lib.{part}", names_on_page(part)
    heading = f"# {title}: `{name}`\n"
    if not names:
        return f"{heading}\n{_directive('automodule', name, ':members:')}"
    module, first = importlib.import_module(name), FIRST.get(part, ())
    ordered = [*first, *(export for export in names if export not in first)]
    described = [(export, _kind(getattr(module, export))) for export in ordered]
    exports = [
        _directive(
            f"auto{kind}", f"{name}.{export}", *([":members:", ":special-members: __call__"] * (kind == "class"))
        )
        for export, kind in described
        if kind
    ]
    return "\n".join([heading, _directive("automodule", name), *exports])


def _kind(exported: Any) -> str:
    """Return what autodoc calls it; constants are described where they are used, not by a page of their value."""
    return "class" if isinstance(exported, type) else "function" if callable(exported) else ""


def _directive(name: str, argument: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", f".. {name}:: {argument}", *(f"   {option}" for option in options), "```", ""])


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
