"""Read the code cells of a notebook, without magics and shell lines, as statements that know their cell."""

import ast
import json
import linecache
import re
from pathlib import Path

from course_lib.command.clone import CourseError

MAGIC = re.compile(r"^(\s*)(%|!|\?)|^(\s*)[\w.]+\?+\s*$")  # %pip install, !ls, ?torch.tril, torch.tril?


def cells(path: Path) -> list[tuple[str, ast.Module]]:
    """Return (file name for tracebacks, parsed text) of each code cell that is Python; cells count from 1.

    Raises:
        CourseError: the file is no notebook.
    """
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = [(at, "".join(cell["source"])) for at, cell in enumerate(listed, 1) if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise CourseError(f"{path} is no notebook that Jupyter wrote: open it in Jupyter and save it again.") from None
    parsed = []
    for at, source in sources:
        name, text = f"{path}[cell {at}]", _python(source)
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # a cell of another language, or one that shows an error
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        parsed.append((name, tree))
    return parsed


def _python(source: str) -> str:
    """Return the text with `pass` for lines that only IPython understands; a cell of %%bash is empty."""
    if source.lstrip().startswith("%%") and not re.match(r"\s*%%(time|timeit|capture)\b", source):
        return ""
    lines = source.splitlines(keepends=True)
    return "".join(re.sub(r"^(\s*).*", r"\1pass", line) if MAGIC.match(line) else line for line in lines)
