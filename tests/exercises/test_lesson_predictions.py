"""Each prediction of the lessons whose answer has decimals says how exact a guess must be."""

import contextlib
import io
import linecache
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest

pytestmark = pytest.mark.slow
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ASKING = re.compile(r"^predict\(", re.MULTILINE)
LESSONS = [path for path in sorted((NOTEBOOKS / "sources").glob("*.py")) if ASKING.search(path.read_text("utf-8"))]


def predictions(lesson, monkeypatch):
    """Run the cells of a lesson to the last that asks; return (call, answer, within) of each."""
    cells = lesson.read_text("utf-8").split("\n# %%")
    last = max(number for number, cell in enumerate(cells) if ASKING.search(cell))
    asked = []

    def asks(guess, answer, *, within=0.0):
        asked.append((answer() if callable(answer) else answer, within))

    module = ModuleType("a_lesson")
    monkeypatch.setitem(sys.modules, "a_lesson", module)  # where a class of its cells finds what it was defined beside
    namespace = vars(module)
    namespace["display"] = lambda *shown: None
    for number, cell in enumerate(cells[: last + 1]):
        if "[markdown]" in cell.splitlines()[0]:
            continue
        file, source = f"<{lesson.stem} {number}>", f"#{cell}"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # a lesson reads its own
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, file, "exec"), namespace)
        if "predict" in namespace:
            namespace["predict"] = asks
    return asked


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_an_answer_with_decimals_has_a_tolerance(lesson, monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    with mpl.rc_context({"backend": "agg"}):
        asked = predictions(lesson, monkeypatch)
    assert len(asked) == len(ASKING.findall(lesson.read_text("utf-8")))
    without = [answer for answer, within in asked if isinstance(plain(answer), float) and not within]
    assert not without, "say how exact a guess must be, as in `predict(guess, answer, within=0.01)`"


def plain(answer):
    return answer.item() if hasattr(answer, "item") and getattr(answer, "ndim", 1) == 0 else answer
