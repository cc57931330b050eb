"""Find other kernels of a module, which it chooses by a name, as in `self.backend == "manual"`, or by a switch."""

import ast
import re
from collections.abc import Iterator

from torch import nn

from course_lib.calling import KERNEL, KERNEL_WORDS, MASKS, WRITTEN_OUT, parameters_of
from course_lib.tracing import source_of

BUILDS = re.compile(r"init|reset|repr")
RUNS_ANYWHERE = re.compile(rf"(({WRITTEN_OUT.pattern}|manual|sdpa)(_attention)?)", re.I)


def other_kernels(module: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield an attribute that names the kernel of a module, with each other name that its code compares it with.

    Two cases are left out, because the attribute alone doesn't set up the other kernel: a module that is given its
    mask, which may be what another kernel needs, and one that builds in an `if` what its other methods read.
    """
    masked = any(MASKS.fullmatch(one.name) for one in parameters_of(module))
    methods = [] if masked else list(_methods(module))
    for name, value in vars(module).items():
        if not isinstance(value, str) or not (KERNEL_WORDS.fullmatch(value) or RUNS_ANYWHERE.fullmatch(value)):
            continue
        if not any(_builds_by_choice(one, methods) for one in methods if BUILDS.search(one.name)):
            others = dict.fromkeys(other for one in methods for other in _compared_with(one, name))
            yield from ((name, other) for other in others if other != value and RUNS_ANYWHERE.fullmatch(other))


def other_switches(module: nn.Module) -> Iterator[tuple[str, bool]]:
    """Yield each attribute that turns a kernel on or off, with its other value.

    One that a condition set when the module was built is left out: the other kernel lacks what was asked for.
    """
    building = [one for one in _methods(module) if BUILDS.search(one.name)]
    choices = [node for method in building for node in ast.walk(method) if isinstance(node, ast.If)]
    chosen = {ast.unparse(node) for choice in choices for node in ast.walk(choice) if isinstance(node, ast.Assign)}
    for name, value in vars(module).items():
        if isinstance(value, bool) and KERNEL.search(name) and f"self.{name} = {value}" not in chosen:
            yield name, not value


def _methods(module: nn.Module) -> Iterator[ast.FunctionDef]:
    own = (cls for cls in type(module).__mro__ if cls.__module__.split(".")[0] != "torch" and cls is not object)
    for source in filter(None, map(source_of, own)):
        yield from (one for one in ast.walk(source.tree) if isinstance(one, ast.FunctionDef))


def _compared_with(method: ast.FunctionDef, name: str) -> Iterator[str]:
    """Yield the strings that a method which builds nothing compares `self.name` with."""
    for node in () if BUILDS.search(method.name) else ast.walk(method):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if any(ast.unparse(side) == f"self.{name}" for side in sides):
            constants = (one for side in sides for one in ast.walk(side) if isinstance(one, ast.Constant))
            yield from (one.value for one in constants if isinstance(one.value, str))


def _builds_by_choice(building: ast.FunctionDef, methods: list[ast.FunctionDef]) -> bool:
    """Return whether what a method builds depends on a condition, and another method reads it."""
    choices = [node for node in ast.walk(building) if isinstance(node, ast.If)]
    built = {name for choice in choices for node in ast.walk(choice) for name in _set_by(node)}
    chosen = [one for one in ast.walk(building) if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value]
    for node in chosen:
        if any(isinstance(one, ast.IfExp) for one in ast.walk(node.value or node)):
            built |= {name for one in ast.walk(node) for name in _set_by(one)}
    others = (node for one in methods if not BUILDS.search(one.name) for node in ast.walk(one))
    return any(isinstance(one, ast.Attribute) and one.attr in built for one in others)


def _set_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):  # register_buffer("mask", ...)
            yield first.value
