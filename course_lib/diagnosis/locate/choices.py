"""Find what an author chose by name, so that only the author can know whether it is right: numbers, branches."""

import ast
import re
from collections.abc import Iterable, Iterator

from course_lib.diagnosis.measure import Subject
from course_lib.tracing import Operation, source_of

from .attributes import statements_that_set
from .sources import nodes_in

SCALE = re.compile(r"scal|multipl|temperature", re.I)
# Set to 1, or to what a configuration calls a scale; a power that is computed from a width is no choice.
CHOSEN = re.compile(r"1(\.0?)?|(self\.)?(config|cfg|args|params|hparams)\.(\w+)( ?\*\* ?\(?-0\.5\)?)?")


def scale_by_choice(subject: Subject, factor: float) -> str | None:
    """Return the statement that chooses exactly this scale, `self.scaling = config.multiplier`; None if none does."""
    for module in subject.modules.values():
        for name, value in vars(module).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
            if not number or not SCALE.search(name) or "norm" in name or abs(value / factor - 1) > 1e-6:
                continue
            for _, statement in statements_that_set(subject, name):
                text = ast.unparse(getattr(statement, "value", None) or statement)
                chosen = CHOSEN.fullmatch(text)
                if chosen and (chosen[4] is None or SCALE.search(chosen[4])):
                    return f"`self.{name} = {text}`"
    return None


def branch_by_choice(subject: Subject, operations: Iterable[Operation]) -> str | None:
    """Return the condition on a setting of the module by which an operation's branch ran instead of the other.

    The other branch reads a part that this module was not built with, so that the choice was made when it was built.
    None if no operation ran in such a branch.
    """
    known = {name for module in subject.modules.values() for name in dir(module)}
    for operation in operations:
        for statement, (code, _) in zip(operation.statements, operation.frames, strict=True):
            for test, other in _other_branches(nodes_in(source_of(code)), statement.line):
                read = {name for part in other for name in _own_attributes(part)}
                if any(_own_attributes(test)) and not read <= known:
                    return ast.unparse(test)
    return None


def _other_branches(nodes: Iterable[ast.AST], line: int) -> Iterator[tuple[ast.expr, list[ast.AST]]]:
    """Yield the condition of each `if` that a line is in, in one of two branches, and the other branch."""
    for node in nodes:
        if isinstance(node, ast.IfExp) and node.lineno <= line <= (node.end_lineno or 0):
            yield node.test, [node.body, node.orelse]
        elif isinstance(node, ast.If) and node.orelse and node.lineno < line <= (node.end_lineno or 0):
            yield node.test, list(node.body if line >= node.orelse[0].lineno else node.orelse)


def _own_attributes(code: ast.AST) -> Iterator[str]:
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr
