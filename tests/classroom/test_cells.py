"""Cells as plain Python, and the sentence for an exercise that isn't there."""

import sys
import warnings

import pytest

from course_lib.classroom.handed_in.cells import PARSED, definitions, runnable
from course_lib.classroom.handed_in.missing import missing
from course_lib.classroom.handed_in.notebooks import Cell, Sheet


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if a:\n    !ls \\\n  -l\n    y", "if a:\n    pass\n\n    y"),
        ("%%time\nx = 1", "\nx = 1"),
        ("\n%%capture out\n%%timeit -n 1\nx = 1\n%cd ..", "\n\n\nx = 1\npass"),
        ("%%prun", ""),
        ("print?\n?print\na.b??  \nx", "pass\npass\npass\nx"),
        ('!echo it\'s """ (\nx', "pass\nx"),
        ("pip install torch\nx", "pass\nx"),
        ("  x = 1\n\n  %pwd\n  y = 2", "x = 1\n\npass\ny = 2"),
    ],
)
def test_commands_of_jupyter(source, plain):
    assert runnable(source) == (plain, None)
    assert source.count("\n") == plain.count("\n")
    compile(plain, "cell", "exec")


@pytest.mark.parametrize(
    "source",
    [
        't = """\n%cd\n!ls\n"""',
        "t = r'''\\\n%cd\\''''",
        "f(a\n  % b, '!', [\n%c])",
        "x = 7 \\\n% 2",
        "s = 'a\\\n!b'",
        "t = 'don\\'t' # it's \"\"\"\n",
        'u = """a""b\n%c""" + f"{x!r}"',
        "await x",
    ],
)
def test_what_is_python_stays(source):
    assert runnable(source) == (source, None)
    assert runnable(f"{source}\n!ls") == (f"{source}\npass", None)  # also where a command stands beside it


def test_a_cell_that_python_can_read_is_not_touched():
    source = "    # a note that stands to the right\nx = '''\n    y'''"
    assert runnable(source) == (source, None)


def test_what_is_left_out_is_said():
    assert runnable("%%bash\nls") == (
        "",
        "The cell that begins with `%%bash` was left out: only Python is run.",
    )
    assert runnable("a = 1\nfiles = !ls *.py\nb = files")[0] == "a = 1\npass\nb = files"
    assert runnable("files = !ls *.py")[1] == "`files = !ls *.py` is a command of Jupyter and was left out."
    assert runnable("def f(:\n  pass") == ("def f(:\n  pass", None)


@pytest.mark.parametrize(
    "source",
    [
        *("-" * 30_000 + "1", "1+" * 30_000 + "1", "a" + ".b" * 30_000, "(" * 30_000, "[" * 30_000 + "!"),  # deep
        *("!\n" * 5_000, "a?\n" * 5_000, "%%time\n" * 5_000, "x = y\n" * 3_000 + "!", "?" * 30_000),  # long
        *('"""' * 20_001 + "\\", "#" * 2 * PARSED, "x\x00"),
    ],
)
def test_cells_made_to_stop_the_grader(source):
    code, _ = runnable(source)
    assert definitions(code) is not None
    assert missing(Sheet((Cell(1, source, "split_heads"),)), "split_heads")


def test_no_warning_of_a_student_reaches_the_teacher():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runnable("x = '\\d'")
        missing(Sheet((Cell(1, "x = '\\d' is 1", "split_heads"),)), "split_heads")
    assert not caught


def sheet(*cells):
    """Cells as (source, exercise, defines)."""
    return Sheet(tuple(Cell(number, *cell) for number, cell in enumerate(cells, 1)))


START = "There is no `split_heads` in what you handed in"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            [("def split_head(x): ...", "split_heads")],
            f"{START}; the cell of this exercise defines `split_head`: give it the name split_heads.",
        ),
        (
            [("def helper(): ...\ndef my_split_heads(): ...", "split_heads")],
            f"{START}; the cell of this exercise defines `my_split_heads`: give it the name split_heads.",
        ),
        (
            [("x = 1",), ("def merge_heads(): ...\ndef splitheads(): ...", "merge_heads", ("merge_heads",))],
            f"{START}; cell 2 defines `splitheads`: give it the name split_heads.",
        ),
        (
            [("print(1)", "split_heads")],
            f"{START}; the cell of this exercise doesn't define it: begin with `def split_heads`.",
        ),
        ([(" \n", "split_heads")], f"{START}; the cell of this exercise is empty: write your answer there."),
        (
            [("def merge_heads(): ...", "merge_heads", ("merge_heads",))],
            f"{START}, and its cell is gone: take it from the sheet again and write your answer there.",
        ),
        (
            [("x = 1",), ("def split_heads(x):\n    retrun x", "split_heads", ("split_heads",))],
            "Python can't read cell 2, which is for `split_heads`: line 2, `retrun x`: invalid syntax.",
        ),
        (
            [("\n%%time\ndef split_heads(x):\n    return await\u202e x", "split_heads")],
            "Python can't read cell 1, which is for `split_heads`: line 4, `return await\\u202e x`: "
            "invalid non-printable character U+202E.",
        ),
        (
            [("def split_heads(x):\n    pass\nreturn 1", "split_heads", ("split_heads",))],
            "Python can't read cell 1, which is for `split_heads`: line 3, `return 1`: 'return' outside function.",
        ),
        (
            [("%%bash\nls", "split_heads")],
            f"{START}. The cell that begins with `%%bash` was left out: only Python is run.",
        ),
        (
            [("def split_heads(x): ...\n", "split_heads", ("split_heads",)), ("del split_heads",)],
            "Cell 1 defines `split_heads`, but when the notebook had run it was not there any more.",
        ),
        (
            [(f"def {'s' * 100_000}(): ...\n", "split_heads")],
            f"{START}; the cell of this exercise doesn't define it: begin with `def split_heads`.",
        ),
    ],
)
def test_why_an_exercise_is_missing(cells, says):
    assert missing(sheet(*cells), "split_heads") == says


def test_another_exercise_is_no_wrong_name():
    both = sheet(("def scores_by_head(): ...", "scores_by_head", ("scores_by_head",)), ("x = 1", None))
    assert "and its cell is gone" in missing(both, "strides_by_head")


def test_a_class_is_called_a_class():
    assert missing(sheet(("1", "MultiHead")), "MultiHead").endswith("doesn't define it: begin with `class MultiHead`.")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="newer Pythons quote differently inside of f-strings")
def test_strings_of_newer_pythons():
    source = 'x = f"{d["a"]}"\n'
    assert runnable(f"{source}!ls") == (f"{source}pass", None)
