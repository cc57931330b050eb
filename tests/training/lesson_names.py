"""The names that a lesson's cells define, without what they train and print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from tools.notebooks.notebook_file import read_ipynb

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def names_of(lesson: str, *, until: str, answer: str = "") -> dict[str, Any]:
    """Run a lesson's cells, and return the names that they define.

    Args:
        lesson: The stem of the notebook.
        until: What the last cell to be run contains; of this cell only the first definition is run.
        answer: What a block of code in the folded answers begins with; its definitions are run last.
    """
    cells = read_ipynb(NOTEBOOKS / f"{lesson}.ipynb").cells
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            if cell.cell_type != "code" or "setup" in cell.metadata.get("tags", ()):
                continue
            exec(cell.source.split("\n\n\n")[0] if until in cell.source else cell.source, names)
            if until in cell.source:
                break
    if answer:
        prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        block = re.search(rf"^ *```python\n( *{re.escape(answer)}.*?)\n *```$", prose, re.MULTILINE | re.DOTALL)
        indent = len(block[1]) - len(block[1].lstrip())
        lines = [line[indent:] for line in block[1].splitlines()]
        exec("\n".join(lines).split("\n\n\nfor ")[0], names)
    return names
