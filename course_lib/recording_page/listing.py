"""The recorded code: each function whose lines ran, without docstrings, its lines numbered as in the file."""

import ast
import linecache
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from textwrap import dedent

from course_lib.recorder import Step
from course_lib.tracing import SourceLine, source_of

from .story import Stage

MOST_LINES = 120  # of one function


def listing(stages: Sequence[Stage], failed: SourceLine | None = None) -> str:
    """Return the functions in the order in which they ran, as HTML, with the failed line marked.

    Nothing if no source is available.
    """
    parts = []
    for file, begin, end, skipped in dict.fromkeys(filter(None, (_function_lines(stage.step) for stage in stages))):
        numbers = [n for n in range(begin, end + 1) if not skipped[0] <= n <= skipped[1]]
        wrong = failed.line if failed and failed.file == file else 0
        lines = "".join(_line(file, n, text, failed=n == wrong) for n, text in _texts(file, numbers[:MOST_LINES]))
        more = "<p>The rest of the function is left out.</p>" if len(numbers) > MOST_LINES else ""
        name = f"<figcaption>{escape(short(file))}</figcaption>"
        parts.append(f"<figure>{name}<pre tabindex=0><code>{lines}</code></pre>{more}</figure>")
    return "".join(parts)


def line_id(step: Step) -> str:
    """Return the id of a step's line in the listing; "" if it has none."""
    return f"{short(step.file)}:{step.line}" if step.line else ""


def short(file: str) -> str:
    """Return the name of a file, or "cell" for a notebook's cell."""
    return "cell" if "ipykernel_" in file or file.startswith("<ipython") else Path(file).name


def _function_lines(step: Step) -> tuple[str, int, int, tuple[int, int]] | None:
    """Return file, first and last line of the function that a step ran in, and the lines of its docstring."""
    source = source_of(step.call.code)
    if source is None:
        return (
            (step.file, step.line, step.line, (0, -1))
            if step.line and linecache.getline(step.file, step.line)
            else None
        )
    tree = source.tree
    skipped = (0, -1)
    if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(tree):
        skipped = (tree.body[0].lineno, tree.body[0].end_lineno or 0)
    return source.file, tree.lineno, tree.end_lineno or tree.lineno, skipped


def _texts(file: str, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    text = dedent("".join(linecache.getline(file, n) or "\n" for n in numbers))
    return zip(numbers, text.split("\n"), strict=False)


def _line(file: str, number: int, text: str, *, failed: bool) -> str:
    begin, end = (" class=failed", "  ✗ raised the error") if failed else ("", "")
    attribute = f'data-line="{escape(short(file))}:{number}"'
    return f"<span {attribute}{begin}><i>{number}</i>{escape(text) or ' '}{end}\n</span>"
