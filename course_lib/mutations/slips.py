"""Slips: what goes wrong in one place of any function, and in words what it computes then."""

import ast
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .pattern import arguments, fill_in, literal, match, method, walk
from .slip_forms import (
    ALONG,
    ALONG_AXIS,
    FORMS,
    JOINS,
    OF_AXIS,
    OF_FLOATS,
    OF_LIST,
    OF_MASK,
    OF_NUMBER,
    OF_TENSOR,
    ORDERS,
    REDUCTIONS,
    SIGNS,
)
from .source import Edit, Node
from .watched import Watched


class Slip(NamedTuple):
    """One slip.

    Attributes:
        words: What happens then, as a clause such as "softmax is missing".
        edits: What changes in the source.
        mistake: Its id in the catalogue, or None.
    """

    words: str
    edits: tuple[Edit, ...]
    mistake: str | None = None


def slips(watched: Watched, result: Any, axes: Sequence[str]) -> Iterator[Slip]:
    """Find the slips of a function that was watched, the likeliest first.

    Args:
        watched: The function, after a call.
        result: What that call returned.
        axes: The names of the result's axes, if it is a tensor.
    """
    found = _Slips(watched, is_number=isinstance(result, (int, float)))
    loops = [node for node in ast.walk(watched.definition) if isinstance(node, ast.While)]  # might not end any more
    left_out = {id(node) for loop in loops for node in ast.walk(loop)}
    nodes = [node for statement in watched.definition.body for node in walk(statement) if id(node) not in left_out]
    for operator in (found.forms, found.roots, found.axes):
        yield from (slip for node in nodes for slip in operator(node))
    yield from found.of_result(result, axes)
    for operator in (found.joins, found.signs, found.statements):
        yield from (slip for node in nodes for slip in operator(node))
    yield from found.of_arguments()
    yield from (slip for node in nodes for slip in found.conditions(node))
    for operator in (found.indices, found.loops, found.orders):
        yield from (slip for node in nodes for slip in operator(node))
    yield from found.along_arguments()
    yield from (slip for node in nodes for slip in found.names(node))


