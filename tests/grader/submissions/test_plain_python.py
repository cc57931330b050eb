"""Cells as plain Python, and the sentence for an exercise that isn't there."""

import sys
import warnings

import pytest

from course_grader.submissions import Cell, Notebook, explain_missing, plain_python
from course_grader.submissions.plain_python import MAX_PARSED, defined_names


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
    assert plain_python(source) == (plain, None)
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
    assert plain_python(source) == (source, None)
    assert plain_python(f"{source}\n!ls") == (f"{source}\npass", None)  # also where a command stands beside it


def test_a_cell_that_python_can_read_is_not_touched():
    source = "    # a note that stands to the right\nx = '''\n    y'''"
    assert plain_python(source) == (source, None)


def test_what_is_left_out_is_said():
    assert plain_python("%%bash\nls") == (
        "",
        "The cell that begins with `%%bash` was left out: only Python is run.",
    )
    assert plain_python("a = 1\nfiles = !ls *.py\nb = files")[0] == "a = 1\npass\nb = files"
    assert plain_python("files = !ls *.py")[1] == "`files = !ls *.py` is a Jupyter command and was left out."
    assert plain_python("def f(:\n  pass") == ("def f(:\n  pass", None)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "source",
    [
        *("-" * 30_000 + "1", "1+" * 30_000 + "1", "a" + ".b" * 30_000, "(" * 30_000, "[" * 30_000 + "!"),  # deep
        *("!\n" * 5_000, "a?\n" * 5_000, "%%time\n" * 5_000, "x = y\n" * 3_000 + "!", "?" * 30_000),  # long
        *('"""' * 20_001 + "\\", "#" * 2 * MAX_PARSED, "x\x00"),
    ],
)
def test_cells_made_to_stop_the_grader(source):
    code, _ = plain_python(source)
    assert defined_names(code) is not None
    assert explain_missing(Notebook((Cell(1, source, "split_heads"),)), "split_heads")


def test_no_warning_of_a_student_reaches_the_teacher():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plain_python("x = '\\d'")
        explain_missing(Notebook((Cell(1, "x = '\\d' is 1", "split_heads"),)), "split_heads")
    assert not caught


def notebook(*cells):
    """Cells as (source, exercise, defines)."""
    return Notebook(tuple(Cell(number, *cell) for number, cell in enumerate(cells, 1)))


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
            f"{START}; the cell of `merge_heads` defines `splitheads`: give it the name split_heads.",
        ),
        (
            [("\n# my `own`\u202e\ndef splitheads(): ...",)],
            f"{START}; the cell that begins with `# my 'own'\\u202e` defines `splitheads`: "
            "give it the name split_heads.",
        ),
        (
            [("print(1)", "split_heads")],
            f"{START}; the cell of this exercise doesn't define it: begin with `def split_heads`.",
        ),
        ([(" \n", "split_heads")], f"{START}; the cell of this exercise is empty: write your answer there."),
        (
            [("def merge_heads(): ...", "merge_heads", ("merge_heads",))],
            f"{START}, and its cell is gone: copy it from the released notebook and write your answer there.",
        ),
        (
            [("x = 1",), ("def split_heads(x):\n    retrun x", "split_heads", ("split_heads",))],
            "Python can't read the cell of `split_heads`: line 2, `retrun x`: invalid syntax.",
        ),
        (
            [("\n%%time\ndef split_heads(x):\n    return await\u202e x", "split_heads")],
            "Python can't read the cell of `split_heads`: line 4, `return await\\u202e x`: "
            "invalid non-printable character U+202E.",
        ),
        (
            [("def split_heads(x):\n    pass\nreturn 1", "split_heads", ("split_heads",))],
            "Python can't read the cell of `split_heads`: line 3, `return 1`: 'return' outside function.",
        ),
        (
            [("%%bash\nls", "split_heads")],
            f"{START}. The cell that begins with `%%bash` was left out: only Python is run.",
        ),
        (
            [("def split_heads(x): ...\n", "split_heads", ("split_heads",)), ("del split_heads",)],
            "When the notebook had run, `split_heads` was not there any more, "
            "although the cell of `split_heads` defines it.",
        ),
        (
            [(f"def {'s' * 100_000}(): ...\n", "split_heads")],
            f"{START}; the cell of this exercise doesn't define it: begin with `def split_heads`.",
        ),
    ],
)
def test_why_an_exercise_is_missing(cells, says):
    assert explain_missing(notebook(*cells), "split_heads") == says


def test_another_exercise_is_no_wrong_name():
    both = notebook(("def scores_by_head(): ...", "scores_by_head", ("scores_by_head",)), ("x = 1", None))
    assert "and its cell is gone" in explain_missing(both, "strides_by_head")


def test_a_class_is_called_a_class():
    assert explain_missing(notebook(("1", "MultiHead")), "MultiHead").endswith(
        "doesn't define it: begin with `class MultiHead`."
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="newer Pythons quote differently inside of f-strings")
def test_strings_of_newer_pythons():
    source = 'x = f"{d["a"]}"\n'
    assert plain_python(f"{source}!ls") == (f"{source}pass", None)
