"""Guess how to run code that takes more than x, from the names of its arguments."""

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

    A mask that has to be given is None, or has 1 wherever a token may be seen, or True wherever it may not. With a
    context, c, all but the first argument are made of that: "lambda m, x, c: m(x, c, c)".
    """
    needed = [each for each in named_parameters(code) if each.default is each.empty]
    if len(needed) < 2:
        return
    keys = "c" if context else "x"
    seen = TRUE.format(keys) + ".tril()" * (causal and not context)
    for mask in ("None", seen, f"{seen} == 0"):
        values = [keys if TENSOR.fullmatch(p.name) else mask if MASK.fullmatch(p.name) else "" for p in needed]
        if "" in values:
            return
        values[0] = "x" if values[0] == keys else values[0]
        names = [f"{p.name}=" * (p.kind is p.KEYWORD_ONLY) for p in needed]
        words = [name + value for name, value in zip(names, values, strict=True)]
        yield f"lambda m, x{', c' * context}: m({', '.join(words)})"
        if mask not in values:
            return


def guess_call(
    code: Any, causal: bool, runs: Callable[[Any], bool], moved: Callable[[Any], list[float]], context: bool = False
) -> str | None:
    """Return the first guess that runs, or None if x, or x and the context, is enough or no guess runs.

    Of code that needs a mask and hides nothing by itself, it is the first guess whose mask hides what comes later.

    Args:
        code: A module or function.
        causal: Whether a token may see only itself and those before it.
        runs: Whether the code runs, called so.
        moved: How far the output of each token moves with the last token then; [] if that can't be said.
        context: Whether there is a second sequence.
    """
    import torch

    if runs(None):
        return None
    guesses = list(guessed_calls(code, causal, context))
    if not guesses and not context:  # such as forward(x, y=None), which raises without y
        others = [f", {each.name}=x" for each in named_parameters(code)[1:] if TENSOR.fullmatch(each.name)]
        guesses = [f"lambda m, x: m(x{''.join(others)})"] if others else []
    calls = {text: eval(text, {"torch": torch}) for text in guesses}
    running = [text for text in guesses if runs(calls[text])]
    for text in running if causal and not context else ():
        moves = moved(calls[text])
        if moves and (moves[0] < 1e-9 or max(moves[:-1]) < 1e-9 < moves[-1]):  # hidden, if only from the first token
            return text
    return next(iter(running), None)


def part_to_take(code: Any, call: Callable[..., Any], *inputs: Any) -> str:
    """Return the index that selects the output among the results of a call, such as "[0]"; "" for a single result.

    A call that fails has no result: the examination says why.
    """
    import torch
    from torch import nn

    from course_lib import calling
    from course_lib.diagnosis import copy_of
    from course_lib.tracing import without_gradients

    try:
        run = copy_of(code).eval() if isinstance(code, nn.Module) else code
        with torch.random.fork_rng(devices=[]), without_gradients():
            output = call(run, *inputs)
    except Exception:
        return ""
    return calling.part_to_take(output)


def named_parameters(code: Any) -> list[inspect.Parameter]:
    """Return the parameters of code except *args and **kwargs; [] where they are unknown."""
    from course_lib.calling import parameters_of

    return [each for each in parameters_of(code) if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
