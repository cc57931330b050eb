"""Examine cross-attention as attention over the tokens of x and of the context together."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.calling import first_tensor, parameters_of

from .calling import Call

ContextCall = Callable[[Any, Tensor, Tensor], Any]  # (code, x, context) -> output
NO_CONTEXT = re.compile(r"mask|cache|past|bias|len", re.I)
CONTEXT = re.compile(r"context|encoder|memory|cond|source|src|media|cross|key_?value|kv", re.I)


def joined(x: Tensor, context: Tensor) -> Tensor:
    """Put the tokens of the context behind those of x: (batch, token + context token, the larger width)."""
    width = max(x.shape[-1], context.shape[-1])
    return torch.cat([F.pad(one, (0, width - one.shape[-1])) for one in (x, context.to(x.dtype))], dim=1)


def joined_call(call: ContextCall, x: Tensor, context: Tensor) -> Call:
    """Return how to run code on `joined` tokens, whose output has a row of zeros for each token of the context."""
    d_in, (count, d_context) = x.shape[-1], context.shape[1:]

    @wraps(call)
    def run(code: Any, both: Tensor) -> Any:
        x, context = both[:, :-count, :d_in].contiguous(), both[:, -count:, :d_context].contiguous()
        output = call(code, x, context)
        if not isinstance(output, Tensor) or output.dim() != 3:
            return output
        return torch.cat([output, output.new_zeros(len(output), count, output.shape[-1])], dim=1)

    return run


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
