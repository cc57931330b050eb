"""Read from the signature how to call code that takes more than x or returns more than its output."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.calling import MASK, first_tensor, parameters_of

Call = Callable[[Any, Tensor], Any]  # (code, x) -> output


def usual_call(code: Callable[..., Any]) -> Call:
    """Return how to run code on x; code with three tensor arguments gets x as queries, keys and values."""
    if isinstance(code, nn.MultiheadAttention):
        return _call_library_module
    return call_with(code)


def call_with(code: Callable[..., Any], **extra: Callable[[Tensor], Any]) -> Call:
    """Return how to run code on x with further arguments, each of which is made from x."""
    needed = [one for one in parameters_of(code) if one.default is one.empty and one.kind <= one.POSITIONAL_OR_KEYWORD]
    count = 3 if [one.name[:1].lower() for one in needed] == ["q", "k", "v"] else 1
    return lambda code, x: first_tensor(code(*[x] * count, **{name: make(x) for name, make in extra.items()}))


def _call_library_module(module: nn.MultiheadAttention, x: Tensor) -> Tensor:
    """Run nn.MultiheadAttention with the causal mask as an argument, as this course uses it."""
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    given = x if module.batch_first else x.transpose(0, 1)
    output, _ = module(given, given, given, attn_mask=hidden, need_weights=False)
    return output if module.batch_first else output.transpose(0, 1)


def mask_arguments(code: Callable[..., Any]) -> list[str]:
    """Return the names of all arguments that may take a causal mask, or say that there is one."""
    names = [one.name for one in parameters_of(code)[1:] if one.kind <= one.KEYWORD_ONLY]
    return [name for name in names if MASK.search(name) and "pad" not in name]


def mask_argument(code: Callable[..., Any]) -> str | None:
    """Return the name of the code's mask argument, or None."""
    names = (one.name for one in parameters_of(code)[1:])
    return next((name for name in names if ("mask" in name or name == "keep") and "pad" not in name), None)


@contextmanager
def handing(code: nn.Module, more: dict[str, Any], given: list[dict[str, Any]] | None = None) -> Iterator[list[Any]]:
    """Hand a module further arguments, whoever calls it, and note in `given` what else it gets; yield its results."""
    names, results = [one.name for one in parameters_of(code)], list[Any]()

    def give(_: nn.Module, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        placed = dict(zip(names, args, strict=False))
        if given is not None:
            given.append({**placed, **named})
        own = tuple(more.get(name, one) for name, one in placed.items()) + args[len(placed) :]
        return own, {**named, **{name: one for name, one in more.items() if name not in placed}}

    def note(_: nn.Module, args: tuple, result: Any) -> None:
        results.append(result)

    with code.register_forward_pre_hook(give, with_kwargs=True), code.register_forward_hook(note):
        yield results
