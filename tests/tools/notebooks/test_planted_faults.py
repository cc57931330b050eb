"""The checks can fail: faults are planted into copies of lessons, and each goes red through the real check's code."""

import re
import shutil

import nbformat
import pytest

from tools.notebooks.lesson_files import Lesson, find_notebooks
from tools.notebooks.lint import lint
from tools.notebooks.nbval_hooks import SECOND_PASS
from tools.notebooks.notebook_file import read_ipynb, read_py, write_ipynb
from tools.notebooks.pytest_runs import lesson_arguments, run_pytest

# --- faults that can be seen without running: (what is done to the notebook, what the check must say) ---


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def add(output):
    return lambda notebook: code(notebook)[-1].outputs.append(output)


def add_html(html):
    return add(nbformat.v4.new_output("display_data", {"text/html": html}))


def set_metadata(**values):
    return lambda notebook: notebook.metadata.update(values)


def unrun(notebook):
    cell = code(notebook)[1]
    cell.execution_count, cell.outputs = None, []


def out_of_order(notebook):
    code(notebook)[1].execution_count = 7777


def drifted_source(notebook):
    code(notebook)[1].source += "\n# edited in one file only"


def drifted_tags(notebook):
    code(notebook)[1].metadata["tags"] = ["hard"]


def lost_cell(notebook):
    del notebook.cells[-1]


def altered_setup(notebook):
    code(notebook)[0].source = code(notebook)[0].source.replace('"-q"', '"-v"')


def untagged_setup(notebook):
    code(notebook)[0].metadata = {}


def lost_link(notebook):
    notebook.cells[0].source = "# Start"


def timed_cell(notebook):
    notebook.cells[1].metadata["execution"] = {"iopub.execute_input": "2026-11-20T10:00:00Z"}


def unchecked_cell(notebook):
    code(notebook)[1].metadata["tags"] = ["nbval-ignore-output"]


def skipped_cell(notebook):
    code(notebook)[1].metadata["tags"] = ["nbval-skip"]


def comment_around_the_check(notebook):
    code(notebook)[1].source = "# NBVAL_IGNORE_OUTPUT\n" + code(notebook)[1].source


def empty_cell(notebook):
    code(notebook)[1].source = ""


def wide_code(notebook):
    code(notebook)[-1].source += "\nqueries = 1  # (b, t, h * d)" + " -> (b, t, h, d)" * 4


def say(text):
    def change(notebook):
        notebook.cells[0].source += "\n" + text

    return change


