"""Draw the pictures of figures/, each from a run of the library."""

import inspect
import textwrap
from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention, causal_keep
from course_lib.attention.convert import split_to_wrapper
from course_lib.exercises import EXERCISES, InputGenerator, LocalAnswer
from course_lib.inputs import ToyInput, dream_big, four_by_six
from course_lib.pictures import (
    Picture,
    draw_attention,
    draw_heads,
    draw_kv_cache,
    draw_kv_sharing,
    draw_listing,
    draw_matrix_product,
    draw_projections,
    draw_wrong_view,
    head_heatmaps,
    layout_steps,
    live,
    mask_conventions,
    memory_row,
)
from course_lib.recorder import Recording, record

from .animation import animated


def two_heads() -> Picture:
    """Draw two heads of multi-head attention on "Dream big and work for it"."""
    toy, module = dream_big(), _module(d_in=3, d_out=4)
    with torch.no_grad():
        _, weights = module(toy.batch, return_weights=True)
    return head_heatmaps(weights, toy.words)


def one_tensor_two_heads() -> Picture:
    """Draw how a view and a transpose split one wide tensor into heads, on the sentence of the course."""
    title, toy = "One tensor, two heads: what view and transpose do", dream_big()
    recording = record(_module(d_in=3, d_out=4), toy.batch)
    return layout_steps(recording, words=toy.words, of="queries_by_head", title=title)


def input_projection() -> Picture:
    """Draw the product of the input and W_q, which gives the queries of all heads."""
    toy, module = _four_tokens()
    weight, names = module.q_proj.weight.T, ("x", "W_q", "queries")
    return draw_matrix_product(toy.batch, weight, names=names, words=toy.words, num_heads=2, highlight=(0, 2, 3))


def the_three_projections() -> Picture:
    """Draw one input and its three projections."""
    toy, module = _four_tokens()
    return draw_projections(toy.batch, module, words=toy.words)


def reshape_and_transpose() -> Picture:
    """Draw how a view and a transpose split one wide tensor into heads."""
    return _layout(*_four_tokens(), "queries_by_head", "From one tensor to two heads")


def heads_of_queries_keys_values() -> Picture:
    """Draw the blocks of each head."""
    toy, module = _four_tokens()
    return draw_heads(*_by_head(record(module, toy.batch)), words=toy.words)


def attention_within_each_head() -> Picture:
    """Draw the scores, attention weights and context that each head computes."""
    toy, module = _four_tokens()
    return draw_attention(*_by_head(record(module, toy.batch)), keep=causal_keep(4), words=toy.words)


def transpose_back() -> Picture:
    """Draw how a transpose and a reshape rejoin the heads of each token."""
    return _layout(*_four_tokens(), "output", "From two heads back to one tensor")


def output_projection() -> Picture:
    """Draw how W_o combines the heads."""
    toy, module = _four_tokens()
    merged = next(step for step in record(module, toy.batch) if step.op == "reshape" and step.name == "output").tensor
    names = ("merged heads", "W_o", "output")
    weight = module.get_parameter("out_proj.weight").T
    return draw_matrix_product(merged, weight, names=names, words=toy.words, highlight=(0, 2, 3))


def memory_of_view_and_transpose() -> Picture:
    """Draw how view, transpose and contiguous change the order in which memory is read."""
    words = dream_big().words
    queries = torch.arange(24).view(1, 6, 4)
    split = queries.view(1, 6, 2, 2)
    by_head = split.transpose(1, 2)
    names = ["queries", ".view(1, 6, 2, 2)", ".transpose(1, 2)", ".contiguous()"]
    tensors = (queries, split, by_head, by_head.contiguous())
    return memory_row(*tensors, names=names, words=words, num_heads=2, highlight=(0, 3, 2))


def the_wrong_view() -> Picture:
    """Draw the shortcut that scrambles the heads."""
    return draw_wrong_view(torch.arange(24).view(1, 6, 4), num_heads=2, words=dream_big().words)


