"""A row that may look at nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def safe_weights(scores, keep):
    # (batch, query, key), (batch, query, key) bool -> (batch, query, key)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~keep, lowest).softmax(dim=-1)
    return weights.masked_fill(~keep, 0.0)


def _with_hidden_row(rng: InputGenerator, keep: Tensor) -> Tensor:
    keep = keep > 0
    keep[:, rng.integer(keep.shape[1])] = False
    return keep


def _padded(rng: InputGenerator, batch: int, query: int) -> Tensor:
    """Return a causal mask per sample, without padding on the left, whose rows attend to nothing."""
    seen = torch.arange(query) >= rng.integers(query, batch, 1)
    return torch.ones(query, query).tril().bool() & seen[:, None]


EXERCISE = FunctionExercise(
    safe_weights,
    title="A row that may look at nothing",
    difficulty=3,
    minutes=8,
    prompt=(
        "With padding on the left, some rows may look at nothing at all. Give such a row weights of 0 instead of "
        "nan; the other rows get what softmax gives them under the mask. As in the exercise on the future, some "
        "inputs have very large scores, hidden or visible, or scores near -30000."
    ),
    hints=(
        "With minus infinity in the whole row, softmax divides 0 by 0. Rows without a choice should be zeros.",
        "Fill with a very low finite number: no nan any more. But what do these rows hold now?",
        "After softmax, set every hidden weight to 0. In all other rows that changes nothing.",
    ),
    inputs={"keep": _with_hidden_row},
    std=2.0,
    special={
        "padding is on the left": {"key": "query", "keep": _padded},
        "all scores are about -30000": {"scores": lambda scores: scores - 30000.0},
        "the hidden scores are about 800, the others about 0": {"scores": lambda scores, keep: scores + 800.0 * ~keep},
        "the visible scores are about 800": {"scores": lambda scores, keep: scores + 800.0 * keep},
        "the hidden scores are about 1e12, the others about 0": {"scores": lambda scores, keep: scores + 1e12 * ~keep},
    },
    draw_edges=({"batch": 16, "query": 18, "key": 18, "keep": lambda keep: (keep > 0).tril(-1)},),
    arguments={"scores": "batch query key", "keep": "batch query key"},
    axes="batch query key",
    gradients=("scores",),
    wrong="""
scores.masked_fill(~keep, -torch.inf).softmax(-1)
    weights that are nan where a token may look at nothing [nan-on-hidden-rows]
weights.masked_fill(~keep, 0.0) => weights
    weights that are shared out evenly where a token may look at nothing: hidden tokens get some
    ? In a row where every score is the lowest number there is, what does softmax give?
(scores - 1000000000.0 * ~keep).softmax(-1) * keep
    weights of scores to which -1e9 was added where they are hidden: the score itself is still in them
    ? What is left of a hidden score that was 1e12?
scores.softmax(-1) * keep
    weights that were masked after softmax [mask-after-softmax]
(scores * keep).softmax(-1)
    softmax of scores whose hidden ones are 0 [mask-with-zero]
(scores * keep).softmax(-1) * keep
    softmax of scores whose hidden ones are 0, zeroed afterwards [mask-with-zero]
right(scores, ~keep)
    weights of the hidden tokens only [mask-inverted]
exponentials = (scores - scores.amax(-1, keepdim=True)).exp() * keep; return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-30)
    weights in which hidden scores still count, in softmax or in the largest score: where these are 800, nothing is
        left of the others
    ? If a hidden score is 800 above the others, does your code meet it before it is zeroed?
scores.exp() * keep / (scores.exp() * keep).sum(-1, keepdim=True).clamp(min=1e-300)
    exp of the visible scores divided by their sum, without a guard: exp(800) is infinite
    ? Which number may be taken from all scores of a row without a change of its weights?
torch.where(keep, scores, -20.0).softmax(-1) * keep
    weights under a fill value that is not below all scores here, zeroed afterwards
    ? Which number is below every score, however low?
scores.softmax(-1)
    softmax without the mask [mask-discarded]
torch.where(keep.any(-1, keepdim=True), result, torch.eye(scores.shape[-1], dtype=scores.dtype)[0])
    weights whose rows that see nothing look at the first token
""",
)
