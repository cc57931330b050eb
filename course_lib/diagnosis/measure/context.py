"""Examine cross-attention as attention over the tokens of x and of the context together."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.calling import first_tensor, parameters_of

ContextCall = Callable[[Any, Tensor, Tensor], Any]  # (code, x, context) -> output
NO_CONTEXT = re.compile(r"mask|cache|past|bias|len", re.I)
CONTEXT = re.compile(r"context|encoder|memory|cond|source|src|media|cross|key_?value|kv", re.I)


def joined(x: Tensor, context: Tensor) -> Tensor:
    """Put the tokens of the context behind those of x: (batch, token + context token, the larger width)."""
    width = max(x.shape[-1], context.shape[-1])
    return torch.cat([F.pad(one, (0, width - one.shape[-1])) for one in (x, context.to(x.dtype))], dim=1)


def beside(x: Tensor, context: Tensor, call: ContextCall) -> tuple[Tensor, Callable[[Any, Tensor], Any]]:
    """Return x with all of the context beside each token, and how to run code on it, with that of the first token."""
    count, shape = context[0].numel(), context.shape[1:]

    def on_rows(code: Any, rows: Tensor) -> Any:
        return call(code, rows[..., :-count].contiguous(), rows[:, 0, -count:].unflatten(-1, shape))

    return torch.cat([x, context.to(x.dtype).flatten(1)[:, None].expand(-1, x.shape[1], -1)], dim=2), on_rows


@dataclass(frozen=True, eq=False)
class JoinedCall:
    """Runs code on `joined` tokens; its output has a row of zeros for each token of the context.

    Args:
        call: (code, x, context) -> output.
        x, context: whose widths, and whose number of context tokens, are those of the joined tokens.
    """

    call: ContextCall
    x: Tensor
    context: Tensor

    def __post_init__(self) -> None:
        vars(self)["__wrapped__"] = self.call  # whose lines are those of the caller

    def __call__(self, code: Any, both: Tensor) -> Any:
        """Run the code on both parts."""
        d_in, (count, d_context) = self.x.shape[-1], self.context.shape[1:]
        output = self.call(code, both[:, :-count, :d_in].contiguous(), both[:, -count:, :d_context].contiguous())
        if not isinstance(output, Tensor) or output.dim() != 3:
            return output
        return torch.cat([output, output.new_zeros(len(output), count, output.shape[-1])], dim=1)

    def with_fewer_of_both(self) -> tuple[Tensor, "JoinedCall"]:
        """Return joined tokens with one token less of x and of the context, and how to run code on them."""
        x, context = self.x[:, :-1], self.context[:, :-1]
        return joined(x, context), JoinedCall(self.call, x, context)


def call_beside_ids(code: Any, context: Tensor, call: Callable[..., Any] | None) -> Callable[[Any, Tensor], Any]:
    """Return how to run a model on ids alone, with as many samples of the context, in the model's dtype."""
    run = call or usual_context_call(code)

    def on_ids(code: nn.Module, ids: Tensor) -> Any:
        dtype = next((one.dtype for one in code.parameters() if one.is_floating_point()), context.dtype)
        given = context.detach().cpu()[torch.arange(len(ids)) % len(context)]
        return run(code, ids, given.to(dtype) if given.is_floating_point() else given)

    vars(on_ids)["__wrapped__"] = run  # whose lines are those of the caller
    return on_ids


def context_argument(code: Callable[..., Any]) -> str | None:
    """Return the name of the argument for the context, or None."""
    names = (one.name for one in parameters_of(code)[1:])
    return next((name for name in names if CONTEXT.search(name) and not NO_CONTEXT.search(name)), None)


def usual_context_call(code: Callable[..., Any]) -> ContextCall:
    """Return how to run code on x and a context: by the argument whose name says so, or else as the second one."""
    needed = [one for one in parameters_of(code) if one.default is one.empty and one.kind <= one.POSITIONAL_OR_KEYWORD]
    if [one.name[:1].lower() for one in needed] == ["q", "k", "v"]:
        return lambda code, x, context: first_tensor(code(x, context, context))
    name = context_argument(code)
    if name is None:
        return lambda code, x, context: first_tensor(code(x, context))
    return lambda code, x, context: first_tensor(code(x, **{name: context}))
