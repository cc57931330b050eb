"""Guess how to run code that takes more than x, from the names of its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

NAMES = r"xs? q k v y kv query queries keys? values? src tgt context memory inputs? hidden(_states?)? embeddings?"
TENSOR = re.compile("|".join(NAMES.split()))
MASK = re.compile(r"\w*mask\w*|bias")
TRUE = "torch.ones(x.shape[1], {}.shape[1], dtype=x.dtype, device=x.device)"  # of the keys' number of tokens


def guessed_calls(code: Any, causal: bool, context: bool = False) -> Iterator[str]:
    """Yield texts for --call, such as "lambda m, x: m(x, x, x, None)"; none if x alone is enough, or nothing fits.

    A mask that has to be given is None, or has 1 wherever a token may be seen. With a context, c, all but the first
    argument are made of that: "lambda m, x, c: m(x, c, c)".
    """
    needed = _arguments(code)
    if len(needed) < 2:
        return
    keys = "c" if context else "x"
    for mask in ("None", TRUE.format(keys) + ".tril()" * (causal and not context)):
        given = [keys if TENSOR.fullmatch(name) else mask if MASK.fullmatch(name) else "" for name, _ in needed]
        if "" in given:
            return
        given[0] = "x" if given[0] == keys else given[0]
        words = [f"{name}={value}" if by_name else value for (name, by_name), value in zip(needed, given, strict=True)]
        yield f"lambda m, x{', c' * context}: m({', '.join(words)})"
        if mask not in given:
            return


def guess_call(code: Any, causal: bool, runs: Callable[[Any], bool], context: bool = False) -> str | None:
    """Return the first guess that runs, or None if x, or x and the context, is enough or no guess runs."""
    import torch

    guesses = [] if context and runs(None) else list(guessed_calls(code, causal, context))
    if not guesses and not context and not runs(None):  # such as forward(x, y=None), which raises without y
        others = [name for name, _ in _arguments(code, optional=True)[1:] if TENSOR.fullmatch(name)]
        guesses = [f"lambda m, x: m({', '.join(['x', *(f'{name}=x' for name in others)])})"] if others else []
    return next((text for text in guesses if runs(eval(text, {"torch": torch}))), None)


def part_to_take(code: Any, call: Callable[..., Any], *given: Any) -> str:
    """Return what takes the output out of the parts that a call gives back, as "[0]"; "" if it gives back one thing.

    A call that fails gives back nothing: the examination says why.
    """
    import torch
    from torch import nn

    from course_lib import calling
    from course_lib.diagnosis import copy_of
    from course_lib.tracing import without_gradients

    try:
        run = copy_of(code).eval() if isinstance(code, nn.Module) else code
        with torch.random.fork_rng(devices=[]), without_gradients():
            made = call(run, *given)
    except Exception:
        return ""
    return calling.part_to_take(made)


def _arguments(code: Any, optional: bool = False) -> list[tuple[str, bool]]:
    """Return (name, whether it is given by name) of the arguments without, or with, a default; [] if unknown."""
    from torch import nn

    try:
        parameters = inspect.signature(code.forward if isinstance(code, nn.Module) else code).parameters.values()
    except (TypeError, ValueError):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    listed = [one for one in parameters if one.kind not in variable and (optional or one.default is one.empty)]
    return [(one.name, one.kind is one.KEYWORD_ONLY) for one in listed]
