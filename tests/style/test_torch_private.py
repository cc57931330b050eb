"""Names that PyTorch does not promise to keep stand in one file of the course."""

import ast
import re
from pathlib import Path

from course_lib.tracing import torch_private

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(torch_private.__file__)
PRIVATE = re.compile(r"^torch\b.*\._[a-z]|^torch\._[a-z]")
# `exercises/answering` also runs in the sandbox of grading, where there is no course to import from.
IN_THE_SANDBOX = {
    f"course_lib/exercises/answering/{file}.py: torch.utils.{name}"
    for file, name in (
        ("devices", "_python_dispatch.TorchDispatchMode"),
        ("devices", "_pytree.tree_leaves"),
        ("products", "_python_dispatch.TorchDispatchMode"),
    )
}
ATTRIBUTES = {"_cdata", "_schema", "_compiled_call_impl", "_torchdynamo_orig_callable", "kineto_results"}


def private_names(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if PRIVATE.search(name.name))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from (
                f"{node.module}.{name.name}" for name in node.names if PRIVATE.search(f"{node.module}.{name.name}")
            )
        elif isinstance(node, ast.Attribute):
            if node.attr in ATTRIBUTES or (node.attr.startswith("_") and PRIVATE.search(ast.unparse(node))):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and node.value in ATTRIBUTES:
            yield node.value


def test_private_names_are_used_in_one_file_only():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for package in ("course_lib", "course_grader", "tools")
        for path in (ROOT / package).rglob("*.py")
        if path != HOME
        for name in private_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == IN_THE_SANDBOX


def test_the_search_finds_what_it_should():
    private = (
        "import torch._dynamo",
        "from torch.utils._pytree import tree_map",
        "torch._C._x()",
        "t.storage()._cdata",
    )
    public = ("import torch.nn.functional as F", "from torch import nn", "self._x = torch.rand(3)", "x._name")
    assert all(list(private_names(ast.parse(line))) for line in private)
    assert not any(list(private_names(ast.parse(line))) for line in public)
