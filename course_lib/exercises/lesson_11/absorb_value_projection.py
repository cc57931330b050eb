"""Absorb the value projection of latent attention into the output projection."""

from course_lib.exercises.function_exercise import FunctionExercise


def absorb_value_projection(value_up, out_weight, num_heads):
    # (h * v, latent), (m, h * v), int -> (m, h * latent)
    value_up_by_head = value_up.unflatten(0, (num_heads, -1))  # (h * v, l) -> (h, v, l)
    # (m, h * v) -> (h, m, v)
    out_by_head = out_weight.unflatten(1, (num_heads, -1)).transpose(0, 1)
    # (h, m, v) @ (h, v, l) -> (h, m, l)
    absorbed_by_head = out_by_head @ value_up_by_head
    return absorbed_by_head.transpose(0, 1).flatten(1)  # (h, m, l) -> (m, h * l)


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
    inputs={"num_heads": lambda head: head},
    calls=4,
    draw_edges=({"head": 1, "latent": 1}, {"d_model": "head*latent"}),
    least={"num_heads": 1},
    arguments={"value_up": "head*value_dim latent", "out_weight": "d_model head*value_dim"},
    axes="d_model head*latent",
    wrong="""
out_weight @ value_up
    the product of the whole matrices, which sums over the heads
    ? Does each head have its own mix of latents?
(out_weight @ value_up).repeat(1, num_heads)
    the sum over the heads, repeated
    ? Which columns of `out_weight` belong to head 0?
torch.cat([a @ b for a, b in zip(out_weight.chunk(num_heads, 1), value_up.chunk(num_heads), strict=True)])
    the heads stacked below each other
    ? Along which axis do the mixes stand side by side?
torch.stack([a @ b for a, b in zip(out_weight.chunk(num_heads, 1), value_up.chunk(num_heads), strict=True)])
    the heads on an axis of their own
    ? How many axes has the matrix that is asked for?
torch.stack([a @ b for a, b in zip(out_weight.chunk(num_heads, 1), value_up.chunk(num_heads), strict=True)], -1).flatten(1)
    columns whose order is latent by latent, not head by head
    ? Which numbers of the mixes come first: all of head 0, or the first of every head?
result.T
    the transposed matrix
    ? In which order does the first line give the axes?
torch.cat([a @ value_up[i::num_heads] for i, a in enumerate(out_weight.chunk(num_heads, 1))], 1)
    the rows of value_up dealt out to the heads in turn
    ? Rows 0 to value_dim - 1 of `value_up` all belong to head 0.
torch.cat([a @ b for a, b in zip(out_weight.chunk(num_heads, 1), value_up.chunk(num_heads)[::-1], strict=True)], 1)
    the heads matched the wrong way round: the last columns with the first rows
    ? Which columns of `out_weight` meet the context of head 0?
""",
)