PNG = "data:image/png;base64,AAAA"
WIDGET = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
STATIC_FAULTS = {
    "an unrun cell": (unrun, "was never run"),
    "cells out of order": (out_of_order, "execution count 7777"),
    "a drifted source": (drifted_source, "differs in its source"),
    "drifted tags": (drifted_tags, "differs in its tags"),
    "a lost cell": (lost_cell, r"the \.py has \d+ cells"),
    "an absolute path": (add(printed("saved to /home/ada/course/x.png")), "a path of the machine.*: /home/ada"),
    "a Windows path": (add(printed(r"saved to C:\Users\ada")), "a path of the machine"),
    "a path in a package": (add(printed("lib/site-packages/torch")), "site-packages"),
    "an object's address": (add(printed("<Head object at 0x7f3a2c1b0d90>")), "address of an object, 0x7f3a2c1b0d90"),
    "a warning on stderr": (add(printed("UserWarning: slow", "stderr")), "stores stderr"),
    "a warning on stdout": (add(printed("FutureWarning: soon")), "shows a warning: FutureWarning"),
    "an error": (
        add(nbformat.v4.new_output("error", ename="ValueError", evalue="no")),
        "stores an error: ValueError: no",
    ),
    "widgets in the metadata": (set_metadata(widgets={"state": {}}), r"metadata\.widgets"),
    "a widget": (add(nbformat.v4.new_output("display_data", WIDGET)), "stores a widget"),
    "a script": (add(nbformat.v4.new_output("display_data", {"application/javascript": "1"})), "stores a script"),
    "a style that viewers strip": (add_html("<STYLE>p {}</STYLE>"), "shows a <style> in HTML"),
    "a script in the picture of a figure that moves": (
        add_html(
            '<div class="live-figure"><div class="still"><figure><script>1</script></figure></div>'
            "<script>2</script></div>"
        ),
        "shows a <script> in HTML",
    ),
    "a script that is no moving figure's": (add_html("<div><script>2</script></div>"), "shows a <script> in HTML"),
    "a drawing that viewers strip": (add_html("<svg width='1'></svg>"), "shows a <svg> in HTML"),
    "a machine's own kernel": (set_metadata(kernelspec={"name": "my-env"}), "the kernelspec is"),
    "times of execution": (timed_cell, r"metadata\.execution"),
    "a notebook too large": (add(printed("x\n" * 500_001)), "at most 1 MB"),
    "a remote image in an output": (add_html('<img alt="a" src="https://example.org/a.png">'), "from the network"),
    "a remote script": (add_html('<script src="//example.org/a.js"></script>'), "from the network"),
    "a remote image in the prose": (say("![two heads](https://example.org/a.png)"), "from the network"),
    "a mute image in the prose": (say("![](heads.svg)"), "without alt text"),
    "a mute picture": (add_html(f'<img src="{PNG}">'), "a picture without alt text"),
    "an empty alt text": (add_html(f'<img alt=" " src="{PNG}">'), "a picture without alt text"),
    "a bare image": (add(nbformat.v4.new_output("display_data", {"image/png": "AAAA"})), "a bare image/png"),
    "an altered setup cell": (altered_setup, "is not the setup cell"),
    "a setup cell without its tag": (untagged_setup, "does not have the tags"),
    "a lost Colab link": (lost_link, "does not hold the link"),
    "a cell that goes unchecked": (unchecked_cell, "without a reason"),
    "a cell that is skipped": (skipped_cell, "has the tag nbval-skip"),
    "a comment around the check": (comment_around_the_check, "holds the comment NBVAL_IGNORE_OUTPUT"),
    "an empty cell": (empty_cell, "is empty"),
    "a line of code that is cut off": (wide_code, r"code cell \d+ has a line of 92 characters.*: queries = 1"),
    "a line of folded code that is cut off": (say("```python\n" + "x" * 89 + "\n```"), "cell 1 has a line of 89"),
    "a line of output that is cut off": (add(printed("short\n" + "x" * 89)), r"code cell \d+ prints a line of 89 char"),
    "a value that is cut off": (
        add(nbformat.v4.new_output("display_data", {"text/plain": "x" * 89})),
        r"code cell \d+ prints a line of 89 char",
    ),
}


def harm(lesson, fault):
    """Plant a fault into a stored notebook as an editor would: raw, with nothing tidied."""
    notebook = read_ipynb(lesson.ipynb)
    fault(notebook)
    nbformat.write(notebook, lesson.ipynb)


@pytest.mark.parametrize("name", STATIC_FAULTS)
def test_a_fault_in_the_small_lesson_is_seen(name, small_lesson, address):
    fault, said = STATIC_FAULTS[name]
    harm(small_lesson, fault)
    found = lint(small_lesson, address)
    assert any(re.search(said, sentence) for sentence in found), f"{name} went unseen; found only: {found}"
    assert all(sentence.startswith("00_small: ") for sentence in found)


@pytest.mark.slow
def test_faults_in_the_real_lessons_are_seen(real_lessons, address, tmp_path):
    """The faults are dealt out to the lessons in turn: each fault is planted once, no lesson goes without."""
    for lesson in real_lessons:
        assert lint(lesson, address) == [], "mend the stored lesson first: a harmed copy of it proves nothing."
    for number, (name, (fault, said)) in enumerate(STATIC_FAULTS.items()):
        lesson = real_lessons[number % len(real_lessons)]
        copy = Lesson(lesson.name, tmp_path)
        copy.py.parent.mkdir(exist_ok=True)
        shutil.copy(lesson.py, copy.py)
        shutil.copy(lesson.ipynb, copy.ipynb)
        harm(copy, fault)
        found = lint(copy, address)
        assert any(re.search(said, sentence) for sentence in found), f"{name} went unseen in {lesson.name}: {found}"


def test_a_path_of_this_very_repository_is_seen(small_lesson, address):
    root = small_lesson.folder.parent
    harm(small_lesson, add(printed(f"wrote {root}x")))
    assert any("a path of the machine" in sentence for sentence in lint(small_lesson, address, root))


# --- faults that only a run can find: all planted into one copy, cell by cell, and given to nbval once ---


