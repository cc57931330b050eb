"""Name what a step reads as its line does, where the tensor has another name: `y` in `torch.relu(y)` after `y = x`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torch import Tensor

from course_lib.recorder import Step

from .shown import ShownTensor


def names_of_inputs(step: Step, inputs: Sequence[ShownTensor], steps: Sequence[Step]) -> list[str]:
    """Return the name of each input in backticks, with the tensor's own name where that is another one.

    Args:
        steps: all steps of the run.
    """
    in_line = dict(_in_line(step))
    titles = [one.title for one in inputs]
    names = []
    for number, one in enumerate(inputs):
        name = in_line.get(number, one.title)
        if one.made >= 0 and steps[one.made].written:
            names.append(f"`{one.title}` (as step {one.key} left it)")
        elif name != one.title and not _is_inside(step, one, steps):
            names.append(f"`{name}` (the tensor `{one.title}`)")
        else:
            names.append(f"`{one.title}`" + (_place(one) if titles.count(one.title) > 1 else ""))
    return names


def _in_line(step: Step) -> Iterator[tuple[int, str]]:
    """Yield the number of an input and its name in the line, where the line tells it."""
    try:
        expression = ast.parse(step.code.lstrip("."), mode="eval").body
    except SyntaxError:
        return
    if isinstance(expression, ast.BinOp):
        if len(step.call.tensors) == 2 and all(isinstance(value, Tensor) for value in step.call.args):
            for number, side in enumerate((expression.left, expression.right)):
                if isinstance(side, ast.Name):
                    yield number, side.id
    elif isinstance(expression, ast.Call) and len(expression.args) == 1 and not expression.keywords:
        given = expression.args[0]
        if isinstance(given, ast.Name) and not _is_method(step, expression.func):
            yield 0, given.id


def _is_method(step: Step, called: ast.expr) -> bool:
    """Return whether the line calls a method of a tensor, as in `x.mean(axis)`, whose first tensor is no argument."""
    named = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return named == step.op and getattr(Tensor, named, None) is step.call.func


def _is_inside(step: Step, one: ShownTensor, steps: Sequence[Step]) -> bool:
    """Return whether another step of the same call made the tensor, such as one within a module of PyTorch."""
    if one.made < 0:
        return False
    maker = steps[one.made].call
    return maker.code is step.call.code and maker.instruction == step.call.instruction


def _place(one: ShownTensor) -> str:
    return f" (step {one.key})" if one.made >= 0 else " (before the run)"
