"""A lesson is run from its source and stored; a failure is named and harms nothing."""

import shutil
from pathlib import Path

import pytest

from course_grader import KERNELSPEC
from tools.notebooks.jupytext_pairs import sync
from tools.notebooks.lesson_files import find_notebooks
from tools.notebooks.notebook_file import LANGUAGE, read_ipynb
from tools.notebooks.run import LessonFailed, run_lesson

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """\
# %% [markdown]
# # One

# %%
print("a")
print("b")

# %%
0.12345

# %% tags=["hard"]
2 + 2
"""
TWINS = "# %%\n1 + 1\n\n# %%\n1 + 1\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A repository with a lesson that needs no PyTorch, so that a run takes a second."""
    root = tmp_path_factory.mktemp("written")
    (root / "notebooks" / "sources").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "jupytext.toml", root / "notebooks")
    (root / "notebooks" / "sources" / "00_one.py").write_text(SOURCE, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def stored(written, tmp_path_factory):
    """The same, run once."""
    root = tmp_path_factory.mktemp("stored")
    shutil.copytree(written, root, dirs_exist_ok=True)
    run_lesson(find_notebooks(root)[0], "python3")
    return root


@pytest.fixture
def lesson(written, tmp_path):
    """A copy of the lesson, not run."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return find_notebooks(tmp_path)[0]


@pytest.fixture
def stored_lesson(stored, tmp_path):
    """A copy of the lesson with its outputs."""
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    return find_notebooks(tmp_path)[0]


@pytest.mark.slow
def test_a_run_stores_outputs_and_nothing_else(lesson):
    result = run_lesson(lesson, "python3")
    assert (result.cells, result.state, result.changes) == (3, "new", [])
    notebook = read_ipynb(lesson.ipynb)
    assert notebook.metadata == {"kernelspec": KERNELSPEC, "language_info": LANGUAGE}
    assert [cell.metadata for cell in notebook.cells] == [{}, {}, {}, {"tags": ["hard"]}]
    assert [cell.execution_count for cell in notebook.cells[1:]] == [1, 2, 3]
    assert notebook.cells[1].outputs == [{"name": "stdout", "output_type": "stream", "text": "a\nb\n"}]
    assert lesson.py.stat().st_mtime_ns >= lesson.ipynb.stat().st_mtime_ns
    first = lesson.ipynb.read_bytes()
    assert run_lesson(lesson, "python3").state == "unchanged"
    assert lesson.ipynb.read_bytes() == first


@pytest.mark.slow
def test_only_what_says_something_else_is_rewritten(stored_lesson):
    lesson = stored_lesson
    text = lesson.ipynb.read_text(encoding="utf-8")
    lesson.ipynb.write_text(text.replace("0.12345", "0.12346", 1).replace('"4"', '"5"'), encoding="utf-8")
    lesson.py.write_text(SOURCE.replace('print("b")', 'print("c")'), encoding="utf-8")
    ids = [cell.id for cell in read_ipynb(lesson.ipynb).cells]
    result = run_lesson(lesson, "python3")
    assert result.state == "2 changed"
    assert result.changes == ["cell 1: new or rewritten: 'print(\"a\")'", "cell 3: '5' -> '4'"]
    notebook = read_ipynb(lesson.ipynb)
    assert notebook.cells[2].outputs[0].data["text/plain"] == "0.12346", "an equal output was rewritten: a noisy diff"
    assert [cell.id for cell in notebook.cells][2:] == ids[2:]


def test_two_equal_cells_have_ids_of_their_own(lesson):
    lesson.py.write_text(TWINS, encoding="utf-8")
    sync(lesson)
    first, other = (cell.id for cell in read_ipynb(lesson.ipynb).cells)
    assert first != other


@pytest.mark.slow
def test_metadata_that_an_editor_left_is_tidied_away(stored_lesson):
    lesson = stored_lesson
    clean = lesson.ipynb.read_bytes()
    lesson.ipynb.write_bytes(clean.replace(b'"metadata": {},', b'"metadata": {"editable": true},', 1))
    assert run_lesson(lesson, "python3").state == "tidied"
    assert lesson.ipynb.read_bytes() == clean


FAILURES = [
    ("1 / 0", r"00_one, code cell 2, `1 / 0` \(00_one\.py:10\): ZeroDivisionError: division by zero"),
    ("x = )", r"00_one, code cell 2, `x = \)` \(00_one\.py:10\): SyntaxError"),
    ("import time; time.sleep(9)", r"code cell 2.*: took longer than 2 s\."),
    ("import os; os._exit(1)", r"code cell 2.*: the kernel died\."),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("line", "said"), FAILURES)
def test_a_failing_cell_is_named_and_the_stored_notebook_is_untouched(lesson, line, said):
    sync(lesson)
    stored = lesson.ipynb.read_bytes()
    lesson.py.write_text(SOURCE.replace("0.12345", "\n" + line), encoding="utf-8")
    with pytest.raises(LessonFailed, match=said):
        run_lesson(lesson, "python3", timeout=2)
    assert lesson.ipynb.read_bytes() == stored
