"""Make nbval compare as the course does: a last digit may differ, a picture may not be missing.

With `--twice` all cells run a second time in the same kernel, as Run All does, and must give the same outputs again.
With `--short` a notebook ends before its first cell that is tagged `long`.

The root's `conftest.py` loads these hooks; outside of the repository `pytest -p tools.notebooks.nbval_hooks` does.
"""

import os
from collections.abc import Generator
from copy import deepcopy
from itertools import takewhile
from typing import Any

import pytest

from .compare import CloseText
from .forked_kernels import end_forking, fork_kernels
from .outputs import count_pictures

SECOND_PASS = ", second pass"  # appended to the name of a cell that is run again


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the second pass and of no long cells."""
    parser.addoption("--short", action="store_true", help="leave out each notebook's cells from one tagged `long` on")
    parser.addoption("--twice", action="store_true", help="run each notebook's cells a second time in the same kernel")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests and the user's progress file apart, and let kernels start fast."""
    os.environ["COURSE_PROGRESS"] = "off"
    if config.option.nbval:
        fork_kernels()


def pytest_unconfigure() -> None:
    """Let the process end that forked the kernels."""
    end_forking()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: Any) -> Generator[None, Any, Any]:
    """With `--short`, end a notebook before a long cell; with `--twice`, append its cells a second time."""
    report = yield
    if type(collector).__name__ == "IPyNbFile":
        if collector.config.option.short:
            report.result = list(takewhile(_is_short, report.result))
        if collector.config.option.twice:
            report.result = [*report.result, *map(_second_pass, report.result)]
    return report


def pytest_itemcollected(item: Any) -> None:
    """Change how nbval compares the outputs of each cell that it collects; other tests stay as they are."""
    if type(item).__name__ != "IPyNbCell":
        return
    sanitize_by_nbval, compare_by_nbval = item.sanitize, item.compare_outputs

    def sanitize(text: Any) -> Any:
        text = sanitize_by_nbval(text)
        return CloseText(text) if isinstance(text, str) else text

    def compare_outputs(test: list[Any], ref: list[Any], skip_compare: Any = None) -> bool:
        stored, drawn = count_pictures(ref), count_pictures(test)
        if stored != drawn:
            item.comparison_traceback = [f"The notebook stores {stored} picture(s), this run made {drawn}."]
            return False
        return compare_by_nbval(test, ref, skip_compare)

    item.sanitize, item.compare_outputs = sanitize, compare_outputs


def _is_short(cell: Any) -> bool:
    return "long" not in cell.cell.metadata.get("tags", ())


def _second_pass(cell: Any) -> Any:
    again = type(cell).from_parent(
        cell.parent,
        name=cell.name + SECOND_PASS,
        cell_num=cell.cell_num,
        cell=deepcopy(cell.cell),  # nbval joins the stored streams in place: the first pass must not change the second
        options=cell.options,
    )

    def setup() -> None:
        if again.parent.timed_out:
            pytest.skip("a cell of the first pass took too long or lost its kernel")

    again.setup = setup
    again.reportinfo = lambda: (again.path, 0, again.nodeid)  # the heading of a failure names the pass
    return again
