"""A lesson's prose agrees with its cells, and the learner writes and predicts; planted faults are found."""

import inspect
from pathlib import Path

import nbformat.v4 as v4
import pytest

from course_lib.exercises import EXERCISES
from tools.notebooks.lesson_files import LESSONS, find_notebooks
from tools.notebooks.lesson_prose import counted_minutes, prose_faults
from tools.notebooks.notebook_file import read_ipynb

ROOT = Path(__file__).resolve().parents[3]
NAME = "scaled_scores"
SOLUTION = inspect.getsource(EXERCISES[NAME].solution)


@pytest.mark.parametrize("lesson", find_notebooks(ROOT, folders=(LESSONS,)), ids=lambda lesson: lesson.label)
def test_the_prose_of_a_lesson_agrees_with_its_cells(lesson):
    found = list(prose_faults(read_ipynb(lesson.ipynb).cells))
    assert not found, "\n" + "\n".join(found)


def code(source, output=""):
    cell = v4.new_code_cell(source)
    cell.outputs = [v4.new_output("stream", name="stdout", text=output)] if output else []
    return cell


def small(*cells):
    """A lesson with three blanks and three predictions, and the cells."""
    opening = v4.new_markdown_cell(f"# A lesson\n\n**It takes** about 30 minutes.\n\n```python\n{SOLUTION}```")
    blank = code(f'{NAME} = filled("{NAME}", {NAME})')
    return [opening, *[blank] * 3, *[code("predict(..., 3)")] * 3, *cells]


def faults(*cells):
    return [fault for fault in prose_faults(small(*cells)) if " minutes" not in fault]


@pytest.mark.parametrize(
    "said",
    [
        "The score is 0.21.",
        "It keeps 21 % of itself, or 21 percent.",
        "`weights` has 36 elements; `weights.sum()` too, and `nn.Linear` in lesson 21 of 2017.",
        "[A paper](https://example.org/1234.5678) from 2019 takes 20 minutes.",
    ],
)
def test_what_the_cells_bear_out_passes(said):
    assert faults(v4.new_markdown_cell(said), code("weights = torch.ones(36)", "sum 0.2104")) == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("The score is 0.22.", "cell 8 says 0.22, which no cell of its section shows."),
        ("It keeps 43 % of itself.", "cell 8 says 43 %, which no cell of its section shows."),
        ("All 37 of them.", "cell 8 says 37, which no cell of its section shows."),
        ("Look for `hidden`.", "cell 8 quotes `hidden`, but no cell of the lesson has the name hidden."),
        ("Step `a b c` follows.", "cell 8 quotes `a b c`, but neither the code nor an output contains it."),
    ],
)
def test_what_they_do_not_bear_out_is_found(said, fault):
    assert faults(v4.new_markdown_cell(said), code("weights = torch.ones(36)", "sum 0.2104")) == [fault]


def test_a_number_of_another_section_does_not_count():
    cells = [code("weights", "0.75"), v4.new_markdown_cell("## Next\n\nIt was 0.75.")]
    assert faults(*cells) == ["cell 9 says 0.75, which no cell of its section shows."]


def test_a_lesson_in_which_nothing_is_written_is_found():
    found = list(prose_faults([v4.new_markdown_cell("# A\n\n**It takes** about 5 minutes."), code("x = 1\n" * 40)]))
    assert found[0] == "has 0 blanks; a lesson asks the learner to write at least 3."
    assert found[1] == "has 0 predictions; a lesson asks for at least 3."
    assert found[2] == "has code cells of 40 lines in the median; at most 8 are allowed."


def test_a_solution_that_differs_is_found():
    cells = small()
    cells[0].source = cells[0].source.replace("queries", "q")
    assert f"does not show the solution of {NAME}, folded, as course_lib.exercises has it." in list(prose_faults(cells))


def test_the_minutes_are_counted():
    minutes = EXERCISES[NAME].minutes
    assert counted_minutes(small(v4.new_markdown_cell("word " * 400))) == pytest.approx(
        2 + 3 * minutes + 1.5 + 6 / 8, abs=0.3
    )
    assert any("says 30 minutes; " in fault for fault in prose_faults(small(v4.new_markdown_cell("word " * 9000))))
