"""How code is usually called: the names of its masks, caches and kernels, and which of its results is the output."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any

from torch import Tensor, nn

MASK = re.compile(r"mask|^keep$|causal|attn_bias|attention_bias|future|autoregressive", re.I)
KEYS = re.compile(r"mask|pad|^keep$|real|valid", re.I)  # a mask of the keys
CACHE = re.compile(r"(kv_?|layer_)?(cache|past)s?|past_(kvs?|key_values?)")
WEIGHTS = re.compile(r"(need|return|output)_?(attn|attention)?_?(weights?|attentions?|attn|probs|scores)", re.I)
KERNEL = re.compile(r"flash|sdpa|flex|fused|xformers|mem(ory)?_efficient|fast_?attn|eager|kernel", re.I)
SWITCH = re.compile(  # surely one: other names with a KERNEL may be of a fused projection
    r"(use|enable|with)?_?(flash|sdpa|flex|fused|xformers|mem(ory)?_efficient|eager)_?(attn|attention)?", re.I
)
WRITTEN_OUT = re.compile(r"eager|explicit|math|naive", re.I)  # the formula
KERNEL_WORDS = re.compile(
    rf"({WRITTEN_OUT.pattern}|fused|sdpa|flash|flex)(_attention)?", re.I
)  # values of an attribute
OUTPUT = re.compile(r"((attn|attention|context)_?)?(out|outputs?|results?|logits|(last_)?hidden_states?)", re.I)
MASKS = re.compile(r".*mask.*|keep", re.I)


def parameters_of(code: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or of a module's forward; empty if they are unknown."""
    try:
        return list(inspect.signature(code.forward if isinstance(code, nn.Module) else code).parameters.values())
    except (TypeError, ValueError, AttributeError):  # TorchScript leaves out a `forward` that is not written
        return []


def code_of(function: Any) -> CodeType | None:
    """Return the code object of a function, without the wrappers of decorators; None if it is not Python."""
    return getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)


def forward_code(module: nn.Module) -> CodeType | None:
    """Return the code object of the `forward` of a module's class; None if that is not Python, as with TorchScript."""
    return code_of(getattr(type(module), "forward", None))


def first_tensor(output: Any) -> Any:
    """Return the output alone if the code also returns weights or a cache, in a tuple or in an object with fields.

    A plain dict has no order that means anything: it gives its only tensor with rows, as of logits beside a loss, or
    the only one of them that is called an output.
    """
    if type(output) is dict:
        rows = {name: part for name, part in output.items() if isinstance(part, Tensor) and part.dim() > 1}
        named = {name: part for name, part in rows.items() if OUTPUT.fullmatch(str(name))}
        only = rows if len(rows) == 1 else named
        return next(iter(only.values())) if len(only) == 1 else output
    if isinstance(output, Mapping):  # as the outputs of transformers are
        parts = list(output.values())
    elif is_dataclass(output):
        parts = [getattr(output, field.name) for field in fields(output)]
    else:
        parts = list(output) if isinstance(output, (tuple, list)) else []
    return parts[0] if parts and isinstance(parts[0], Tensor) else output


def part_to_take(output: Any) -> str:
    """Return what takes the first tensor, or else the first part, of what code returns, as "[0]"; "" without parts."""
    if not isinstance(output, (Mapping, tuple, list)) or not output:
        return ""
    parts = output if isinstance(output, Mapping) else dict(enumerate(output))
    return f"[{next((key for key, part in parts.items() if isinstance(part, Tensor)), next(iter(parts)))!r}]"
