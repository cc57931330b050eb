"""The two files of a lesson are kept in step by content; the newer edit wins and nothing is lost."""

import os

import pytest

from course_grader import KERNELSPEC
from tools.notebooks.jupytext_pairs import differences, sync
from tools.notebooks.lesson_files import find_notebooks
from tools.notebooks.lint import lint
from tools.notebooks.notebook_file import read_ipynb, read_py


def age(path, seconds):
    """Make a file that many seconds older."""
    stat = path.stat()
    os.utime(path, (stat.st_atime - seconds, stat.st_mtime - seconds))


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def jupyterlab_files(lesson):
    """Return the object through which JupyterLab, with jupytext, reads and writes files."""
    from jupyter_server.services.contents.largefilemanager import LargeFileManager
    from jupytext.sync_contentsmanager import build_sync_jupytext_contents_manager_class

    return build_sync_jupytext_contents_manager_class(LargeFileManager)(root_dir=str(lesson.folder.parent))


def copies(lesson):
    return sorted(path.name for path in (lesson.folder / ".ipynb_checkpoints").glob("*"))


def test_a_pair_that_agrees_is_left_alone(small_lesson):
    before = small_lesson.py.read_bytes(), small_lesson.ipynb.read_bytes()
    assert sync(small_lesson) is None
    assert (small_lesson.py.read_bytes(), small_lesson.ipynb.read_bytes()) == before
    assert copies(small_lesson) == []


def test_the_py_is_made_as_new_as_the_ipynb(small_lesson):
    age(small_lesson.py, 3600)
    assert sync(small_lesson) is None
    assert small_lesson.py.stat().st_mtime_ns >= small_lesson.ipynb.stat().st_mtime_ns


def test_a_newer_py_wins_and_outputs_of_other_cells_stay(small_lesson):
    before = code(read_ipynb(small_lesson.ipynb))
    age(small_lesson.ipynb, 60)
    edit(small_lesson.py, "weights @ values", "weights @ (2 * values)")
    said = sync(small_lesson)
    assert said.startswith("00_small: 1 difference; the .py is newer, the .ipynb follows it")
    after = code(read_ipynb(small_lesson.ipynb))
    assert differences(read_py(small_lesson.py), read_ipynb(small_lesson.ipynb)) == []
    changed = [i for i, cell in enumerate(after) if cell.source != before[i].source]
    assert [after[i].outputs for i in changed] == [[]] and after[changed[0]].execution_count is None
    assert all(cell.outputs == before[i].outputs for i, cell in enumerate(after) if i not in changed)
    (kept,) = copies(small_lesson)
    assert kept.startswith("00_small-") and kept.endswith(".ipynb") and kept in said
    assert sync(small_lesson) is None


def test_a_newer_ipynb_wins_and_keeps_all_outputs(small_lesson):
    age(small_lesson.py, 60)
    edit(small_lesson.ipynb, "weights @ values", "weights @ (2 * values)")
    stored = small_lesson.ipynb.read_bytes()
    said = sync(small_lesson)
    assert said.startswith("00_small: 1 difference; the .ipynb is newer, the .py follows it")
    assert "weights @ (2 * values)" in small_lesson.py.read_text(encoding="utf-8")
    assert small_lesson.ipynb.read_bytes() == stored
    assert copies(small_lesson)[0].endswith(".py")
    assert sync(small_lesson) is None


def test_a_cell_inserted_keeps_the_outputs_below_it(small_lesson):
    before = code(read_ipynb(small_lesson.ipynb))
    age(small_lesson.ipynb, 60)
    edit(small_lesson.py, "# %%\nscores\n", '# %% tags=["new"]\n1 + 1\n\n# %%\nscores\n')
    assert (
        "the .py has 13 cells, the .ipynb has 12" in differences(*map(read, (small_lesson.py, small_lesson.ipynb)))[0]
    )
    sync(small_lesson)
    after = code(read_ipynb(small_lesson.ipynb))
    assert after[3].metadata == {"tags": ["new"]}
    assert [cell.outputs for cell in after[:3] + after[4:]] == [cell.outputs for cell in before]


