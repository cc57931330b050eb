"""Take a head away."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def ablate_head(contexts, w_o, head):
    # (batch, head, token, d), (d_out, head * d), int -> (batch, token, d_out)
    kept = contexts.clone()
    kept[:, head] = 0.0
    merged = kept.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h * d)
    return merged @ w_o.T


def with_means(rng: InputGenerator, batch: int, num_heads: int, token: int, head_dim: int) -> Tensor:
    """Draw what heads found, with a mean other than 0."""
    return rng.normal(batch, num_heads, token, head_dim) + rng.normal(num_heads, 1, head_dim)


LAYER = {
    "contexts": "batch num_heads token head_dim",
    "d_out": lambda num_heads, head_dim, more: num_heads * head_dim + more,
    "w_o": "d_out num_heads*head_dim",
    "head": lambda rng, num_heads: 1 + rng.integer(num_heads - 1),
}


EXERCISE = FunctionExercise(
    ablate_head,
    title="Take a head away",
    difficulty=2,
    minutes=4,
    prompt=(
        "`contexts` is what each head of a layer found, (batch, head, token, head_dim), and `w_o` is the weight of "
        "its `out_proj`, (d_out, head * head_dim), without bias. Give back the layer's output with nothing of head "
        "number `head` in it, (batch, token, d_out). The other heads give what they gave before. "
        "Leave `contexts` as it is."
    ),
    hints=(
        "The output is a sum of what each head gives. Which term has to go?",
        "Either the head's context becomes 0, or its columns of `w_o` do: head i owns the columns from i * head_dim to "
        "(i + 1) * head_dim - 1. Change a copy, not the argument.",
        "`kept = contexts.clone()`, then `kept[:, head] = 0`, then merge the heads as ever, "
        "`kept.transpose(1, 2).flatten(2)`, and multiply by `w_o.T`.",
    ),
    inputs=LAYER,
    also=({"head": 0}, {"head": lambda num_heads: num_heads - 1}),
    least={"head": 0},
    arguments={"contexts": "batch head token head_dim", "w_o": "d_out head*head_dim"},
    axes="batch token d_out",
    fixed="head",
    wrong="""
kept[:, head] = 0.0 => pass
    the output with all heads: nothing was taken away
    ? Where does the number of the head enter?
kept[:, head] = 0.0 => kept[:, :head] = kept[:, head + 1 :] = 0.0
    what the head gives to the output; it should be what is left without it
    ? Which heads are in your result?
kept[:, head] = 0.0 => w_o = w_o.clone(); w_o[head * kept.shape[-1] : (head + 1) * kept.shape[-1]] = 0.0
    an output without some rows of `w_o`: a head owns columns
    ? Which axis of `w_o` meets the heads: the one of d_out, or the other one?
kept[:, head] = 0.0 => w_o = w_o.clone(); w_o[:, head :: kept.shape[1]] = 0.0
    an output without columns of every head: those of one head stand side by side
    ? Which columns of `w_o` does head number `head` own, if head_dim is 3?
kept[:, head] = 0.0 => w_o = w_o.clone(); w_o[:, head] = 0.0
    an output without a single column: a head owns head_dim of them
    ? How many columns of `w_o` does a head own?
right(contexts, w_o, (head + 1) % contexts.shape[1])
    the output without the next head
    ? From what number are the heads counted?
0.0 => contexts.mean(1)
    the output with the mean of all heads in the head's place
    ? How much of the head is still in that mean?
result * contexts.shape[1] / (contexts.shape[1] - 1)
    an output that was made larger, as dropout does it: the other heads should give what they gave before
    ? By which number did you multiply at the end?
kept[:, head] = 0.0 => kept = torch.cat([kept[:, :head], kept[:, head + 1 :]], 1) && w_o.T => w_o[:, : merged.shape[-1]].T
    an output whose head was removed, so that the heads behind it moved up to columns of other heads
    ? Which columns of `w_o` do the heads behind the removed one meet now?
right(contexts, w_o, (head - 1) % contexts.shape[1])
    the output without the head before
    ? From what number are the heads counted?
0.0 => 1.0
    an output in which the head's context was 1, not 0
    ? What does a context of 1 add to the output?
[:, head] => [:, :, head : head + 1]
    an output without the head's tokens: the token of that number was taken away
    ? Which axis of `contexts` are the heads?
[:, head] => [head : head + 1]
    an output in which the sample of that number was taken away
    ? Which axis of `contexts` are the heads?
[:, head] => [:, head:]
    the output without the head and all behind it
    ? How many heads should be left?
0.0 => kept[:, head].mean(1, keepdim=True)
    the output with the head's context averaged over the tokens, not taken away
    ? How much of the head is still in that mean?
= 0.0 => *= -1.0
    the output with the head's part subtracted twice
    ? Does a context of the opposite sign add nothing?
""",
)
