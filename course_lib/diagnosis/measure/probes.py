"""Measure any attention code from outside, by its inputs and outputs alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.tracing import SourceLine

from .subject import Subject, SubjectFailed

CHANGE = 3.0  # added to a token to see which outputs change


def influence(subject: Subject, x: Tensor, *, axis: int = 1) -> Tensor:
    """Measure how much each token's output changes with each token of the input, or each sample's with each sample.

    For causal attention, all elements above the diagonal of tokens are zero. Each mistake with masks shows its own
    pattern, as do heads that were split or merged in the wrong order. Off the diagonal of samples, all are zero.

    Args:
        subject: what to run.
        x: (batch, token, d_in), float64.
        axis: 1 for tokens, 0 for samples.

    Returns:
        (token of the output, token of the input), or the same for samples: the largest change of any element.

    Raises:
        SubjectFailed: it can't be run, or does not return a row per token.
    """
    before = subject.run(x)
    if before.dim() != 3 or before.shape[:2] != x.shape[:2]:
        raise SubjectFailed(
            f"its output has the shape {tuple(before.shape)} for an input of {tuple(x.shape)}: there is no row for "
            "each token"
        )
    columns = []
    for index in range(x.shape[axis]):
        changed = x.clone()
        changed.select(axis, index).add_(CHANGE)
        moves = (subject.run(changed) - before).abs().nan_to_num(nan=torch.inf)
        columns.append(moves.amax(dim=(1 - axis, 2)))
    return torch.stack(columns, dim=1)


class SizeFailure(NamedTuple):
    """What happened at a size that the code can't take, and the line that raised an error, if any."""

    evidence: str
    line: SourceLine | None


def other_sizes(
    subject: Subject, x: Tensor, lengths: Sequence[int] = (), num_context: int = 0
) -> dict[str, SizeFailure]:
    """Find which other numbers of tokens and samples the code can't take, given x, (batch, token, d_in), that it can.

    Of tokens, only the numbers in `lengths` are tried; without any, one more and one fewer, and if both fail, all
    others from 2 to twice as many: code that takes one of them takes multiples of a number, or rows of a grid. The last
    `num_context` tokens are a context, and are never fewer.

    Returns:
        "tokens" and "samples" -> what happened at the first size that failed; empty if all sizes work. A maximum
        length does not count.
    """
    num_tokens = x.shape[1]
    longer, more = torch.cat([x, x.flip(1)], dim=1), torch.cat([x, x.flip(0)])
    failed = {}
    for length in lengths:
        many = x.repeat(1, -(-length // num_tokens), 1)[:, :length]
        if (happened := _failure(subject, many)) is not None:
            failed["tokens"] = happened
    if lengths:
        return failed | _other_samples(subject, x, more)
    fewer = _failure(subject, longer[:, : num_tokens - 1])
    one_more = _failure(subject, longer[:, : num_tokens + 1])
    # A maximum length may be reached; code that takes shorter inputs has not fixed its length.
    if fewer is not None and one_more is not None and _takes_any_other(subject, longer, num_context + 2):
        fewer = one_more = None
    if fewer is not None:
        failed["tokens"] = fewer
    elif one_more is not None and one_more.line is None:
        failed["tokens"] = one_more
    return failed | _other_samples(subject, x, more)


def _takes_any_other(subject: Subject, longer: Tensor, fewest: int) -> bool:
    """Return whether code takes another number of tokens than about half of those in `longer`; one may be broadcast."""
    count = longer.shape[1]
    others = (number for number in range(count, fewest - 1, -1) if abs(number - count // 2) > 1)
    return any(_failure(subject, longer[:, :number]) is None for number in others)


def _other_samples(subject: Subject, x: Tensor, more: Tensor) -> dict[str, SizeFailure]:
    happened = _failure(subject, x[:1]) or _failure(subject, more[: len(x) + 1])
    return {} if happened is None else {"samples": happened}


def _failure(subject: Subject, x: Tensor) -> SizeFailure | None:
    try:
        output = subject.run(x)
    except SubjectFailed as failure:
        return SizeFailure(f"with an input of {tuple(x.shape)}: {failure}", failure.line)
    if output.shape[: x.dim() - 1] == x.shape[:-1]:
        return None
    return SizeFailure(f"with an input of {tuple(x.shape)}: its output has the shape {tuple(output.shape)}", None)