def read(path):
    return read_py(path) if path.suffix == ".py" else read_ipynb(path)


@pytest.mark.parametrize("missing", ["py", "ipynb"])
def test_a_missing_half_is_made(small_lesson, missing):
    source = small_lesson.py.read_text(encoding="utf-8")
    getattr(small_lesson, missing).unlink()
    assert f"made the .{missing}" in sync(small_lesson)
    assert differences(read_py(small_lesson.py), read_ipynb(small_lesson.ipynb)) == []
    assert sync(small_lesson) is None
    assert small_lesson.py.read_text(encoding="utf-8") == source


def test_differences_are_told_by_cell_and_part(small_lesson):
    py, ipynb = read_py(small_lesson.py), read_ipynb(small_lesson.ipynb)
    py.cells[2].source += "\nx = 1"
    py.cells[3].metadata["tags"] = ["hard"]
    py.cells[4].cell_type = "markdown"
    assert differences(py, ipynb) == [
        "cell 3 differs in its source: 'x = 1' in the .py, nothing there in the .ipynb",
        "cell 4 differs in its tags: ['hard'] in the .py, [] in the .ipynb",
        "cell 5 differs in its type: 'markdown' in the .py, 'code' in the .ipynb",
    ]


@pytest.mark.parametrize(
    "name", ["00_small", "00", "00_small.py", "notebooks/00_small.ipynb", "notebooks\\00_small.py"]
)
def test_a_lesson_is_found_by_any_of_its_names(small_lesson, name):
    assert find_notebooks(small_lesson.folder.parent, [name, name]) == [small_lesson]


def test_an_unknown_lesson_is_refused(small_lesson):
    with pytest.raises(ValueError, match=r"There is no lesson '07_wild'; the lessons are: 00_small\."):
        find_notebooks(small_lesson.folder.parent, ["07_wild"])


def test_jupyterlab_opens_a_pair_whose_py_looks_outdated(small_lesson):
    """It refuses only when the two differ, and then rightly: one of two edits would be lost."""
    from tornado.web import HTTPError

    manager = jupyterlab_files(small_lesson)
    age(small_lesson.py, 3600)
    model = manager.get(f"notebooks/{small_lesson.name}.ipynb")
    assert model["content"]["metadata"]["kernelspec"] == KERNELSPEC, "JupyterLab would ask the learner for a kernel."
    assert len(code(model["content"])) == 11 and code(model["content"])[2]["outputs"]
    edit(small_lesson.ipynb, "weights @ values", "weights @ (2 * values)")
    with pytest.raises(HTTPError):
        manager.get(f"notebooks/{small_lesson.name}.ipynb")
    sync(small_lesson)
    for path in (f"{small_lesson.name}.ipynb", f"sources/{small_lesson.name}.py"):
        model = manager.get(f"notebooks/{path}", type="notebook")
        assert "2 * values" in str(model) and model["content"]["metadata"]["kernelspec"] == KERNELSPEC


def test_saving_in_jupyterlab_keeps_the_pair_in_step(small_lesson, address):
    manager, before = jupyterlab_files(small_lesson), small_lesson.py.read_text(encoding="utf-8")
    path = f"notebooks/{small_lesson.name}.ipynb"
    content = manager.get(path)["content"]
    manager.save({"type": "notebook", "content": content}, path)
    assert lint(small_lesson, address) == []
    assert small_lesson.py.read_text(encoding="utf-8") == before
    content["cells"][0]["source"] = "# Saved"
    manager.save({"type": "notebook", "content": content}, path)
    assert small_lesson.py.read_text(encoding="utf-8").startswith("# %% [markdown]\n# # Saved")
