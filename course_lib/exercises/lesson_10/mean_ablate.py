"""Put a head's mean in its place."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .ablate_head import LAYER


def mean_ablate(contexts, w_o, head):
    # (batch, head, token, d), (d_out, head * d), int -> (batch, token, d_out)
    kept = contexts.clone()
    # (b, t, d) -> (d), the same for every token
    kept[:, head] = contexts[:, head].mean(dim=(0, 1))
    merged = kept.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h * d)
    return merged @ w_o.T


def with_means(rng: InputGenerator, batch: int, num_heads: int, token: int, head_dim: int) -> Tensor:
    """Draw what heads found, with a mean other than 0."""
    return rng.normal(batch, num_heads, token, head_dim) + rng.normal(num_heads, 1, head_dim)


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
    inputs={**LAYER, "contexts": with_means},
    also=({"head": 0}, {"head": lambda num_heads: num_heads - 1}),
    least={"head": 0},
    arguments={"contexts": "batch head token head_dim", "w_o": "d_out head*head_dim"},
    axes="batch token d_out",
    wrong="""
kept[:, head] = contexts[:, head].mean(dim=(0, 1)) => pass
    the output with all heads: nothing was replaced
    ? Where does the number of the head enter?
contexts[:, head].mean(dim=(0, 1)) => 0.0
    the output with zeros in the head's place: that is zero ablation
    ? What does the head give on average?
(0, 1) => 0
    the output with a mean over the samples only: each token still has a vector of its own
    ? Does your mean still know the place of a token?
dim=(0, 1) => dim=1, keepdim=True
    the output with a mean over the tokens only: each sample still has a vector of its own
    ? Does your mean still know the sample?
contexts[:, head].mean(dim=(0, 1)) => contexts[:, head].mean()
    the output with one number in the head's place: its mean over head_dim, too
    ? How many numbers has the mean of vectors?
contexts[:, head].mean(dim=(0, 1)) => contexts.mean(dim=1)
    the output with the mean of all heads in the head's place
    ? Over which axes is the mean taken?
contexts[:, head].mean(dim=(0, 1)) => contexts.mean(dim=(0, 1, 2))
    the output with the mean of all heads, samples and tokens in the head's place
    ? Whose mean is it?
contexts.mean((0, 2), keepdim=True).expand_as(contexts).transpose(1, 2).flatten(2) @ w_o.T
    the output with the mean in all heads
    ? Which heads keep what they found?
right(contexts, w_o, (head + 1) % contexts.shape[1])
    the output with the next head's mean in its place
    ? From what number are the heads counted?
""",
)
