"""Guess how to run code that takes more than x, from the names of its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

TENSOR = re.compile(r"x|xs?|q|k|v|quer(y|ies)|keys?|values?|src|tgt|inputs?|input_\w+|hidden(_states?)?|embeddings?")
MASK = re.compile(r"\w*mask\w*|bias")
CAUSAL = "torch.ones(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device).tril()"
TRUE = "torch.ones(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device)"


def guessed_calls(code: Any, causal: bool) -> Iterator[str]:
    """Yield texts for --call, such as "lambda m, x: m(x, x, x, None)"; none if x alone is enough, or nothing fits.

    A mask that has to be given is None, or has 1 wherever a token may be seen.
    """
    needed = _needed(code)
    if needed is None or len(needed) < 2:
        return
    for mask in ("None", CAUSAL if causal else TRUE):
        given = ["x" if TENSOR.fullmatch(name) else mask if MASK.fullmatch(name) else "" for name, _ in needed]
        if "" in given:
            return
        words = [f"{name}={value}" if by_name else value for (name, by_name), value in zip(needed, given, strict=True)]
        yield f"lambda m, x: m({', '.join(words)})"
        if mask not in given:
            return


def guess_call(code: Any, causal: bool, runs: Callable[[Any], bool]) -> str | None:
    """Return the first guess that runs, or None."""
    import torch

    return next((text for text in guessed_calls(code, causal) if runs(eval(text, {"torch": torch}))), None)


def _needed(code: Any) -> list[tuple[str, bool]] | None:
    """Return (name, whether it is given by name) of each argument without a default; None without a signature."""
    from torch import nn

    try:
        parameters = inspect.signature(code.forward if isinstance(code, nn.Module) else code).parameters.values()
    except (TypeError, ValueError):
        return None
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    listed = [one for one in parameters if one.default is one.empty and one.kind not in variable]
    return [(one.name, one.kind is one.KEYWORD_ONLY) for one in listed]
