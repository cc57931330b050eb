"""Find where an attribute of a module was set, and which attributes a statement reads."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

from course_lib.diagnosis.measure import Subject
from course_lib.tracing import Operation, Source, SourceLine, source_of

from .sources import nodes_in, walked

REGISTERS = ("register_buffer", "register_parameter")
BUILDING = re.compile(r"init|reset|repr")  # __init__, _init_weights, reset_parameters, extra_repr


def locate_attribute(subject: Subject, name: str, inside: str = "") -> SourceLine | None:
    """Find where a class of the subject sets `self.name`, or registers it as a buffer or parameter.

    An identifier such as "Linear" in `inside` selects the line of a statement in several lines.
    """
    for source, node in statements_that_set(subject, name):
        return SourceLine(source.file, _line_with(node, inside))
    return None


def statements_that_set(subject: Subject, name: str) -> Iterator[tuple[Source, ast.stmt]]:
    """Yield the statements of the subject's classes that set an attribute."""
    for source in filter(None, map(source_of, own_classes(subject.modules.values()))):
        for node in nodes_in(source):
            if isinstance(node, ast.stmt) and (_assigns(node, name) or _registers(node, name)):
                yield source, node


def own_classes(modules: Iterable[nn.Module]) -> list[type]:
    classes = dict.fromkeys(cls for module in modules for cls in type(module).__mro__)
    return [cls for cls in classes if cls.__module__.split(".")[0] != "torch" and issubclass(cls, nn.Module)]


def _assigns(node: ast.stmt, name: str) -> bool:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    found = [one for target in targets for one in ast.walk(target) if isinstance(one, ast.Attribute)]
    return any(one.attr == name and isinstance(one.value, ast.Name) for one in found)


def _registers(node: ast.stmt, name: str) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call) or not node.value.args:
        return False
    called, first = node.value.func, node.value.args[0]
    registers = isinstance(called, ast.Attribute) and called.attr in REGISTERS
    return registers and isinstance(first, ast.Constant) and first.value == name


def _line_with(node: ast.stmt, identifier: str) -> int:
    for one in ast.walk(node) if identifier else ():
        if isinstance(one, (ast.Name, ast.Attribute)) and identifier in ast.unparse(one).rsplit(".", 1)[-1]:
            return one.lineno
    return node.lineno


def attributes_read(operation: Operation, subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the attributes that an operation's statement reads from `self`."""
    yield from attributes_in(operation.statement.source, subject)


def attributes_in(text: str, subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the attributes that a piece of code reads from `self`."""
    for name in dict.fromkeys(re.findall(r"self\.(\w+)", text)):
        owner = next((module for module in subject.modules.values() if hasattr(module, name)), None)
        if owner is not None:
            yield name, getattr(owner, name)


def locate_attribute_read(operation: Operation, subject: Subject, wanted: Callable[[Any], bool]) -> SourceLine | None:
    """Find where an attribute of a wanted kind was set that an operation's statement reads."""
    for name, value in attributes_read(operation, subject):
        if wanted(value):
            return locate_attribute(subject, name)
    return None


def locate_softmax_layer(operation: Operation, subject: Subject, others: Iterable[Operation] = ()) -> SourceLine | None:
    """Find where the nn.Softmax was made that an operation's statement calls; None if `others` call it, too."""
    softmaxes = {name for name, value in attributes_read(operation, subject) if isinstance(value, nn.Softmax)}
    if any(name in softmaxes for one in others for name, _ in attributes_read(one, subject)):
        return None
    return locate_attribute_read(operation, subject, lambda value: isinstance(value, nn.Softmax))


def locate_shared_module(subject: Subject, names: Iterable[str]) -> SourceLine | None:
    """Find where one module, given by the names of its parameters, was made to serve as several."""
    for name in names:
        *path, _ = name.split(".")
        module, parent = subject.modules.get(".".join(path)), subject.modules.get(".".join(path[:-1]))
        twins = [] if parent is None else [key for key, one in parent._modules.items() if one is module]
        if module is None or len(twins) < 2:
            continue
        whole = path[-2] if isinstance(parent, (nn.ModuleList, nn.Sequential)) and len(path) > 1 else twins[-1]
        return locate_attribute(subject, whole)
    return None


def attributes_in_source(module: nn.Module, name: str, *, built: bool = True) -> list[ast.Attribute]:
    """Return where the classes of a module read or set an attribute of this name, of any object.

    Args:
        module: whose classes are read.
        name: of the attribute.
        built: whether methods that build, initialise or describe the module count, and a `train` of its own that
            prepares nothing which others read.
    """
    trees = [source.tree for source in map(source_of, own_classes([module])) if source]
    methods = [one for tree in trees for one in walked(tree) if isinstance(one, ast.FunctionDef)]
    building = [
        one for one in methods if BUILDING.search(one.name) or (one.name == "train" and not _prepares(one, methods))
    ]
    left_out = set() if built else {node for method in building for node in walked(method)}
    nodes = (one for tree in trees for one in walked(tree) if one not in left_out)
    return [one for one in nodes if isinstance(one, ast.Attribute) and one.attr == name]


def _prepares(method: ast.FunctionDef, methods: list[ast.FunctionDef]) -> bool:
    """Return whether a method sets an attribute that another one reads."""
    sets = {one.attr for one in ast.walk(method) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    others = (node for one in methods if one is not method for node in ast.walk(one))
    return any(isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load) and one.attr in sets for one in others)