def stored(old, new):
    """Change what a cell's stored output says."""

    def change(cell):
        for output in cell.outputs:
            texts = output.get("data", output)
            for kind in ("text", "text/plain"):
                if old in texts.get(kind, ""):
                    texts[kind] = texts[kind].replace(old, new, 1)
                    return
        raise LookupError(f"{old!r} stands in no output of the cell: the small lesson has changed.")

    return change


def source(old, new):
    """Change what a cell does, its stored output left as it was."""

    def change(cell):
        if old not in cell.source:
            raise LookupError(f"{old!r} does not stand in the cell: the small lesson has changed.")
        cell.source = cell.source.replace(old, new)

    return change


# Each fault goes to the cell that ends with this line of small_lesson.py.
ROW_SUMS = 'print("row sums:", [f"{total:.4f}" for total in weights.sum(dim=-1).tolist()])'
LAST_WORD = 'print(f"the last word looks at n={int(keep[-1].sum())} words, {words[0]} first")'
HIDDEN = 'print(f"a hidden score is {hidden}, 0 / 0 is {torch.tensor(0.0) / 0}")'
RUN_FAULTS = {
    "a wrong shape": ("scores.shape", stored("[4, 4]", "[4, 8]")),
    "a changed digit": ("scores", stored("0.3200", "0.3300")),
    "a wrong mask": ("print(weights)", source(".tril()", ".triu()")),
    "keys for values": ("weights @ values", source("values", "keys")),
    "a warning": (ROW_SUMS, source("print(", "import warnings; warnings.warn('slow'); print(")),
    "a changed whole number": (LAST_WORD, stored("n=4", "n=3")),
    "a number for nan": (HIDDEN, stored("nan", "0.1234")),
    "a vanished figure": ("Shown(weights)", source("\nShown(weights)", "\n_ = Shown(weights)")),
}
GOOD_CHANGES = {
    "the last digit": ("scores", stored("0.3200", "0.3201")),
    "another version": ("torch.__version__", stored("'", "'1.")),
}


def plant(lesson, faults):
    """Plant faults into a notebook and return the numbers of the cells they went to."""
    notebook = read_ipynb(lesson.ipynb)
    numbers = {}
    last_lines = [cell.source.splitlines()[-1] for cell in code(notebook)]
    for name, (last_line, change) in faults.items():
        numbers[name] = last_lines.index(last_line)
        change(code(notebook)[numbers[name]])
    nbformat.write(notebook, lesson.ipynb)
    return numbers


@pytest.mark.slow
def test_nbval_finds_each_fault_and_nothing_else(small_repository, tmp_path):
    """Run nbval once, as `course test` does, on good and harmed lessons."""
    shutil.copytree(small_repository, tmp_path, dirs_exist_ok=True)
    (good,) = find_notebooks(tmp_path)
    harmed, bare = (Lesson(name, good.folder) for name in ("01_harmed", "02_bare"))
    shutil.copy(good.ipynb, harmed.ipynb)
    planted = plant(harmed, RUN_FAULTS)
    plant(good, GOOD_CHANGES)
    store_an_image_that_is_not_made(bare)
    arguments = lesson_arguments([good, harmed, bare], "python3", cells="twice")
    run = run_pytest(tmp_path, ["-p", "tools.notebooks.nbval_hooks", *arguments])

    cells = 2 * len(code(read_ipynb(good.ipynb)))  # two passes
    assert (run.files[good.name].passed, run.files[good.name].failed) == (cells, 0), (
        "an unharmed cell, a last digit or a version is red"
    )
    seen = set(run.files[harmed.name].failures)
    for name, number in planted.items():
        assert f"Cell {number}" in seen, f"nbval did not see: {name}"
    assert seen == {f"Cell {number}{later}" for number in planted.values() for later in ("", SECOND_PASS)}, (
        "a good cell is red, or one of the passes missed a fault"
    )
    assert run.files[bare.name].failed == 2, "a vanished image went unseen"
    assert (run.status, run.total().failed) == (1, 2 * (len(RUN_FAULTS) + 1))


def store_an_image_that_is_not_made(lesson):
    """Store a lesson of one cell whose output is a bare image/png, which nbval alone never compares."""
    lesson.py.write_text("# %%\n_ = 'no image any more'\n", encoding="utf-8")
    notebook = read_py(lesson.py)
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", {"image/png": "iVBORw0KGgo=\n"})]
    notebook.cells[0].execution_count = 1
    write_ipynb(notebook, lesson)
