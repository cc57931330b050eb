"""What course_lib.attention pulls in: torch, itself and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib.attention

FOLDER = Path(course_lib.attention.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
ALLOWED = {"__future__", "torch", "collections", "numbers"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_imports_torch_the_standard_library_and_its_neighbours(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                assert node.level == 1
                assert (FOLDER / f"{node.module}.py").exists()
            else:
                assert node.module.partition(".")[0] in ALLOWED


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_asserts_nothing_and_prints_nothing(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.Assert), "an assert is gone under python -O"
        assert not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print")


def test_importing_it_imports_no_plotting_and_no_notebook():
    code = (
        "import sys, torch; before = set(sys.modules); import course_lib.attention, course_lib.attention.convert; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    root = FOLDER.parents[1]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert run.stdout == "['course_lib']\n", run.stdout + run.stderr


def test_the_public_names_are_those_of_the_contract():
    assert sorted(course_lib.attention.__all__) == [
        "GroupedQueryAttention",
        "MultiHeadAttention",
        "MultiHeadAttentionWrapper",
        "MultiQueryAttention",
        "SingleHeadAttention",
        "attend",
        "attend_fused",
        "causal_keep",
        "padding_keep",
        "to_torch_mask",
    ]
    assert all(getattr(course_lib.attention, name).__doc__ for name in course_lib.attention.__all__)
