"""Draws the pictures in figures/: each from a real run of the library, none by hand."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    causal_keep,
)
from course_lib.attention.convert import split_to_wrapper
from course_lib.exercises.catalogue import EXERCISES
from course_lib.inputs import ToyInput, dream_big, four_by_six
from course_lib.pictures import (
    Picture,
    attention_in_heads,
    cache,
    family,
    head_heatmaps,
    heads_of,
    layout_steps,
    mask_conventions,
    matrix_product,
    memory_row,
    three_projections,
    wrong_view,
)
from course_lib.pictures.drawing import FOLLOW, INK, Drawing
from course_lib.recorder import Recording, record


def two_heads() -> Picture:
    """Two heads of multi-head attention on "Dream big and work for it"."""
    toy, module = dream_big(), _module(d_in=3, d_out=4)
    with torch.no_grad():
        _, weights = module(toy.batch, return_weights=True)
    return head_heatmaps(weights, toy.words)


def one_tensor_two_heads() -> Picture:
    """A view and a transpose turn one wide tensor into heads, on the sentence of the course."""
    toy, module = dream_big(), _module(d_in=3, d_out=4)
    title = "One tensor, two heads: what view and transpose do"
    return layout_steps(record(module, toy.batch), toy.words, of="queries_by_head", title=title)


def input_projection() -> Picture:
    """The input times W_q gives the queries of all heads."""
    toy, module = _four_tokens()
    weight = module.q_proj.weight.T
    names = ("x", "W_q", "queries")
    return matrix_product(toy.batch, weight, names=names, words=toy.words, num_heads=2, follow=(2, 3))


def the_three_projections() -> Picture:
    """One input, projected three times."""
    toy, module = _four_tokens()
    return three_projections(toy.batch, module, toy.words)


def reshape_and_transpose() -> Picture:
    """A view and a transpose turn one wide tensor into heads."""
    toy, module = _four_tokens()
    return layout_steps(
        record(module, toy.batch), toy.words, of="queries_by_head", title="From one tensor to two heads"
    )


def heads_of_queries_keys_values() -> Picture:
    """The blocks that each head works on."""
    toy, module = _four_tokens()
    return heads_of(*_by_head(record(module, toy.batch)), toy.words)


def attention_within_each_head() -> Picture:
    """Each head compares, weighs and mixes by itself."""
    toy, module = _four_tokens()
    return attention_in_heads(*_by_head(record(module, toy.batch)), causal_keep(4), toy.words)


def transpose_back() -> Picture:
    """A transpose and a reshape bring the heads of each token together again."""
    toy, module = _four_tokens()
    recording = record(module, toy.batch)
    return layout_steps(recording, toy.words, of="output", title="From two heads back to one tensor")


def output_projection() -> Picture:
    """W_o mixes the heads."""
    toy, module = _four_tokens()
    recording = record(module, toy.batch)
    merged = next(step for step in recording if step.op == "reshape" and step.name == "output").tensor
    names = ("merged heads", "W_o", "output")
    return matrix_product(merged, module.out_proj.weight.T, names=names, words=toy.words, follow=(2, 3))


def memory_of_view_and_transpose() -> Picture:
    """What view, transpose and contiguous do to the order in which memory is read."""
    words = dream_big().words
    queries = torch.arange(24).view(1, 6, 4)
    split = queries.view(1, 6, 2, 2)
    by_head = split.transpose(1, 2)
    labels = ["queries", ".view(1, 6, 2, 2)", ".transpose(1, 2)", ".contiguous()"]
    tensors = (queries, split, by_head, by_head.contiguous())
    return memory_row(*tensors, labels=labels, words=words, heads=2, follow=(0, 3, 2))


def the_wrong_view() -> Picture:
    """The shortcut that scrambles the heads."""
    return wrong_view(torch.arange(24).view(1, 6, 4), 2, dream_big().words)


def wrapper_and_weight_split() -> Picture:
    """The same weights in both forms: heads one after the other and joined, heads in one tensor and turned back."""
    toy, split = dream_big(), _module(d_in=3, d_out=4)
    one = record(split_to_wrapper(split), toy.batch)
    two = record(split, toy.batch)
    torch.testing.assert_close(one.output, two.output)
    joined = layout_steps(one, toy.words, of="output", title="The wrapper: a tensor for each head, joined")
    merged = layout_steps(two, toy.words, of="output", title="The weight split: one tensor, turned back")
    caption = "From the same weights both give the same output: compared."
    return joined.above(merged, caption=caption)


def shared_keys_and_values() -> Picture:
    """Multi-head, grouped-query and multi-query attention: who reads which keys."""
    return family(_family(), dream_big().batch)


def mask_senses() -> Picture:
    """A causal mask in both senses of PyTorch."""
    return mask_conventions(causal_keep(6), dream_big().words)


def key_value_cache() -> Picture:
    """What each form keeps while a model writes."""
    toy = dream_big()
    return cache(_family(), toy.batch, toy.words)


def a_verdict() -> Picture:
    """What an exercise says of an answer that many give: a view straight to the heads' shape."""

    def split_heads(queries, num_heads):
        batch, num_tokens, d_out = queries.shape
        return queries.view(batch, num_heads, num_tokens, d_out // num_heads)

    code = [*textwrap.dedent(inspect.getsource(split_heads)).splitlines(), "", 'check("split_heads", split_heads)']
    exercise = EXERCISES["split_heads"]  # its judge: check would count this answer among the learner's own
    first, *says = repr(exercise.judge(split_heads).of(exercise.name, exercise.lesson)).splitlines()
    says = [*(part.strip() for part in first.partition("not passed yet.")[::2]), *says]
    says[0] += " not passed yet."
    drawing = Drawing()
    drawing.text(0, 12, "A wrong answer, and what check says of it", size=16, bold=True)
    for row, line in enumerate(code):
        drawing.text(0, 44 + 20 * row, line.replace(" ", "\u00a0"), size=13, mono=True)
    below = 44 + 20 * len(code)
    drawing.lines([(-8, below, -8, below + 22 * len(says))], color=FOLLOW)
    for row, line in enumerate(says):
        drawing.text(4, below + 16 + 22 * row, line.strip(), size=13, bold=row == 0, color=FOLLOW if row == 0 else INK)
    words = "An answer to the exercise split_heads:\n" + "\n".join([*code, "", "It says:", *says])
    return Picture(svg=drawing.svg(), words=words, caption="The verdict names the mistake and asks a question.")


def _module(*, d_in: int, d_out: int) -> MultiHeadAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = MultiHeadAttention(d_in, d_out, num_heads=2)
    with torch.no_grad():
        module.q_proj.weight *= 6.0  # as if trained: an untrained head looks at everything alike
        module.k_proj.weight *= 6.0
    return module


def _four_tokens() -> tuple[ToyInput, MultiHeadAttention]:
    """Four tokens of six numbers and two heads of three: small enough to show every number."""
    return four_by_six(), _module(d_in=6, d_out=6)


def _by_head(recording: Recording) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(recording[f"{role}_by_head"].tensor for role in ("queries", "keys", "values"))


def _family() -> dict[str, torch.nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {
            "multi-head": MultiHeadAttention(3, 8, num_heads=4),
            "grouped-query": GroupedQueryAttention(3, 8, num_heads=4, num_kv_heads=2),
            "multi-query": MultiQueryAttention(3, 8, num_heads=4),
        }


FIGURES: dict[str, Callable[[], Picture]] = {
    draw.__name__: draw
    for draw in (
        two_heads,
        one_tensor_two_heads,
        input_projection,
        the_three_projections,
        reshape_and_transpose,
        heads_of_queries_keys_values,
        attention_within_each_head,
        transpose_back,
        output_projection,
        memory_of_view_and_transpose,
        the_wrong_view,
        wrapper_and_weight_split,
        shared_keys_and_values,
        mask_senses,
        key_value_cache,
        a_verdict,
    )
}


def main(arguments: list[str] | None = None) -> int:
    """Run `course figures`: draw every figure and say which file changed.

    Args:
        arguments: of the command line, without its name; those of the process if None.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="course figures", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("figures"), help="folder to write to (figures)")
    folder = parser.parse_args(arguments).to
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        path = folder / f"{name}.svg"
        before = path.read_text(encoding="utf-8") if path.exists() else None
        picture = draw()
        picture.save(path)
        print(f"{path}: {'unchanged' if picture.svg == before else 'written'}")
    return 0
