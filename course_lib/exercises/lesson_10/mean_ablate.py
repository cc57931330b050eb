"""Put a head's mean in its place."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def mean_ablate(contexts, w_o, head):
    # (batch, head, token, d), (d_out, head * d), int -> (batch, token, d_out)
    kept = contexts.clone()
    # (b, t, d) -> (d), the same for every token
    kept[:, head] = contexts[:, head].mean(dim=(0, 1))
    merged = kept.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h * d)
    return merged @ w_o.T


def output_with(contexts: Tensor, w_o: Tensor, head: int, found: Tensor | float) -> Tensor:
    """Return a layer's output with something else in the place of one head's context."""
    kept = contexts.clone()
    kept[:, head] = found
    return kept.transpose(1, 2).flatten(2) @ w_o.T


def _scrambled(contexts: Tensor, w_o: Tensor, head: int) -> Tensor:
    kept = contexts.clone()
    kept[:, head] = contexts[:, head].mean(dim=(0, 1))
    return kept.reshape(len(contexts), contexts.shape[2], -1) @ w_o.T


def draw_contexts(rng: InputGenerator) -> list[tuple[Tensor, Tensor, int]]:
    """Draw what heads found, with a mean other than 0, the weight of `out_proj`, and the number of a head."""
    drawn = []
    for batch, heads, tokens, width in rng.size_rows(3, 4, 2, 7):
        contexts = rng.normal(batch, heads, tokens, width) + rng.normal(heads, 1, width)
        w_o = rng.normal(heads * width + 1 + rng.integer(3), heads * width, std=width**-0.5)
        drawn.append((contexts, w_o, 1 + rng.integer(heads - 1)))
    contexts, w_o, _ = drawn[0]
    return [*drawn, (contexts, w_o, 0), (contexts, w_o, contexts.shape[1] - 1)]


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case(arguments) for arguments in draw_contexts(rng)]


EXERCISE = FunctionExercise(
    mean_ablate,
    title="Put a head's mean in its place",
    difficulty=2,
    minutes=5,
    prompt=(
        "Zeros may be something that the next layer has never met. Mean ablation puts an average in the head's place: "
        "its own context, averaged over all samples and all tokens, so that every token gets the same vector. "
        "`contexts` (batch, head, token, head_dim) and `w_o` (d_out, head * head_dim) are as in the exercise before. "
        "Give back the layer's output, (batch, token, d_out), and leave `contexts` as it is."
    ),
    hints=(
        "`contexts[:, head]` is what the head found, (batch, token, head_dim). Which of its axes does the mean remove?",
        "The mean over the first two axes is one vector of head_dim numbers. Write it into a copy of `contexts`.",
        "`kept = contexts.clone()`, `kept[:, head] = contexts[:, head].mean(dim=(0, 1))`, then merge the heads and "
        "multiply by `w_o.T`.",
    ),
    draw=_draw,
    least={"head": 0},
    arguments={"contexts": "batch head token head_dim", "w_o": "d_out head*head_dim"},
    axes="batch token d_out",
    wrong=(
        Wrong(
            "the output with all heads: nothing was replaced",
            lambda c, w, h: output_with(c, w, h, c[:, h]),
            hint="Where does the number of the head enter?",
        ),
        Wrong(
            "the output with zeros in the head's place: that is zero ablation",
            lambda c, w, h: output_with(c, w, h, 0.0),
            hint="What does the head give on average?",
        ),
        Wrong(
            "the output with a mean over the samples only: each token still has a vector of its own",
            lambda c, w, h: output_with(c, w, h, c[:, h].mean(0)),
            hint="Does your mean still know the place of a token?",
        ),
        Wrong(
            "the output with a mean over the tokens only: each sample still has a vector of its own",
            lambda c, w, h: output_with(c, w, h, c[:, h].mean(1, keepdim=True)),
            hint="Does your mean still know the sample?",
        ),
        Wrong(
            "the output with one number in the head's place: its mean over head_dim, too",
            lambda c, w, h: output_with(c, w, h, c[:, h].mean()),
            hint="How many numbers has the mean of vectors?",
        ),
        Wrong(
            "the output with the mean of all heads in the head's place",
            lambda c, w, h: output_with(c, w, h, c.mean(1)),
            hint="Over which axes is the mean taken?",
        ),
        Wrong(
            "the output with the mean of all heads, samples and tokens in the head's place",
            lambda c, w, h: output_with(c, w, h, c.mean((0, 1, 2))),
            hint="Whose mean is it?",
        ),
        Wrong(
            "the output with the mean in all heads",
            lambda c, w, h: c.mean((0, 2), keepdim=True).expand_as(c).transpose(1, 2).flatten(2) @ w.T,
            hint="Which heads keep what they found?",
        ),
        Wrong(
            "the output with the next head's mean in its place",
            lambda c, w, h: mean_ablate(c, w, (h + 1) % c.shape[1]),
            hint="From what number are the heads counted?",
        ),
        Wrong("heads that are merged by a reshape alone", _scrambled, "merge-without-transpose"),
    ),
)
