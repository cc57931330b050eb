"""From a step back to its source: line, statement, expression and name, in files and in notebook cells."""

import ast
import dis
import subprocess
import sys
import textwrap

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from torch import nn

from course_lib.recorder import record
from course_lib.tracing import call_at, enclosing_comprehension

X = torch.arange(24.0).view(1, 6, 4)


def in_a_file(tmp_path, code):
    """Import code from a file of its own."""
    path = tmp_path / "theirs.py"
    path.write_text("import torch\nimport torch.nn.functional as F\n" + textwrap.dedent(code), encoding="utf-8")
    space = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    return space["forward"], path


CASES = {
    "one line": ("y = x.view(6, 4)", [("view", ".view(6, 4)", "y")]),
    "a chain": (
        "y = x.view(6, 2, 2).transpose(0, 1)",
        [("view", ".view(6, 2, 2)", None), ("transpose", ".transpose(0, 1)", "y")],
    ),
    "a chain in brackets": (
        "y = (\n        x.view(6, 2, 2)  # split\n        .transpose(0, 1)\n    )",
        [("view", ".view(6, 2, 2)", None), ("transpose", ".transpose(0, 1)", "y")],
    ),
    "a chain with a backslash": (
        "y = x.view(6, 2, 2) \\\n        .transpose(0, 1)",
        [("view", ".view(6, 2, 2)", None), ("transpose", ".transpose(0, 1)", "y")],
    ),
    "brackets around the left": ("y = (x * 2).view(6, 4)", [("mul", "x * 2", None), ("view", ".view(6, 4)", "y")]),
    "a function of torch": ("y = torch.cat([x, x], dim=1)", [("cat", "torch.cat([x, x], dim=1)", "y")]),
    "a function of F": ("y = F.softmax(x, dim=-1)", [("softmax", "F.softmax(x, dim=-1)", "y")]),
    "an operator": ("y = x @ x.mT", [("mT", ".mT", None), ("matmul", "x @ x.mT", "y")]),
    "an index": ("y = x[:, None]", [("getitem", "x[:, None]", "y")]),
    "an index of a call": ("y = x.view(6, 4)[0]", [("view", ".view(6, 4)", None), ("getitem", "[0]", "y")]),
    "two names": ("y, z = x.chunk(2, dim=1)", [("chunk", ".chunk(2, dim=1)", "y"), ("chunk", ".chunk(2, dim=1)", "z")]),
    "two values": ("y, z = x + 1, x + 2", [("add", "x + 1", "y"), ("add", "x + 2", "z")]),
    "an annotation": ("y: torch.Tensor = x + 1", [("add", "x + 1", "y")]),
    "an addition in place": ("y = x + 0\n    y += 1", [("add", "x + 0", "y"), ("add_", "y += 1", "y")]),
    "a sum that is added in place": (
        "y = x + 0\n    y -= (x * 2).abs()",
        [("add", "x + 0", "y"), ("mul", "x * 2", None), ("abs", ".abs()", None), ("sub_", "y -= (x * 2).abs()", "y")],
    ),
    "a choice": ("y = x + 1 if x.dim() else x * 2", [("add", "x + 1", "y")]),
    "a choice of the other": ("y = x + 1 if x is None else x * 2", [("mul", "x * 2", "y")]),
    "a walrus": ("print(end='') if (y := x + 1) is None else None", [("add", "x + 1", "y")]),
    "an argument": ("y = torch.relu(x + 1)", [("add", "x + 1", None), ("relu", "torch.relu(x + 1)", "y")]),
    "a comprehension": ("y = [row * 2 for row in (x, x)]", [("mul", "row * 2", None), ("mul", "row * 2", None)]),
    "a lambda": ("y = (lambda a: a * 2)(x)", [("mul", "a * 2", None)]),
    "letters of other languages": ("größe = 'ä' and x * 2", [("mul", "x * 2", None)]),
    "an if": (
        "if (x > 3).any():\n        y = x + 1",
        [("gt", "x > 3", None), ("any", ".any()", None), ("add", "x + 1", "y")],
    ),
    "a loop": ("for y in x.split(3, dim=1):\n        pass", [("split", ".split(3, dim=1)", None)] * 2),
    "a with": ("with torch.no_grad():\n        y = x + 1", [("add", "x + 1", "y")]),
}


@pytest.mark.parametrize("case", CASES)
def test_code_and_name_are_those_of_the_author(case, tmp_path):
    code, wanted = CASES[case]
    forward, path = in_a_file(tmp_path, f"def forward(x):\n    {code}\n    return 0\n")
    steps = record(forward, X).steps
    assert [(step.op, step.code, step.name) for step in steps] == wanted
    lines = path.read_text(encoding="utf-8").splitlines()
    for step in steps:
        assert step.file == str(path) and step.where == f"theirs.py:{step.line}"
        assert step.code.split("(")[0].strip(".")[:4] in "\n".join(lines[step.line - 1 : step.line + 1])


