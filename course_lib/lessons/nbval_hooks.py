"""The hooks that teach nbval this course's comparison: tolerant of a last digit, intolerant of a lost picture.

With ``--twice`` they also press Run All a second time in the same kernel: what is stored must come out again.

``conftest.py`` takes them from here; elsewhere ``pytest -p course_lib.lessons.nbval_hooks`` does.
"""

import os
from collections.abc import Generator
from copy import deepcopy
from typing import Any

import pytest

from course_lib.lessons.compare import CloseText
from course_lib.lessons.outputs import count_pictures

SECOND_PASS = ", second pass"  # stands behind the name of a cell that is run again


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--twice``."""
    parser.addoption("--twice", action="store_true", help="run each notebook's cells a second time in the same kernel")


def pytest_configure() -> None:
    """Keep a developer's own progress out of what sheets and tests show, and theirs out of the file."""
    os.environ["COURSE_PROGRESS"] = "off"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: Any) -> Generator[None, Any, Any]:
    """With ``--twice``, let the cells of a notebook follow one another a second time."""
    report = yield
    if collector.config.option.twice and type(collector).__name__ == "IPyNbFile":
        report.result = [*report.result, *map(_once_more, report.result)]
    return report


def pytest_itemcollected(item: Any) -> None:
    """Give each notebook cell that nbval collects the two changes; leave every other test alone."""
    if type(item).__name__ == "IPyNbCell":
        _compare_numbers_as_numbers(item)
        _ask_for_pictures(item)


def _once_more(cell: Any) -> Any:
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


def _compare_numbers_as_numbers(item: Any) -> None:
    original = item.sanitize

    def sanitize(text: Any) -> Any:
        text = original(text)
        return CloseText(text) if isinstance(text, str) else text

    item.sanitize = sanitize


def _ask_for_pictures(item: Any) -> None:
    original = item.compare_outputs

    def compare_outputs(test: list[Any], ref: list[Any], skip_compare: Any = None) -> bool:
        stored, made = count_pictures(ref), count_pictures(test)
        if stored != made:
            item.comparison_traceback = [f"The notebook stores {stored} picture(s), this run made {made}."]
            return False
        return original(test, ref, skip_compare)

    item.compare_outputs = compare_outputs
