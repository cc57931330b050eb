"""Run All twice in one kernel must give what is stored both times; a short run ends before a long cell."""

import pytest
from nbformat.v4 import new_output

from tools.notebooks.lesson_files import Lesson
from tools.notebooks.notebook_file import read_py, write_ipynb
from tools.notebooks.pytest_runs import lesson_arguments, run_pytest

COUNTS_ITS_PASSES = """\
# %%
passes = globals().get("passes", 0) + 1

# %%
print(passes)

# %%
print("before")
display("between")
print("behind")
"""
NEVER_ENDS = """\
# %%
print("begun")

# %%
import time
open("started", "a").write("once ")
time.sleep(600)

# %%
print(2)
"""


def printed(text):
    return new_output("stream", text=text)


OUTPUTS = {
    "print(passes)": [printed("1\n")],
    'print("before")': [
        printed("before\n"),
        new_output("display_data", {"text/plain": "'between'"}),
        printed("behind\n"),  # nbval joins it to the first, in what is stored, too
    ],
    'print("begun")': [printed("begun\n")],
    "print(2)": [printed("2\n")],
}


def store(name, source, folder):
    """Write a lesson with the outputs of its first pass."""
    lesson = Lesson(name, folder)
    lesson.py.parent.mkdir(exist_ok=True)
    lesson.py.write_text(source, encoding="utf-8")
    notebook = read_py(lesson.py)
    for count, cell in enumerate(notebook.cells, start=1):
        cell.execution_count = count
        cell.outputs = OUTPUTS.get(cell.source.splitlines()[0], [])
    write_ipynb(notebook, lesson)
    return lesson


@pytest.mark.slow
def test_only_the_second_pass_is_red_and_after_a_timeout_there_is_none(tmp_path):
    counts = store("00_counts", COUNTS_ITS_PASSES, tmp_path)
    never = store("01_never_ends", NEVER_ENDS, tmp_path)
    arguments = lesson_arguments([counts, never], "python3", workers=1, cells="twice")
    short = "--nbval-cell-timeout=2"
    run = run_pytest(tmp_path, ["-p", "tools.notebooks.nbval_hooks", *arguments, short])
    assert run.files["00_counts"].failures == ["Cell 1, second pass"]
    assert (run.files["00_counts"].passed, run.files["00_counts"].skipped) == (5, 0)
    assert run.files["01_never_ends"].failures == ["Cell 1"]
    assert run.files["01_never_ends"].skipped == 3, "the second pass ran though the first had no end"
    assert (tmp_path / "started").read_text(encoding="utf-8") == "once ", "the second pass waited for the timeout again"


@pytest.mark.slow
def test_a_short_run_ends_before_a_long_cell(tmp_path):
    source = COUNTS_ITS_PASSES.replace('# %%\nprint("before")', '# %% tags=["long"]\nprint("before")')
    counts = store("00_counts", source, tmp_path)
    arguments = lesson_arguments([counts], "python3", cells="short")
    run = run_pytest(tmp_path, ["-p", "tools.notebooks.nbval_hooks", *arguments])
    assert counts.is_long and (run.files["00_counts"].passed, run.files["00_counts"].failures) == (2, [])