def why_transpose() -> Picture:
    """Draw 24 cells that move from one table to a table for each head, and to the wrong ones."""
    return animated(live.why_transpose(), caption="The view alone has the same shape, and mixes words and heads.")


def wrapper_and_weight_split() -> Picture:
    """Draw the same parameters in both forms: heads concatenated, and heads in one tensor and transposed back."""
    toy, split = dream_big(), _module(d_in=3, d_out=4)
    wrapper = split_to_wrapper(split)
    torch.testing.assert_close(wrapper(toy.batch), split(toy.batch))
    joined = _layout(toy, wrapper, "output", "The wrapper: a tensor for each head, joined")
    merged = _layout(toy, split, "output", "The weight split: one tensor, transposed back")
    caption = "From the same weights both give the same output: compared."
    return joined.above(merged, caption=caption)


def shared_keys_and_values() -> Picture:
    """Draw which head reads which keys in multi-head, grouped-query and multi-query attention."""
    return draw_kv_sharing(_forms(), dream_big().batch)


def mask_senses() -> Picture:
    """Draw a causal mask in both conventions of PyTorch."""
    return mask_conventions(causal_keep(6), words=dream_big().words)


def key_value_cache() -> Picture:
    """Draw what each form keeps in its cache while a model generates."""
    toy = dream_big()
    return draw_kv_cache(_forms(), toy.batch, words=toy.words)


def a_verdict() -> Picture:
    """Draw the verdict on a common wrong answer: a view straight to the heads' shape."""

    def split_heads(x, num_heads):
        num_tokens, batch, width = x.shape
        return x.view(batch, num_heads, num_tokens, width // num_heads)

    code = [*textwrap.dedent(inspect.getsource(split_heads)).splitlines(), "", 'check("split_heads", split_heads)']
    exercise = EXERCISES["split_heads"]  # `check` would count this answer as an attempt of the learner
    first, *says = repr(exercise.judge(LocalAnswer(split_heads), InputGenerator(0))).splitlines()
    says = [*(part.strip() for part in first.partition("not passed yet.")[::2]), *says]
    says[0] += " not passed yet."
    says = [line for sentence in says for line in sentence.replace(": At [", ":\n    At [").splitlines()]
    title = "A wrong answer, and what check says of it"
    return draw_listing(code, says, title=title, caption="The verdict names the mistake and asks a question.")


def _module(*, d_in: int, d_out: int) -> MultiHeadAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = MultiHeadAttention(d_in, d_out, num_heads=2)
    with torch.no_grad():
        module.q_proj.weight *= 6.0  # imitates training: an untrained head weighs all tokens nearly equally
        module.k_proj.weight *= 6.0
    return module


def _four_tokens() -> tuple[ToyInput, MultiHeadAttention]:
    """Return four tokens of width 6 and a module with two heads of width 3, small enough to show every element."""
    return four_by_six(), _module(d_in=6, d_out=6)


def _layout(toy: ToyInput, module: torch.nn.Module, of: str, title: str) -> Picture:
    return layout_steps(record(module, toy.batch), words=toy.words, of=of, title=title)


def _by_head(recording: Recording) -> tuple[Tensor, Tensor, Tensor]:
    queries, keys, values = (recording[f"{role}_by_head"].tensor for role in ("queries", "keys", "values"))
    return queries, keys, values


def _forms() -> dict[str, torch.nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {
            "multi-head": MultiHeadAttention(3, 8, num_heads=4),
            "grouped-query": GroupedQueryAttention(3, 8, num_heads=4, num_kv_heads=2),
            "multi-query": MultiQueryAttention(3, 8, num_heads=4),
        }


FIGURES: dict[str, Callable[[], Picture]] = {  # every public function of this file draws one
    name: draw
    for name, draw in list(globals().items())
    if inspect.isfunction(draw) and draw.__module__ == __name__ and not name.startswith("_")
}
