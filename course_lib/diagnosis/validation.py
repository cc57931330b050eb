"""Check the arguments of `diagnose`, with one sentence for each problem."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .finding import error_message
from .measure.options import MOST_TOKENS
from .measure.subject import Subject, SubjectFailed
from .measure.widening import widened


def check_arguments(
    code: Any, x: Any, causal: Any, num_heads: Any, num_kv_heads: Any, keep: Any, call: Any, context: Any = None
) -> None:
    """Refuse arguments that can't be examined, before any code runs.

    Raises:
        TypeError, ValueError: as `diagnose`.
    """
    if not callable(code):
        raise TypeError(f"module_or_function must be a module or a function, got {type(code).__name__}.")
    if not isinstance(x, Tensor) or not (x.is_floating_point() or takes_ids(code, x)):
        raise not_embeddings(code, x)
    if x.dim() not in ((2, 3) if x.is_floating_point() else (2,)) or x.numel() == 0:
        raise ValueError(f"x must be (batch, token, d_in) or (token, d_in), got the shape {tuple(x.shape)}.")
    if not isinstance(causal, bool):
        raise TypeError(f"causal must be True or False, got {causal!r}.")
    _check_counts(num_heads=num_heads, num_kv_heads=num_kv_heads)
    if context is not None:
        _check_context(context, x)
    if keep is not None:
        _check_keep(keep, x, num_heads, of_context=context is not None)
    if call is not None and not callable(call):
        raise TypeError(f"call must be a function of (code, x), got {type(call).__name__}.")


def check_intentions(scale: Any, window: Any, lengths: Any, normalised: Any, x: Tensor) -> tuple[int, ...]:
    """Return `lengths` as a tuple, empty without any, and refuse what says nothing about attention.

    Raises:
        TypeError, ValueError: as `diagnose`.
    """
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, (int, float)) or not scale > 0):
        raise ValueError(f"scale must be a number above 0, or None for head_dim ** -0.5, got {scale!r}.")
    if window is not None and not _is_count(window):
        raise ValueError(f"window must be an integer of at least 1, the query's own token included, got {window!r}.")
    if not isinstance(normalised, bool):
        raise TypeError(f"normalised must be True or False, got {normalised!r}.")
    if lengths is None:
        return ()
    found = tuple(lengths) if isinstance(lengths, Iterable) and not isinstance(lengths, (str, Tensor)) else ()
    if not found or not all(map(_is_count, found)):
        raise ValueError(f"lengths must be numbers of tokens that the code takes, such as [4, 16], got {lengths!r}.")
    num_tokens = x.shape[-2] if x.is_floating_point() else x.shape[-1]
    if num_tokens not in found:
        raise ValueError(f"x has {num_tokens} tokens, which is not one of lengths={[*found]}: give such an x.")
    return found


def check_size(subject: Subject, x: Tensor, *, fixed: bool, has_grid: bool = False) -> None:
    """Refuse more tokens than can be traced, if they can't be cut to fewer; `has_grid` says that they had axes.

    Code that does not run on them is no matter of their number.

    Raises:
        ValueError: as `diagnose`.
    """
    if not fixed or x.shape[1] <= MOST_TOKENS:
        return
    try:
        subject.run(x.to(subject.dtype(x)), subject.copy(subject.dtype(x)))
    except SubjectFailed as error:
        if error.__cause__ is not None:
            where = "" if error.line is None else f" in {error.line}"
            raise ValueError(f"the code can't be run on x{where}: {error}") from error
    if has_grid:
        try:
            with widened():
                subject.run(x.double())
        except SubjectFailed as error:
            where = "" if error.line is None else f" in {error.line}"
            raise ValueError(f"the code can't be run in float64{where}, as it is examined: {error}") from error
        raise ValueError(
            f"x has {x.shape[1]} tokens along its axes, and at most {MOST_TOKENS} can be traced, unless a layer makes "
            f"at most {MOST_TOKENS} tokens on which alone the output depends: give a smaller x, or larger patches."
        )
    raise ValueError(
        f"x has {x.shape[1]} tokens, with those of a context, and at most {MOST_TOKENS} can be traced where `keep`, "
        f"`lengths` or `context` allow no others: give it a smaller x."
    )


def check_expected(expect: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """Return a reference and how to run it, None for as the code, and refuse one that can't be run.

    Raises:
        TypeError: as `diagnose`.
    """
    reference, call = expect if isinstance(expect, tuple) and len(expect) == 2 else (expect, None)
    if reference is not None and (not callable(reference) or isinstance(reference, type)):
        got = f"the class {reference.__name__}" if isinstance(reference, type) else type(reference).__name__
        raise TypeError(f"expect must be a module or a function that computes what the code should, got {got}.")
    if call is not None and not callable(call):
        raise TypeError(f"expect=(reference, call) needs a function of (code, x) as call, got {type(call).__name__}.")
    return reference, call


def _check_counts(**numbers: Any) -> None:
    for name, number in numbers.items():
        if number is not None and not _is_count(number):
            raise ValueError(f"{name} must be an integer of at least 1, or None, got {number!r}.")


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _kind(value: Any) -> Any:
    return value.dtype if isinstance(value, Tensor) else type(value).__name__


def _check_context(context: Any, x: Tensor) -> None:
    if not isinstance(context, Tensor) or not context.is_floating_point():
        of_ids = isinstance(context, Tensor) and takes_ids(nn.Identity(), context)
        remedy = ": an encoder-decoder of ids is examined by `scan`, on the command line by `course scan`"
        remedy = f"{remedy}, or here with a `call` of (code, ids, context)" * of_ids
        raise TypeError(f"context must be a floating-point tensor (batch, token, width), got {_kind(context)}{remedy}.")
    if context.dim() != x.dim() or context.numel() == 0 or context.shape[:-2] != x.shape[:-2]:
        raise ValueError(
            f"context must have as many axes and samples as x, {tuple(x.shape)}, got the shape {tuple(context.shape)}."
        )


def are_beside(code: Any, x: Any, context: Any, call: Any) -> bool:
    """Return whether x is token ids, with a context that goes in beside them; one of ids needs a `call` to say where.

    Raises:
        ValueError: a context of another number of samples.
    """
    if not (isinstance(x, Tensor) and isinstance(context, Tensor) and x.dim() == 2 and takes_ids(code, x)):
        return False
    if call is None and not context.is_floating_point():
        return False
    if context.dim() < 2 or len(context) != len(x) or context.numel() == 0:
        shape = tuple(context.shape)
        raise ValueError(f"context must have as many samples as x, {tuple(x.shape)}, got the shape {shape}.")
    return True


def takes_ids(code: Any, x: Tensor) -> bool:
    """Return whether x may be token ids: one integer for each token, for a module, which may embed them."""
    return x.dtype in (torch.int64, torch.int32) and x.dim() <= 2 and isinstance(code, nn.Module)


def not_embeddings(code: Any, x: Any, failed: Exception | None = None) -> TypeError:
    """Return the error for an x that is no tensor of embeddings, or of ids that a model `failed` on too early."""
    reason = "."
    if failed is not None and any(isinstance(one, nn.Embedding) for one in code.modules()):
        reason = f", or mend this, which the model raises in float64 before it embeds the ids: {error_message(failed)}"
    elif isinstance(x, Tensor) and takes_ids(code, x):
        reason = "; ids need a module inside the model that makes a row of numbers for each."
    return TypeError(
        f"x must be a floating-point tensor (batch, token, d_in), got {_kind(x)}: give it embeddings{reason}"
    )


def check_words(words: Any, x: Tensor) -> tuple[str, ...]:
    """Return the labels of the tokens as text, one per token; empty without words.

    Raises:
        ValueError: as `diagnose`.
    """
    if words is None:
        return ()
    num_tokens = x.shape[-2] if x.is_floating_point() else x.shape[-1]
    if isinstance(words, str) or len(words) != num_tokens:
        raise ValueError(f"words must be one label for each of the {num_tokens} tokens of x, got {words!r}.")
    return tuple(map(str, words))


def _check_keep(keep: Any, x: Tensor, num_heads: int | None, *, of_context: bool) -> None:
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        raise TypeError(f"keep must be a bool tensor, True = may attend, got {_kind(keep)}.")
    if of_context:
        return  # its shape is checked where it is combined with the context's tokens
    if x.is_floating_point():
        batch, num_tokens = len(x) if x.dim() == 3 else 1, x.shape[-2]
    else:
        batch, num_tokens = x.shape
    heads = () if num_heads is None else (1, num_heads)
    wanted = ((1, batch), heads, (1, num_tokens), (1, num_tokens))[4 - keep.dim() :] if keep.dim() <= 4 else None
    fits = wanted is not None and all(not able or size in able for size, able in zip(keep.shape, wanted, strict=True))
    of_samples = keep.shape in ((batch, num_tokens), (batch, num_tokens, num_tokens))  # padding, or one mask per sample
    if not fits and not of_samples:
        raise ValueError(
            f"keep must broadcast to (batch, head, query, key) for {batch} samples of {num_tokens} tokens, got the "
            f"shape {tuple(keep.shape)}."
        )
