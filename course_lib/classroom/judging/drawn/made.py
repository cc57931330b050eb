"""What can't be sent as numbers: an input that is code is sent as source, a module comes back as its weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention, MultiHeadAttentionWrapper
from course_lib.classroom.sandbox.inside.wire import Made, Parts
from course_lib.exercises.running import copied

ROLES = ("q_proj", "k_proj", "v_proj", "out_proj")


def built(inputs: Iterable[tuple]) -> list[tuple]:
    """The arguments of each call, with everything built that is `Made`, without a trace in PyTorch's random stream.

    The grader builds it for the reference, the sandbox builds it again for the student; so both have the same one.
    """
    with torch.random.fork_rng(devices=[]):
        return [
            tuple(
                replace(one, arguments=copied(one.arguments)).build() if isinstance(one, Made) else one for one in given
            )
            for given in inputs
        ]


def as_split(result: Any, wrapper: MultiHeadAttentionWrapper) -> Any:
    """Turn what came back for `to_split` into what its judge compares.

    Args:
        result: what the sandbox sent, Parts or plain data.
        wrapper: the input of that call.

    Returns:
        A MultiHeadAttention that holds the weights, of whatever shape they are; or, where it is none or a projection is
        missing, an object whose class is named after what it is; or plain data as it came.
    """
    if not isinstance(result, Parts):
        return result
    weights = {role: result.state.get(f"{role}.weight") for role in ROLES}
    missing = [role for role, weight in weights.items() if not isinstance(weight, Tensor)]
    if result.kind != MultiHeadAttention.__name__ or missing:
        kind = "".join(letter for letter in result.kind if letter.isprintable())[:60] or "module"
        without = f" without `{missing[0]}.weight`" if result.kind == MultiHeadAttention.__name__ else ""
        return type(kind + without, (), {})()
    heads = wrapper.num_heads
    with torch.random.fork_rng(devices=[]):
        split = MultiHeadAttention(wrapper.heads[0].q_proj.in_features, heads * wrapper.head_dim, heads)
    for role, weight in weights.items():
        getattr(split, role).weight = nn.Parameter(weight, requires_grad=False)
    return split
