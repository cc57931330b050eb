"""What course_lib.attention pulls in: torch, itself and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib.attention

FOLDER = Path(course_lib.attention.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
ALLOWED = {"__future__", "torch", "collections", "numbers", "typing"}
INSIDE_A_FUNCTION = {"llama.py": {"transformers"}}  # imported when it is asked for, by nobody else


def imports(file):
    """Yield (package, whether it stands inside a function) of each import that runs; neighbours have to be there."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not is_for_the_type_checker(node)]
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    inside = {id(child) for function in functions for child in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1
            assert (FOLDER / f"{node.module}.py").exists()
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0], id(node) in inside


def is_for_the_type_checker(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_imports_torch_the_standard_library_and_its_neighbours(file):
    found = set(imports(file))
    assert {package for package, inside in found if not inside} <= ALLOWED
    assert {package for package, inside in found if inside} <= INSIDE_A_FUNCTION.get(file.name, set())


def test_transformers_is_imported_in_one_file_and_inside_a_function():
    assert ("transformers", True) in set(imports(FOLDER / "llama.py"))
    assert ("transformers", False) not in set(imports(FOLDER / "llama.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_asserts_nothing_and_prints_nothing(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.Assert), "an assert is gone under python -O"
        assert not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print")


def test_importing_it_imports_no_plotting_and_running_it_no_transformers_and_exercises_no_notebook():
    code = (
        "import sys, torch; before = set(sys.modules); import course_lib.attention, course_lib.attention.convert; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before})); "
        "x = torch.zeros(1, 2, 8); course_lib.attention.LlamaAttention(8, 2)(x, positions=torch.arange(2)); "
        "print([name for name in sys.modules if name.startswith('transformers')]); import course_lib.exercises; "
        "print([name for name in ('nbgrader', 'nbformat', 'IPython') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=FOLDER.parents[1])
    assert run.stdout == "['course_lib']\n[]\n[]\n", run.stdout + run.stderr


def test_the_public_names_are_those_of_the_contract():
    assert sorted(course_lib.attention.__all__) == [
        "BlockPool",
        "GroupedQueryAttention",
        "KVCache",
        "LatentAttention",
        "LlamaAttention",
        "MultiHeadAttention",
        "MultiHeadAttentionWrapper",
        "MultiQueryAttention",
        "PagedKVCache",
        "RollingKVCache",
        "SingleHeadAttention",
        "apply_rotary",
        "attend",
        "attend_fused",
        "causal_keep",
        "check_at_least",
        "check_divisible",
        "check_positive",
        "gather_paged",
        "index_scores",
        "packed_keep",
        "packed_positions",
        "padding_keep",
        "rotary_table",
        "select_keep",
        "soft_cap",
        "softmax_with_sink",
        "to_torch_mask",
        "window_keep",
    ]
    assert all(getattr(course_lib.attention, name).__doc__ for name in course_lib.attention.__all__)
