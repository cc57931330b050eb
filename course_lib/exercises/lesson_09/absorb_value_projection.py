"""Absorb the value projection of latent attention into the output projection."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def absorb_value_projection(value_up, out_weight, num_heads):
    # (h * v, latent), (m, h * v), int -> (m, h * latent)
    value_up_by_head = value_up.unflatten(0, (num_heads, -1))  # (h * v, l) -> (h, v, l)
    # (m, h * v) -> (h, m, v)
    out_by_head = out_weight.unflatten(1, (num_heads, -1)).transpose(0, 1)
    # (h, m, v) @ (h, v, l) -> (h, m, l)
    absorbed_by_head = out_by_head @ value_up_by_head
    return absorbed_by_head.transpose(0, 1).flatten(1)  # (h, m, l) -> (m, h * l)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for heads, width, latent, model in rng.size_rows(4, 4, 2, 9):
        cases.append(Case((rng.normal(heads * width, latent), rng.normal(model, heads * width), heads)))
    return cases


EXERCISE = FunctionExercise(
    absorb_value_projection,
    title="Absorb the value projection",
    difficulty=4,
    minutes=10,
    prompt=(
        "In latent attention, head i mixes latents, (query, latent), and its part of `value_up` turns the mix into "
        "the context: `context_i = mix_i @ value_up_i.T`. The contexts of all heads stand side by side and go through "
        "the output projection: `output = context @ out_weight.T`. `value_up` is (head * value_dim, latent), "
        "`out_weight` is (d_model, head * value_dim). Give back one matrix, (d_model, head * latent), that does both: "
        "with the mixes of all heads side by side, `mixes @ absorbed.T` equals `output`."
    ),
    hints=(
        "The output is a sum over the heads: out_weight_i (value_up_i mix_i), where out_weight_i are the columns of "
        "head i.",
        "So head i contributes the matrix out_weight_i @ value_up_i, (d_model, latent).",
        "Put these side by side along the columns: `torch.cat([...], dim=1)`.",
    ),
    draw=_draw,
    least={"num_heads": 1},
    draw_edges=lambda rng: [
        Case((rng.normal(3, 1), rng.normal(4, 3), 1)),
        Case((rng.normal(6, 2), rng.normal(4, 6), 2)),
    ],
    arguments={"value_up": "head*value_dim latent", "out_weight": "d_model head*value_dim"},
    axes="d_model head*latent",
    wrong=(
        Wrong(
            "the product of the whole matrices, which sums over the heads",
            lambda v, o, h: o @ v,
            hint="Does each head have its own mix of latents?",
        ),
        Wrong(
            "the sum over the heads, repeated",
            lambda v, o, h: (o @ v).repeat(1, h),
            hint="Which columns of `out_weight` belong to head 0?",
        ),
        Wrong(
            "the heads stacked below each other",
            lambda v, o, h: torch.cat([a @ b for a, b in zip(o.chunk(h, 1), v.chunk(h), strict=True)]),
            hint="Along which axis do the mixes stand side by side?",
        ),
        Wrong(
            "the heads on an axis of their own",
            lambda v, o, h: torch.stack([a @ b for a, b in zip(o.chunk(h, 1), v.chunk(h), strict=True)]),
            hint="How many axes has the matrix that is asked for?",
        ),
        Wrong(
            "columns whose order is latent by latent, not head by head",
            lambda v, o, h: torch.stack([a @ b for a, b in zip(o.chunk(h, 1), v.chunk(h), strict=True)], -1).flatten(1),
            hint="Which numbers of the mixes come first: all of head 0, or the first of every head?",
        ),
        Wrong(
            "the transposed matrix",
            lambda v, o, h: torch.cat([a @ b for a, b in zip(o.chunk(h, 1), v.chunk(h), strict=True)], 1).T,
            hint="In which order does the first line give the axes?",
        ),
        Wrong(
            "the rows of value_up dealt out to the heads in turn",
            lambda v, o, h: torch.cat([a @ v[i::h] for i, a in enumerate(o.chunk(h, 1))], 1),
            hint="Rows 0 to value_dim - 1 of `value_up` all belong to head 0.",
        ),
        Wrong(
            "the heads matched the wrong way round: the last columns with the first rows",
            lambda v, o, h: torch.cat([a @ b for a, b in zip(o.chunk(h, 1), v.chunk(h)[::-1], strict=True)], 1),
            hint="Which columns of `out_weight` meet the context of head 0?",
        ),
    ),
)
