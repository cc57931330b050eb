"""What tests of trained models share: a lesson's own functions, without what the lesson runs with them."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib.exercises import ALL

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "sources"


@pytest.fixture(scope="session")
def lesson_code():
    """A function: (name of a lesson, names that it assigns) -> its imports, functions, classes and these names."""
    return _lesson_code


def _lesson_code(name, *assigned):
    code = "\n".join(
        cell.partition("\n")[2]
        for cell in (SOURCES / f"{name}.py").read_text("utf-8").split("\n# %%")
        if not cell.startswith(" [markdown]") and "setup" not in cell.partition("\n")[0]
    )
    wanted = [node for node in ast.parse(code).body if _is_wanted(node, set(assigned))]
    namespace = {"__name__": "lesson"}
    exec(compile(ast.Module(wanted, []), name, "exec"), namespace)
    namespace |= {blank: ALL[blank].solution for blank in ALL if blank in namespace}
    return SimpleNamespace(**namespace)


def _is_wanted(node, assigned):
    if isinstance(node, ast.Assign):
        names = {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        return names <= assigned
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))
