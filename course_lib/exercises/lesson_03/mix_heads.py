"""What W^O does."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def mix_heads(contexts, w_o):
    # list of (b, token, head_dim), (d_out, num_heads * head_dim) -> (b, token, d_out)
    joined = torch.cat(contexts, dim=-1)  # num_heads x (b, t, d) -> (b, t, h * d)
    return joined @ w_o.T


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for square, (batch, num_tokens, heads, head_dim) in enumerate(
        [*rng.size_rows(3, 4, 2, 7), (2, 3, 1, 4), (1, 1, 3, 1)]
    ):
        contexts = [rng.normal(batch, num_tokens, head_dim) for _ in range(heads)]
        width = heads * head_dim
        cases.append(Case((contexts, rng.normal(width if square == 0 else width + 1 + rng.integer(5), width))))
    return cases


EXERCISE = FunctionExercise(
    mix_heads,
    title="What W^O does",
    difficulty=2,
    minutes=5,
    prompt=(
        "You get the contexts of the heads as a list, and W^O as `nn.Linear` keeps it: (width out, width in). Put the "
        "heads side by side, the first one first, and apply the output projection to each token's row, as `nn.Linear` "
        "without bias would."
    ),
    hints=(
        "There are two ways to write it: join first, or project each head and add.",
        "`nn.Linear` keeps its matrix as (out, in) and computes `x @ weight.T`.",
        "Joined: `torch.cat(contexts, dim=-1) @ w_o.T`. Added: the first head_dim columns of `w_o` are head 0's.",
    ),
    draw=_draw,
    arguments={"contexts": "batch token head_dim", "w_o": "d_out num_heads*head_dim"},
    axes="batch token d_out",
    gradients=("contexts", "w_o"),
    wrong=(
        Wrong("the heads side by side, without W^O", lambda c, w: torch.cat(c, -1), "output-projection-missing"),
        Wrong(
            "the heads side by side, multiplied by `w_o` as it stands",
            lambda c, w: torch.cat(c, -1) @ w,
            hint="`w_o` is (width out, width in). Which of the two should meet the width of the heads?",
        ),
        Wrong(
            "the heads in reverse order, mixed", lambda c, w: mix_heads(c[::-1], w), hint="Whose are the first columns?"
        ),
        Wrong(
            "the first head alone, mixed",
            lambda c, w: c[0] @ w[:, : c[0].shape[-1]].T,
            hint="How many heads reach the output?",
        ),
        Wrong(
            "the last head alone, mixed: each turn of the loop replaces what was there",
            lambda c, w: c[-1] @ w[:, -c[0].shape[-1] :].T,
            hint="In the loop, is the next head added or put in place of the others?",
        ),
        Wrong(
            "the mean of what the heads give; it should be their sum",
            lambda c, w: mix_heads(c, w) / len(c),
            "heads-averaged",
            "By what is a sum divided to become a mean, and does the task ask for one?",
        ),
        Wrong(
            "every head mixed by the columns of head 0",
            lambda c, w: sum(context @ w[:, : context.shape[-1]].T for context in c),
            "heads-share-weights",
            "Which columns of `w_o` belong to head 1?",
        ),
        Wrong(
            "elements of the heads taken in turn; a head's elements should stay together",
            lambda c, w: torch.stack(c, -1).flatten(-2) @ w.T,
            hint="Where should element 1 of head 0 stand in a row?",
        ),
        Wrong(
            "the heads one below the other, cut into rows anew and mixed: a row holds several tokens of one head",
            lambda c, w: torch.stack(c).reshape(*c[0].shape[:2], -1) @ w.T,
            "merge-without-transpose",
        ),
        Wrong(
            "the heads beside the batch, cut into rows anew and mixed: a row holds several tokens of one head",
            lambda c, w: torch.stack(c, 1).reshape(*c[0].shape[:2], -1) @ w.T,
            "merge-without-transpose",
        ),
        Wrong("the heads one below the other in the batch", lambda c, w: torch.cat(c)),
    ),
)
