"""Name the inputs of a step as its source line does: `y` in `torch.relu(y)` after `y = x`."""

import ast
from collections.abc import Iterator, Sequence

from torch import Tensor

from course_lib.recorder import Step

from .shown_tensor import ShownTensor


def names_of_inputs(step: Step, inputs: Sequence[ShownTensor], steps: Sequence[Step]) -> list[str]:
    """Return the name of each input in backticks, followed by the tensor's own name if it differs.

    Args:
        steps: all steps of the run.
    """
    in_line = dict(_in_line(step))
    titles = [source.title for source in inputs]
    names = []
    for number, source in enumerate(inputs):
        name = in_line.get(number, source.title)
        if source.step_number >= 0 and steps[source.step_number].written:
            names.append(f"`{source.title}` (as step {source.key} left it)")
        elif name != source.title and not _is_inside(step, source, steps):
            names.append(f"`{name}` (the tensor `{source.title}`)")
        else:
            names.append(f"`{source.title}`" + (_origin(source) if titles.count(source.title) > 1 else ""))
    return names


def _in_line(step: Step) -> Iterator[tuple[int, str]]:
    """Yield the position of an input and the name that the source line gives it."""
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
        argument = expression.args[0]
        if isinstance(argument, ast.Name) and not _is_method(step, expression.func):
            yield 0, argument.id


def _is_method(step: Step, called: ast.expr) -> bool:
    """Return whether the line calls a method of a tensor, as in `x.mean(axis)`, whose first tensor is no argument."""
    named = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return named == step.op and getattr(Tensor, named, None) is step.call.func


def _is_inside(step: Step, tensor: ShownTensor, steps: Sequence[Step]) -> bool:
    """Whether the same call made the tensor in an earlier step, as modules of PyTorch do."""
    if tensor.step_number < 0:
        return False
    maker = steps[tensor.step_number].call
    return maker.code is step.call.code and maker.instruction == step.call.instruction


def _origin(tensor: ShownTensor) -> str:
    return f" (step {tensor.key})" if tensor.step_number >= 0 else " (before the run)"
