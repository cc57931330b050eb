"""A learner presses Run All twice in one kernel: the second pass gives what is stored, too."""

from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.lessons.compare import same_output
from course_lib.lessons.discover import find_notebooks
from course_lib.lessons.outputs import all_texts, merge_streams

LESSONS = find_notebooks(Path(__file__).parents[2])


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.label)
def test_a_second_pass_in_the_same_kernel_gives_the_same(lesson):
    stored = nbformat.read(lesson.ipynb, as_version=4)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    unchecked = ["nbval-ignore-output" in cell.metadata.get("tags", []) for cell in code]
    twice = deepcopy(stored)
    twice.cells = [deepcopy(cell) for _ in range(2) for cell in code]
    for number, cell in enumerate(twice.cells):
        cell.id = f"cell-{number}"
    NotebookClient(twice, kernel_name="python3", resources={"metadata": {"path": str(lesson.ipynb.parent)}}).execute()
    for number, (cell, again) in enumerate(zip(code, twice.cells[len(code) :], strict=True), start=1):
        if not unchecked[number - 1]:
            once, second = all_texts(merge_streams(cell.outputs)), all_texts(merge_streams(again.outputs))
            assert [kind for kind, _ in once] == [kind for kind, _ in second], f"cell {number}"
            for (_, before), (_, after) in zip(once, second, strict=True):
                assert same_output(before, after), f"cell {number}: {before[:200]!r} became {after[:200]!r}"
