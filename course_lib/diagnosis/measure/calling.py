"""Read from the signature how to call code that takes more than x or returns more than its output."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

Call = Callable[[Any, Tensor], Any]  # (code, x) -> output
MASK = re.compile(r"mask|^keep$|causal|attn_bias|attention_bias|future|autoregressive", re.I)
CACHE = re.compile(r"(kv_?|layer_)?(cache|past)s?|past_(kvs?|key_values?)")


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


def first_tensor(output: Any) -> Any:
    """Return the output alone if the code also returns weights or a cache, in a tuple or in an object with fields."""
    if isinstance(output, Mapping) and type(output) is not dict:  # as the outputs of transformers are
        parts = list(output.values())
    elif is_dataclass(output):
        parts = [getattr(output, field.name) for field in fields(output)]
    else:
        parts = list(output) if isinstance(output, (tuple, list)) else []
    return parts[0] if parts and isinstance(parts[0], Tensor) else output


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
    return _argument(code, lambda name: ("mask" in name or name == "keep") and "pad" not in name)


def cache_argument(code: Callable[..., Any]) -> str | None:
    """Return the name of the argument for the keys of earlier tokens, or None."""
    return _argument(code, lambda name: CACHE.fullmatch(name) is not None)


def _argument(code: Callable[..., Any], wanted: Callable[[str], bool]) -> str | None:
    return next((one.name for one in parameters_of(code)[1:] if wanted(one.name)), None)


def parameters_of(code: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or of a module's forward; empty if they are unknown."""
    try:
        return list(inspect.signature(code.forward if isinstance(code, nn.Module) else code).parameters.values())
    except (TypeError, ValueError):
        return []
