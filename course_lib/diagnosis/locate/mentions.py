"""Find the parts of a module that its constructor builds and that no code which could use them names."""

import ast
import re
from collections.abc import Iterator

from torch import nn

from course_lib.calling import code_of, forward_code
from course_lib.diagnosis.measure import Run
from course_lib.tracing import source_of

from .attributes import BUILDING, own_classes
from .sources import assignments, nodes_in, walked

# Ways to reach a part without its name.
DYNAMIC = {
    "getattr", "vars", "__dict__", "__getattr__", "_modules", "_parameters", "children", "named_children", "modules",
    "named_modules", "parameters", "named_parameters", "get_submodule", "get_parameter", "locals", "exec", "eval",
}  # fmt: skip


def unmentioned_parts(run: Run) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield the parts of the author's modules that ran which none of the code that could use them names.

    A part is a submodule or a parameter. Code that reaches its parts without their names, or whose source is
    unavailable, has none.

    Yields:
        The part's name from the outside, the module that has it, and its name there.
    """
    ran = {call.module for call in run.trace.calls} | {run.subject.examined}
    codes = {code for operation in run.trace.operations for code, _ in operation.frames}
    outside = _read_from_outside(run)
    for path, owner in run.subject.modules.items():
        ran_by_name = forward_code(owner) in codes  # as in `self.mlp.forward(x)`
        if not (owner in ran or ran_by_name) or not _names_what_it_uses(owner):
            continue
        for name, part in {**owner._modules, **owner._parameters}.items():
            idle = isinstance(part, nn.Module) and not any(True for _ in part.parameters())
            if name not in outside and not _mentions(owner, name, built=idle):
                yield f"{path}.{name}" if path else name, owner, name


def base_that_builds(run: Run, name: str) -> str | None:
    """Return the base class that builds a part which the `forward` of a class derived from it does not use.

    Other classes that derive from it may. None if the part, given by its name from the outside, is the class's own.
    """
    path = name.partition("[")[0].split(".")
    codes = {code for operation in run.trace.operations for code, _ in operation.frames}
    for depth, attribute in enumerate(path):
        whole = ".".join(path[: depth + 1])
        if any(one.startswith(f"{whole}.") for one in run.parameter_reads):
            continue  # what it belongs to is used, whoever builds it
        owner = run.subject.modules.get(".".join(path[:depth]))
        classes = [] if owner is None else own_classes([owner])
        forwards = [at for at, cls in enumerate(classes) if "forward" in vars(cls)]
        ran = [at for at in forwards if code_of(vars(classes[at])["forward"]) in codes]
        for cls in classes[max(ran or forwards[:1], default=len(classes)) + 1 :]:
            source = source_of(cls)
            if source is not None and any(one.targets & {f"self.{attribute}"} for one in assignments(source)):
                return cls.__name__
    return None


def _names_what_it_uses(owner: nn.Module) -> bool:
    """Return whether all that a module does stands in classes of the author, which name each part they use."""
    classes = own_classes([owner])
    sources = [source_of(cls) for cls in classes if any(callable(one) for one in vars(cls).values())]
    above = type(owner).__mro__[len(classes) :]  # PyTorch's own modules use parts, too
    is_plain = bool(above) and above[0] is nn.Module and forward_code(owner) not in (None, nn.Module.forward.__code__)
    if None in sources or not is_plain:
        return False
    nodes = [node for source in sources for node in nodes_in(source)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return DYNAMIC.isdisjoint(used | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def _mentions(owner: nn.Module, name: str, *, built: bool) -> bool:
    """Return whether a method reads an attribute, or has its name in a string.

    With `built`, so does one that builds, if it gives the attribute to another part, as to a Sequential.
    """
    for source in filter(None, map(source_of, own_classes([owner]))):
        for method in source.tree.body if isinstance(source.tree, ast.ClassDef) else ():
            builds = isinstance(method, ast.FunctionDef) and BUILDING.search(method.name)
            wanted = _gives if builds else _is_mention
            nodes = set(walked(method)) - {one for node in walked(method) for one in _merely_named_in(node)}
            if (built or not builds) and any(wanted(node, name) for node in nodes):
                return True
    return False


def _merely_named_in(node: ast.AST) -> list[ast.expr]:
    """Return what a docstring says and what a comparison with None asks for, `self.gate is None`: neither uses it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return [node.value]
    if isinstance(node, ast.Compare) and all(isinstance(one, (ast.Is, ast.IsNot)) for one in node.ops):
        return [node.left]
    return []


def _is_mention(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(re.search(rf"\b{name}\b", node.value))
    return isinstance(node, ast.Attribute) and node.attr == name


def _gives(node: ast.AST, name: str) -> bool:
    """Return whether a node gives an attribute on, in a call or a list."""
    given = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, (ast.List, ast.Tuple)) else ()
    return any(isinstance(one, ast.Attribute) and one.attr == name for one in given)


def _read_from_outside(run: Run) -> set[str]:
    """Return the attributes that the code of a run reads of anything other than `self`."""
    codes = {code for operation in run.trace.operations for code, _ in operation.frames} | {run.subject.caller}
    nodes = (node for code in codes for node in nodes_in(source_of(code)))
    attributes = (one for one in nodes if isinstance(one, ast.Attribute))
    return {one.attr for one in attributes if not isinstance(one.value, ast.Name) or one.value.id != "self"}
