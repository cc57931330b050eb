"""The mask of a padded batch: causal, and no padding among the keys."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise


def batch_keep(real):
    # bool, (batch, token) -> bool, True = may attend, (batch, 1, query, key)
    num_tokens = real.shape[1]
    causal = torch.ones(num_tokens, num_tokens, device=real.device).tril().bool()
    return causal & real[:, None, None]  # (q, k) & (b, 1, 1, k) -> (b, 1, q, k)


def _extract(result: Tensor, real: Tensor) -> Tensor:
    """Compare the rows of real words."""
    right = batch_keep(real)
    if result.shape != right.shape or result.dtype != torch.bool:
        return result
    return torch.where(real[:, None, :, None], result, right)


EXERCISE = FunctionExercise(
    batch_keep,
    title="The mask of a padded batch",
    difficulty=2,
    minutes=3,
    prompt=(
        "`real` is True where a batch holds a real word, (batch, token). Return the mask of the batch, bool, True = may "
        "attend, (batch, 1, query, key): a real word sees itself and the real words before it. What the padding itself "
        "sees is up to you."
    ),
    hints=(
        "Padding is hidden as a *key*: `real` belongs to the last axis of the mask.",
        "`real[:, None, None]` is (batch, 1, 1, key), and `&` joins it with a causal table of (query, key).",
        "`torch.ones(n, n, device=real.device).tril().bool() & real[:, None, None]`.",
    ),
    inputs={"real": lambda rng, batch, token: rng.normal(batch, token) > -0.3},
    calls=3,
    arguments={"real": "batch token"},
    axes="batch head query key",
    extract=_extract,
    wrong="""
real[:, None, None].expand(-1, 1, real.shape[1], -1)
    the padding mask alone: each word also sees what comes after it [no-causal-mask]
    ? Which of the two masks hides what comes later?
torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril().expand(len(real), 1, -1, -1)
    the causal mask alone, at every real word: padding is seen
    ? Where does your code use `real`: as a query, or as a key?
causal & => causal |
    a mask that keeps what one of the two allows
    ? May a word attend where only one of the masks allows it?
.tril( => .triu(
    a mask that shows the future [mask-inverted]
    ? Which words come before word 3?
~result
    the opposite mask, in which True means hidden [mask-inverted]
    ? What does True mean in `keep`?
.tril() => .tril(-1)
    a mask in which a word doesn't see itself [mask-off-by-one]
    ? May a word attend to itself?
result[:, 0]
    the right mask without the axis of heads: with as many samples as heads it meets the wrong axis [mask-rank]
    ? Which axis of the scores would the samples meet?
""",
)
