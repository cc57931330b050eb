"""The mistakes that concern heads, kv heads and the output projection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from course_lib.wording import counted

from .attention_steps import RIGHT, KnownMistake, masked
from .sizes import Sizes


def of_head_counts(sizes: Sizes) -> Iterator[KnownMistake]:
    """Yield attention with another number of heads than the class was constructed with."""
    width = sizes.projected[0]
    for heads in range(1, width + 1):
        if sizes.num_kv_heads == sizes.num_heads != heads and width % heads == 0:
            yield KnownMistake(
                f"attention with {counted(heads, 'head')}; the class was built with num_heads={sizes.num_heads}",
                replace(RIGHT, split=_into(heads), scale=_root_of(width // heads)),
                (),
                "Where does the number of heads come from in your code?",
            )


def _into(heads: int) -> Callable[[Tensor, int], Tensor]:
    return lambda x, _: x.unflatten(2, (heads, -1)).transpose(1, 2)


def _root_of(width: int) -> Callable[[Sizes, int], float]:
    return lambda sizes, num_tokens: width**-0.5


def of_heads() -> Iterator[KnownMistake]:
    """Yield attention whose heads are cut, put back or joined wrongly, or all compute the same."""
    yield from _of_splits()
    yield from _of_merges()
    yield from _of_equal_heads()


def _of_splits() -> Iterator[KnownMistake]:
    def view(x: Tensor, heads: int) -> Tensor:
        return x.reshape(len(x), heads, x.shape[1], -1)

    def interleaved(x: Tensor, heads: int) -> Tensor:
        return x.unflatten(2, (-1, heads)).permute(0, 3, 1, 2)

    def reshape(context: Tensor) -> Tensor:
        return context.reshape(len(context), context.shape[2], -1)

    split = replace(RIGHT, split=view)
    which = "Head 0 reads which columns of the projection: the first head_dim, or every num_heads-th?"
    yield KnownMistake("heads cut by a view alone", split, ("split-without-transpose",))
    yield KnownMistake(
        "heads cut by a view alone, and put back so", replace(split, merge=reshape), ("split-without-transpose",)
    )
    exchanged = "heads cut by a view in which num_heads and head_dim are exchanged"
    yield KnownMistake(
        exchanged, replace(RIGHT, split=lambda x, heads: _into(x.shape[2] // heads)(x, heads)), (), which
    )
    yield KnownMistake("heads put back by a reshape alone", replace(RIGHT, merge=reshape), ("merge-without-transpose",))
    yield KnownMistake("heads that hold every num_heads-th column", replace(RIGHT, split=interleaved), (), which)
    yield KnownMistake(
        "heads that hold every num_heads-th column, and are put back so",
        replace(RIGHT, split=interleaved, merge=lambda context: context.permute(0, 2, 3, 1).flatten(2)),
        (),
        which,
    )


def _of_merges() -> Iterator[KnownMistake]:
    yield KnownMistake(
        "heads whose elements are put back in turn",
        replace(RIGHT, merge=lambda context: context.permute(0, 2, 3, 1).flatten(2)),
        ("merge-without-transpose",),
        "In which order do head and head_dim stand before you join them?",
    )
    for equals, merge in (
        (
            "heads put back after heads and head_dim changed places",
            lambda c: c.transpose(1, 3).reshape(len(c), c.shape[2], -1),
        ),
        ("heads put back by a reshape to (batch, d_out, token)", lambda c: c.reshape(len(c), -1, c.shape[2]).mT),
    ):
        where = "Which two axes have to be neighbours before a reshape joins them?"
        yield KnownMistake(equals, replace(RIGHT, merge=merge), (), where)
    for shift, first in ((1, "last"), (-1, "second")):
        yield KnownMistake(
            f"heads joined in another order, in which the {first} one comes first",
            replace(RIGHT, merge=lambda context, shift=shift: RIGHT.merge(context.roll(shift, 1))),
            (),
            "In which order does the output projection expect the heads?",
        )
    yield KnownMistake(
        "heads in reverse order",
        replace(RIGHT, merge=lambda context: RIGHT.merge(context.flip(1))),
        (),
        "Which head comes first?",
    )


def _of_equal_heads() -> Iterator[KnownMistake]:
    yield KnownMistake(
        "heads that all use the weights of head 0",
        replace(RIGHT, weigh=lambda s, k: masked(s, k)[:, :1].expand_as(s)),
        ("heads-share-scores",),
    )
    yield KnownMistake(
        "heads that all use the mean of the scores",
        replace(RIGHT, weigh=lambda s, k: masked(s.mean(1, keepdim=True), k).expand_as(s)),
        ("heads-share-scores",),
    )
    for what, reduce in (("mean", Tensor.mean), ("sum", Tensor.sum)):
        yield KnownMistake(
            f"the {what} of the heads in the place of every head",
            replace(RIGHT, merge=_in_place_of_every_head(reduce)),
            ("heads-averaged",),
        )
    yield KnownMistake(
        "the output of head 0 in the place of every head",
        replace(RIGHT, merge=lambda context: RIGHT.merge(context[:, :1].expand_as(context))),
        ("heads-share-weights",),
        "Which head does each turn of your loop, or each part of your result, come from?",
    )


def _in_place_of_every_head(reduce: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda context: RIGHT.merge(reduce(context, 1, keepdim=True).expand_as(context))


def of_kv_heads() -> Iterator[KnownMistake]:
    def shared(equals: str, mistake: str | None, share: Callable[[Tensor, int], Tensor]) -> KnownMistake:
        hint = None if mistake else "Query head i reads kv head i // (num_heads // num_kv_heads). Does yours?"
        return KnownMistake(equals, replace(RIGHT, share=share), (mistake,) if mistake else (), hint)

    yield shared("kv heads in the order 0, 1, 0, 1", "kv-heads-tiled", lambda x, group: x.repeat(1, group, 1, 1))
    yield shared(
        "kv head 0 for every query head",
        "kv-head-zero-only",
        lambda x, group: x[:, :1].expand(-1, group * x.shape[1], -1, -1),
    )
    yield shared("the kv heads in reverse order", None, lambda x, group: x.flip(1).repeat_interleave(group, 1))
    yield shared(
        "the mean of the kv heads for every query head",
        None,
        lambda x, group: x.mean(1, keepdim=True).expand(-1, group * x.shape[1], -1, -1),
    )


def of_output() -> Iterator[KnownMistake]:
    yield KnownMistake(
        "the heads side by side, without W^O",
        replace(RIGHT, project=lambda merged, _: merged),
        ("output-projection-missing",),
    )
    yield KnownMistake(
        "the heads times W^O transposed",
        replace(RIGHT, project=lambda merged, out: merged @ (torch.eye(merged.shape[-1]) if out is None else out.mT)),
        (),
        "`nn.Linear` keeps its matrix as (out, in). Which way round does your product use it?",
    )
