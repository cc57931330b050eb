"""The wrapper's weights in the weight-split module."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention, MultiHeadAttentionWrapper
from course_lib.attention.convert import wrapper_to_split

from ..functions import FunctionJudge, Wrong

ROLES = ("q_proj", "k_proj", "v_proj")


def _wrapper(d_in: int, d_out: int, num_heads: int) -> MultiHeadAttentionWrapper:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(num_heads)
        return MultiHeadAttentionWrapper(d_in, d_out, num_heads)


def _changed(change: Callable[[dict[str, Tensor], MultiHeadAttentionWrapper], None]) -> Callable:
    """A conversion that goes wrong: the right one, with its weights changed afterwards."""

    def convert(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
        split = wrapper_to_split(wrapper)
        with torch.no_grad():
            change(dict(split.named_parameters()), wrapper)
        return split

    return convert


def _restack(stack: Callable[[list[Tensor]], Tensor]) -> Callable:
    """Stack the heads' matrices, each (head_dim, d_in), in another way."""

    def change(to: dict[str, Tensor], wrapper: MultiHeadAttentionWrapper) -> None:
        for role in ROLES:
            to[f"{role}.weight"].copy_(stack([getattr(head, role).weight for head in wrapper.heads]))

    return _changed(change)


def _give(target: str, source: str) -> Callable:
    return _changed(lambda to, wrapper: to[f"{target}.weight"].copy_(to[f"{source}.weight"]))


def _exchange(to: dict[str, Tensor], wrapper: MultiHeadAttentionWrapper) -> None:
    queries = to["q_proj.weight"].clone()
    to["q_proj.weight"].copy_(to["k_proj.weight"])
    to["k_proj.weight"].copy_(queries)


def _weights(result: nn.Module, wrapper: MultiHeadAttentionWrapper) -> tuple[Tensor, ...]:
    if not isinstance(result, MultiHeadAttention):
        raise TypeError(f"give back a MultiHeadAttention, not a {type(result).__name__}")
    return tuple(getattr(result, role).weight.detach() for role in (*ROLES, "out_proj"))


CONVERT = FunctionJudge(
    reference=wrapper_to_split,
    inputs=lambda: [(_wrapper(7, 12, 3),), (_wrapper(5, 8, 2),)],
    axes="q_proj.weight k_proj.weight v_proj.weight out_proj.weight",
    see=_weights,
    wrong=(
        Wrong(
            "a module whose heads' rows are interleaved: a head is a block of rows",
            _restack(lambda rows: torch.stack(rows, 1).flatten(0, 1)),
            hint="After `view(b, t, num_heads, head_dim)`, which columns, and so which rows of the matrix, are head 0?",
        ),
        Wrong(
            "a module all of whose heads are head 0",
            _restack(lambda rows: torch.cat(rows[:1] * len(rows))),
            "heads-share-weights",
        ),
        Wrong(
            "a module all of whose heads are the last one: each turn of the loop writes over the others",
            _restack(lambda rows: torch.cat(rows[-1:] * len(rows))),
            "heads-share-weights",
        ),
        Wrong("a module with its heads in reverse order", _restack(lambda rows: torch.cat(rows[::-1]))),
        Wrong(
            "a module whose heads are the mean of all",
            _restack(lambda rows: torch.cat([sum(rows) / len(rows)] * len(rows))),
            "heads-averaged",
        ),
        Wrong("a module whose keys were given the queries' weights", _give("k_proj", "q_proj"), "projection-reused"),
        Wrong("a module whose values were given the keys' weights", _give("v_proj", "k_proj"), "projection-reused"),
        Wrong("a module whose values were given the queries' weights", _give("v_proj", "q_proj"), "projection-reused"),
        Wrong("a module whose queries and keys are exchanged", _changed(_exchange), hint="Which role goes where?"),
        Wrong(
            "a module whose W^O is turned: both sides are as wide, so nothing fails",
            _changed(lambda to, wrapper: to["out_proj.weight"].copy_(wrapper.out_proj.weight.T)),
            hint="Both modules hold W^O as an `nn.Linear`. Does it need a transpose?",
        ),
    ),
)
