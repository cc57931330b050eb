"""What counts as equal when a notebook runs with other versions, and the running."""

import json
import sys
from pathlib import Path

import pytest
from nbformat import v4

from course_lib.lessons import colab
from course_lib.lessons.discover import Lesson
from course_lib.lessons.version_results import NotebookResult
from course_lib.lessons.version_run import Kernel, compare_notebooks, difference, run_notebook
from course_lib.lessons.whole import write_text

ROOT = Path(__file__).resolve().parents[2]


def cell(*outputs, source="x", tags=(), count=1):
    return v4.new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)}, execution_count=count)


def printed(text, name="stdout"):
    return v4.new_output("stream", name=name, text=text)


def shown(mime, data):
    return v4.new_output("display_data", data={mime: data})


def picture(data, kind="png"):
    return shown("text/html", f'<img alt="a" src="data:image/{kind};base64,{data}">')


FAILURE = v4.new_output("error", ename="NameError", evalue="no x", traceback=[])
SAME = [
    ([printed("0.1234")], [printed("0.1235")]),
    ([printed("ab")], [printed("a"), printed("b")]),
    ([picture("AAAA")], [picture("BBBB")]),
]
DIFFERENT = [
    ([printed("0.1234")], [printed("0.1334")], "'0.1234' -> '0.1334'"),
    ([printed("a")], [printed("a"), printed("b.py: UserWarning: odd\n", "stderr")], "stderr: b.py: UserWarning: odd"),
    ([picture("AAAA")], [shown("text/html", "a")], "1 picture(s) stored, 0 made"),
    ([picture("AAAA")], [picture("AAAA"), picture("AAAA")], "1 picture(s) stored, 2 made"),
    ([printed("a")], [shown("text/plain", "a")], "['stdout'] stored, ['text/plain'] made"),
    ([printed("a")], [printed("a"), FAILURE], "NameError: no x"),
    ([printed("a")], [], "['stdout'] stored, [] made"),
]


@pytest.mark.parametrize(("stored", "made"), SAME)
def test_cells_are_equal_up_to_digits_and_pixels(stored, made):
    both = (v4.new_notebook(cells=[cell(*outputs)]) for outputs in (stored, made))
    assert compare_notebooks(*both, "a") == NotebookResult("a", cells=1, equal=1)


@pytest.mark.parametrize(("stored", "made", "said"), DIFFERENT)
def test_a_difference_is_said(stored, made, said):
    assert difference(stored, made) == said
    assert difference(stored, made, free=True) == (said if FAILURE in made else None), (
        "of a free cell only errors count"
    )
    both = (v4.new_notebook(cells=[cell(), cell(*outputs, source="\nf(x)\ng")]) for outputs in (stored, made))
    assert compare_notebooks(*both, "a") == NotebookResult("a", 2, 1, problems=[f"cell 2, `f(x)`: {said}"])


def test_a_cell_that_did_not_run_and_one_that_is_not_compared():
    stored = v4.new_notebook(cells=[v4.new_markdown_cell("# A"), cell(), cell(tags=["timing", "nbval-ignore-output"])])
    made = v4.new_notebook(cells=[v4.new_markdown_cell("# A"), cell(count=None), cell(printed("1 ms"))])
    assert compare_notebooks(stored, made, "a") == NotebookResult(
        "a", 1, 0, problems=["cell 1, `x`: it did not run to its end"]
    )


def test_a_notebook_runs_as_on_colab_and_every_planted_fault_is_found(tmp_path):
    ask = "import os, sys\nprint('google.colab' in sys.modules, os.environ['COURSE_DEVICE'], os.listdir())"
    sources = [ask, "print(0.26)", "1/0", "2", "os._exit(1)", "3"]
    stored = [[printed("True cpu []\n")], [printed("0.25\n")], [], [], [], []]
    cells = [cell(*outputs, source=source) for source, outputs in zip(sources, stored, strict=True)]
    lesson = Lesson("00_one", tmp_path)
    write_text(lesson.ipynb, json.dumps(v4.new_notebook(cells=cells)))
    kernel = Kernel(Path(sys.executable), colab.LAUNCHER, {"PYTHONPATH": str(ROOT / colab.STAND_IN)})
    (tmp_path / "empty").mkdir()
    before = lesson.ipynb.read_bytes()
    result = run_notebook(lesson, kernel, tmp_path / "empty")
    assert result.problems == [
        "the kernel died",
        "cell 2, `print(0.26)`: '0.25' -> '0.26'",
        "cell 3, `1/0`: ZeroDivisionError: division by zero",
        "cell 4, `2`: [] stored, ['text/plain'] made",
        "cell 5, `os._exit(1)`: it did not run to its end",
        "cell 6, `3`: it did not run to its end",
    ]
    assert (result.cells, result.equal, lesson.ipynb.read_bytes()) == (6, 1, before)