class _Slips:
    def __init__(self, watched: Watched, *, is_number: bool) -> None:
        self.watched, self.is_number = watched, is_number
        self.source, self.text = watched.source, watched.source.text_of
        self.parameters = watched.arguments

    def slip(self, node: Node, text: str, words: str, mistake: str | None = None) -> Slip:
        if isinstance(node, ast.stmt):
            return Slip(words, (self.source.replace(node, text),), mistake)
        whole = Edit(*self.source.span(node), f"({text})")  # nobody reads the code, so `replace` need not look
        return Slip(words, (whole,), mistake)

    def named(self, node: ast.AST) -> str:
        """Name a value as a learner knows it; "" if only the solution has it."""
        if isinstance(node, ast.Name) and node.id in self.parameters:
            return f"`{node.id}`"
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and self.is_number:
            return repr(node.value)
        value = self.watched.value(node)
        if type(value) is int and value in self.watched.sizes and not isinstance(node, ast.Constant):
            return f"the size of {self.watched.sizes[value]}"
        return REDUCTIONS.get(method(node), "")

    def forms(self, node: Node) -> Iterator[Slip]:
        for form, new, words, mistake in FORMS:
            if (found := match(form, node)) is not None:
                dim = literal(found.get("D"))
                axis = self.watched.axis(found["X"], dim) if isinstance(dim, int) else ""
                if axis or "{axis}" not in words:
                    text = fill_in(new, {**found, "Z": node}, self.text)
                    yield self.slip(node, text, words.format(axis=axis), mistake)

    def roots(self, node: Node) -> Iterator[Slip]:
        for form, power in (("X ** 0.5", 0.5), ("X ** -0.5", -0.5), ("sqrt(X)", 0.5)):
            if (found := match(form, node)) is None:
                continue
            text, size = self.text(found["X"]), self.watched.value(found["X"])
            name, mistake = self.watched.sizes.get(size, ""), None
            if isinstance(size, int):
                name, mistake = name or "the width", "wrong-scale"
                yield self.slip(node, "1", "the scale is missing", "missing-scale")
                yield self.slip(node, f"({text}) ** {-power}", f"the root of {name} stands on the wrong side", mistake)
                for other, told in self.watched.sizes.items():
                    if told != name:
                        yield from self._other_root(node, name, told, other, power)
            words = f"{name} itself stands in the place of its root" if name else "a square root is missing"
            yield self.slip(node, f"({text}) ** {2 * power}", words, mistake)

    def _other_root(self, node: Node, name: str, told: str, size: int, power: float) -> Iterator[Slip]:
        """The root of another size, read off an argument."""
        for argument, value in self.parameters.items():
            for index, found in enumerate(getattr(value, "shape", ())):
                if found == size:
                    text = f"{argument}.shape[{index}] ** {power}"
                    yield self.slip(node, text, f"the scale comes from {told}, not from {name}", "wrong-scale")
                    return

    def axes(self, node: Node) -> Iterator[Slip]:
        """Another axis for what runs along one, or another reduction."""
        name, given = method(node), arguments(node) if isinstance(node, ast.Call) else None
        if name not in ALONG or given is None or not isinstance(old := literal(given.get("dim")), int):
            return
        of, keep = given["input"], ", keepdim=True" if literal(given.get("keepdim")) else ""
        text, what, here = self.text(of), REDUCTIONS.get(name, name), self.watched.axis(of, old)
        mistake = "softmax-wrong-axis" if name == "softmax" else None
        names = self.watched.axes(of)
        for new, there in enumerate(names):
            if here and self.watched.axis(of, new) and new != old % len(names):
                words = f"{what} runs over the axis {there}, not over the axis {here}"
                yield self.slip(node, f"({text}).{name}(dim={new}{keep})", words, mistake)
                if name in REDUCTIONS:
                    words = f"{what} runs over the axis {there}, too"
                    yield self.slip(node, f"({text}).{name}(dim=({old}, {new}){keep})", words)
        for other, told in REDUCTIONS.items() if name in REDUCTIONS else ():
            if other != name:
                yield self.slip(node, f"({text}).{other}(dim={old}{keep})", f"{told} is taken, not {what}")
        if name in REDUCTIONS and here and not keep:
            for index, which in ((0, "first"), (-1, "last")):
                words = f"the {which} {here} alone counts, where {what} is asked for"
                yield self.slip(node, f"({text}).select({old}, {index})", words)

    def joins(self, node: Node) -> Iterator[Slip]:
        """Parts that are joined along another axis, in another order or not at all."""
        given = arguments(node) if isinstance(node, ast.Call) and method(node) in JOINS else None
        if given is None or not isinstance(old := literal(given.get("dim", ast.Constant(0))), int):
            return
        parts, join = given["tensors"], f"torch.{method(node)}"
        text, names = self.text(parts), self.watched.axes(parts)
        for new, axis in enumerate(names):
            if join == "torch.cat" and axis and new != old % len(names):
                yield self.slip(node, f"{join}({text}, {new})", f"the parts are joined along {axis}")
        for template, words in (
            (f"{join}(({{0}})[::-1], {old})", "the parts are joined in reverse order"),
            ("sum({0})", "the parts are added, not joined"),
            ("sum({0}) / len({0})", "the parts' mean is taken, where they should be joined"),
            ("torch.stack({0}, -1).flatten(-2)", "elements of the parts come in turn"),
        ):
            yield self.slip(node, template.format(text), words)

    def signs(self, node: Node) -> Iterator[Slip]:
        if not isinstance(node, ast.BinOp):
            return
        left, right = self.text(node.left), self.text(node.right)
        if type(node.op) in SIGNS:
            sign, other, missing = SIGNS[type(node.op)]
            if told := self.named(node.right):
                yield self.slip(node, left, missing.format(told))
                yield self.slip(node, f"({left}) {sign} ({right})", other.format(told))
            if (told := self.named(node.left)) and isinstance(node.op, (ast.Add, ast.Mult)):
                yield self.slip(node, right, missing.format(told))
        if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            both, sign = (
                ("one of two conditions is enough", "|")
                if isinstance(node.op, ast.BitAnd)
                else ("two conditions are asked for at once", "&")
            )
            yield self.slip(node, f"({left}) {sign} ({right})", both)
            for kept, missing in ((left, node.right), (right, node.left)):
                if about := self.about(missing):
                    yield self.slip(node, kept, f"the condition on {about} is missing")

    def about(self, node: ast.AST) -> str:
        """Name the arguments that an expression reads."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        return " and ".join(f"`{name}`" for name in self.parameters if name in names)

    def statements(self, node: Node) -> Iterator[Slip]:
        if isinstance(node, ast.AugAssign):
            yield self.slip(
                node,
                f"{self.text(node.target)} = {self.text(node.value)}",
                "the last turn of a loop replaces those before it",
            )
            if told := self.named(node.value):
                yield self.slip(node, "pass", f"{told} is not added")
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield self.slip(node, "pass", "what should be overwritten keeps its values")

    def conditions(self, node: Node) -> Iterator[Slip]:
        if isinstance(node, (ast.IfExp, ast.If)) and (about := self.about(node.test)):
            for value in ("True", "False"):
                yield Slip(f"{about} makes no difference", (self.source.replace(node.test, value),))
        if isinstance(node, ast.Compare) and (about := self.about(node)):
            left, right = self.text(node.left), self.text(node.comparators[0])
            for order, words in ORDERS.get(type(node.ops[0]), ()):
                yield self.slip(node, f"({left}) {order} ({right})", f"{words} (in a comparison of {about})")
        if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
            words = "a minus sign is missing" if isinstance(node.op, ast.USub) else "a condition is inverted"
            yield self.slip(node, self.text(node.operand), words)

    def indices(self, node: Node) -> Iterator[Slip]:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            return
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(literal(part) is ... or (isinstance(part, ast.Constant) and part.value is None) for part in parts):
            return
        for at, part in enumerate(parts):
            if axis := self.watched.axis(node.value, at) if self.watched.tensor(node.value) is not None else "":
                for new, words in self._other_parts(part, axis):
                    index = ", ".join([*map(self.text, parts[:at]), new, *map(self.text, parts[at + 1 :])])
                    yield self.slip(node, f"{self.text(node.value)}[{index}]", words)

    def _other_parts(self, part: ast.expr, axis: str) -> Iterator[tuple[str, str]]:
        if isinstance(part, ast.Slice):
            lower, upper = (self.text(bound) if bound else "" for bound in (part.lower, part.upper))
            yield ":", f"every {axis} is taken, none is cut off"
            if upper and not lower:
                yield f"-({upper}):", f"what is taken along {axis} is counted from the end"
            for name, sign in (("late", "+ 1"), ("early", "- 1")):
                if lower:
                    yield f"({lower}) {sign}:{upper}", f"what is taken along {axis} begins one too {name}"
                if upper:
                    yield f"{lower}:({upper}) {sign}", f"what is taken along {axis} ends one too {name}"
        elif isinstance(value := self.watched.value(part) if literal(part) is None else literal(part), int):
            for index, which in ((0, "first"), (-1, "last")):
                if value != index:
                    yield str(index), f"the {which} {axis} is taken"
            if literal(part) is None:
                yield f"({self.text(part)}) - 1", f"the {axis} before the right one is taken"

    def loops(self, node: Node) -> Iterator[Slip]:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
            end = self.text(node.args[min(len(node.args), 2) - 1])
            start, step = (
                self.text(node.args[0]) if node.args[1:] else "0",
                self.text(node.args[2]) if node.args[2:] else "1",
            )
            yield self.slip(node, f"range({start}, ({end}) - ({step}), {step})", "a loop ends too early")
            yield self.slip(node, f"range({start}, ({end}) + ({step}), {step})", "a loop ends too late")
            yield self.slip(node, f"range(({start}) + ({step}), {end}, {step})", "a loop leaves out its first turn")
            if node.args[2:]:
                words = "a loop leaves out the smaller block at the end"
                yield self.slip(node, f"range({start}, ({end}) // ({step}) * ({step}), {step})", words)

    def orders(self, node: Node) -> Iterator[Slip]:
        """Axes in another order, and sizes of a view that are exchanged."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        name, of = method(node), node.func.value
        names = self.watched.axes(of)
        if name in ("permute", "transpose") and 1 < len(names) < 5 and all(names):
            for order in itertools.permutations(range(len(names))):
                words = f"the axes stand in the order ({', '.join(names[index] for index in order)})"
                yield self.slip(node, f"({self.text(of)}).permute{order}", words)
        if name in ("view", "reshape"):
            for first, second in itertools.combinations(range(len(node.args)), 2):
                sizes = [self.text(argument) for argument in node.args]
                sizes[first], sizes[second] = sizes[second], sizes[first]
                words = "an axis is cut the other way round, so that other elements are neighbours"
                yield self.slip(node, f"({self.text(of)}).{name}({', '.join(sizes)})", words)

    def names(self, node: Node) -> Iterator[Slip]:
        """Another argument of the same kind in one place."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.parameters:
            for other in self.parameters:
                if other != node.id and _alike(self.parameters[node.id], self.parameters[other]):
                    yield self.slip(node, other, f"`{other}` stands in one place of `{node.id}`")

    def before(self, code: str, words: str) -> Slip:
        """A slip in the arguments, before anything else."""
        first = self.watched.definition.body[0]
        start = self.source.span(first)[0]
        return Slip(words, (Edit(start, start, f"{code}\n{' ' * first.col_offset}"),))

    def of_arguments(self) -> Iterator[Slip]:
        for first, second in itertools.combinations(self.parameters, 2):
            if _alike(self.parameters[first], self.parameters[second]):
                yield self.before(f"{first}, {second} = {second}, {first}", f"`{first}` and `{second}` are exchanged")
                for name, other in ((first, second), (second, first)):
                    yield self.before(f"{name} = {other}", f"`{other}` is used in the place of `{name}`")
        for name, value in self.parameters.items():
            rows = OF_NUMBER if type(value) is int else OF_LIST if isinstance(value, (list, tuple)) else ()
            rows = OF_TENSOR if isinstance(value, Tensor) and value.is_floating_point() else rows
            for code, words in rows:
                yield self.before(f"{name} = {code.format(name)}", words.format(name))

    def along_arguments(self) -> Iterator[Slip]:
        for name, value in self.parameters.items():
            names = self.watched.shapes.get(tuple(value.shape), ()) if isinstance(value, Tensor) else ()
            for index, axis in enumerate(names):
                for code, words in ALONG_AXIS:
                    yield self.before(f"{name} = {code.format(name, index)}", words.format(name, index, _one(axis)))

    def of_result(self, result: Any, axes: Sequence[str]) -> Iterator[Slip]:
        if not isinstance(result, Tensor):
            return
        rows = OF_MASK if result.dtype == torch.bool else OF_FLOATS if result.is_floating_point() else ()
        along = [
            (code.format(at), words.format(_one(axis)))
            for at, axis in enumerate(axes)
            if axis != "1"
            for code, words in OF_AXIS
        ]
        last = [("R.mT", "the last two axes are exchanged")] * (result.ndim > 1)
        ends = [node.value for node in ast.walk(self.watched.definition) if isinstance(node, ast.Return) and node.value]
        for code, words in (*rows, *last, *along):
            texts = (fill_in(code, {"R": end}, lambda node: f"({self.text(node)})") for end in ends)
            yield Slip(words, tuple(map(self.source.replace, ends, texts)))


def _one(axis: str) -> str:
    """Name one of those that lie along an axis."""
    return "sample" if axis == "batch" else axis


def _alike(value: Any, other: Any) -> bool:
    """Whether two values can stand in each other's place."""
    if isinstance(value, Tensor):
        return isinstance(other, Tensor) and (value.ndim, value.dtype) == (other.ndim, other.dtype)
    return type(value) is type(other) and isinstance(value, (int, float, list, tuple)) and not isinstance(value, bool)
