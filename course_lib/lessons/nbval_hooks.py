"""The hooks that teach nbval this course's comparison: tolerant of a last digit, intolerant of a lost picture.

``conftest.py`` takes them from here; elsewhere ``pytest -p course_lib.lessons.nbval_hooks`` does.
"""

from typing import Any

from course_lib.lessons.compare import CloseText
from course_lib.lessons.outputs import count_pictures


def pytest_itemcollected(item: Any) -> None:
    """Give each notebook cell that nbval collects the two changes; leave every other test alone."""
    if type(item).__name__ == "IPyNbCell":
        _compare_numbers_as_numbers(item)
        _ask_for_pictures(item)


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
