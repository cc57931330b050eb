"""Call a learner's function and send a gradient back from its result."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def call_backward(
    code: Callable[..., Any], arguments: Sequence[Any], cotangents: Sequence[Tensor], seed: int
) -> dict[str, Any]:
    """Call a function on arguments that ask for a gradient, and send one back from the tensors that it returns.

    Args:
        code: The function.
        arguments: Its arguments; the floating-point tensors in them, also in lists and tuples, ask for a gradient.
        cotangents: What the gradient of each floating-point tensor of the result is, in order.
        seed: Of PyTorch's random stream.

    Returns:
        gradients: For each floating-point tensor of the arguments, in order, its gradient, or None where none arrived.
        failed: The text of the error with which PyTorch stopped, or "".
    """
    leaves = [one.detach().requires_grad_() for one in floating_tensors(arguments)]
    copies = (leaf.clone() for leaf in leaves)  # an in-place change of a leaf is an error that leads astray
    torch.default_generator.manual_seed(seed)
    try:
        parts = list(floating_tensors(code(*(_replaced(argument, copies) for argument in arguments))))
        pairs = [(part, cotangent) for part, cotangent in zip(parts, cotangents, strict=False) if part.requires_grad]
        if pairs:
            # A sum, because `torch.autograd.backward` with gradients imports SymPy first, which takes half a second.
            torch.stack([(part * one.to(part.dtype)).sum().double() for part, one in pairs]).sum().backward()
    except Exception as error:
        return {"gradients": [], "failed": f"{type(error).__name__}: {error}"}
    return {"gradients": [leaf.grad for leaf in leaves], "failed": ""}


def floating_tensors(value: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors of a value, also those in lists and tuples, in order."""
    if isinstance(value, Tensor) and value.is_floating_point():
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from floating_tensors(element)


def _replaced(value: Any, tensors: Iterator[Tensor]) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point():
        return next(tensors)
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(element, tensors) for element in value])
    return value