def test_the_statement_is_shown_without_its_block(tmp_path):
    forward, _ = in_a_file(
        tmp_path,
        """
        def forward(x):
            y = x.view(
                6,  # tokens
                4,
            )
            if (y > 3).any():
                return y * 2
        """,
    )
    steps = record(forward, X).steps
    assert [step.source for step in steps] == [
        "y = x.view(6, 4)", "if (y > 3).any():", "if (y > 3).any():", "return y * 2",
    ]  # fmt: skip


COLLECTED = """
def forward(x):
    parts = [
        part.relu() * [n.abs() for n in (part, part)][0]
        for part in x.view(6, 4).unbind(0)
        if part.sum() > 0
    ]
    return torch.stack(parts)
"""


def test_the_enclosing_comprehension_is_the_outermost_one_with_or_without_a_frame(tmp_path):
    forward, _ = in_a_file(tmp_path, COLLECTED)
    around = {}
    for step in record(forward, X).steps:
        statement = enclosing_comprehension(step.call.code, step.call.instruction)
        around[step.op] = (statement.where, statement.names)
    collected = ("theirs.py:5", ("parts",))
    assert [around[op] for op in ("relu", "mul", "sum", "abs")] == [collected] * 4
    assert around["view"] == around["unbind"] == ("theirs.py:7", ())  # these run once, before the first item
    assert around["stack"] == ("theirs.py:10", ())


CALLED = """
def forward(f, x):
    x[0] += f(1)
    y = x @ f(2)
    z = not f(3)
    return [g(f(4)).view(  # a comment's "quote"
        5, "#"
    ) for g in y]
"""


def test_the_call_of_an_instruction_is_no_call_that_only_ends_where_an_operator_does(tmp_path):
    """In a comprehension, too, whose instructions belong to other code from Python 3.12 on."""
    code = in_a_file(tmp_path, CALLED)[0].__code__
    found = [
        (instruction.opname, call)
        for inner in (code, *(constant for constant in code.co_consts if hasattr(constant, "co_code")))
        for instruction in dis.get_instructions(inner)
        if (call := call_at(inner, instruction.offset)) is not None
    ]
    assert {name for name, _ in found} <= {"PRECALL", "CALL", "LOAD_GLOBAL", "LOAD_FAST", "KW_NAMES"}
    texts = {ast.unparse(call) for name, call in found if name == "CALL"}
    assert texts == {"f(1)", "f(2)", "f(3)", "f(4)", "g(f(4))", "g(f(4)).view(5, '#')"}


def test_lines_of_torch_are_shown_as_the_line_that_called_them():
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

        def forward(self, x):
            hidden = self.mlp(x)
            return hidden

    steps = record(Module(), X).steps
    assert {step.code for step in steps} == {"mlp(x)"}
    assert [step.name for step in steps] == [None, None, "hidden"]
    assert [step.title for step in steps] == ["linear", "relu", "hidden"]
    assert [step.submodule for step in steps] == ["mlp.0", "mlp.1", "mlp.2"]


def test_code_without_a_source_has_no_text_but_is_recorded():
    space = {}
    exec("def forward(x):\n    return x.view(6, 4)", space)
    (step,) = record(space["forward"], X).steps
    assert (step.op, step.source, step.code, step.name, step.title) == ("view", "", "", None, "view")
    assert step.where == "<string>:2"
    (step,) = record(torch.relu, X).steps  # nobody's line but the caller's, which isn't recorded
    assert (step.file, step.line, step.where) == ("", 0, "")


def test_a_source_that_is_not_python_any_more_gives_the_line(tmp_path):
    forward, path = in_a_file(tmp_path, "def forward(x):\n    return x + 1\n")
    path.write_text("\n\n\n   this is x + 1 no python (\n", encoding="utf-8")
    (step,) = record(forward, X).steps
    assert (step.source, step.code) == ("this is x + 1 no python (", "")


CELL = """import torch
from course_lib.recorder import record

def forward(x):
    queries = x.view(6, 2, 2)
    return queries.transpose(0, 1)

recording = record(forward, torch.arange(24.0))
print([(step.where, step.code, step.name) for step in recording])
"""
SEEN = "[('cell:5', '.view(6, 2, 2)', 'queries'), ('cell:6', '.transpose(0, 1)', None)]"


@pytest.mark.slow
def test_a_cell_of_ipython_has_lines_and_text():
    code = f"from IPython.core.interactiveshell import InteractiveShell as S; S.instance().run_cell({CELL!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert SEEN in done.stdout


@pytest.mark.slow
def test_a_cell_of_a_notebook_has_lines_and_text():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    assert SEEN in notebook.cells[0].outputs[0].text


def test_python_without_columns_still_has_lines(tmp_path):
    forward, _ = in_a_file(tmp_path, "def forward(x):\n    return x + 1\n")
    forward.__code__ = forward.__code__.replace(co_linetable=b"")  # as `python -X no_debug_ranges`, and more
    (step,) = record(forward, X).steps
    assert (step.where, step.source, step.code) == ("theirs.py:3", "def forward(x):", "")
