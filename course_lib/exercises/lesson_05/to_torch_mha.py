"""Your weights in PyTorch's module."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def to_torch_mha(q_proj, k_proj, v_proj, out_proj):
    # four of (d_out, d_in) -> (3 * d_out, d_in), (d_out, d_out)
    return torch.cat([q_proj, k_proj, v_proj]), out_proj


EXERCISE = FunctionExercise(
    to_torch_mha,
    title="Your weights in PyTorch's module",
    difficulty=2,
    minutes=5,
    prompt=(
        "These are the weights of the four `nn.Linear` of multi-head attention, without bias; here `d_in` equals "
        "`d_out`. `nn.MultiheadAttention` keeps the same numbers in two parameters: `in_proj_weight`, "
        "(3 * d_out, d_in), from which queries, keys and values come in this order, and `out_proj.weight`, "
        "(d_out, d_out). Give back both as a tuple, so that PyTorch's module gives the same output as yours."
    ),
    hints=(
        'The section "Compare, and cheat" of the lesson prints the shape of `in_proj_weight`: the query matrix comes first.',
        "Every matrix is (out, in), here and there: nothing has to be transposed, and no row changes within its "
        "matrix.",
        "`torch.cat([...])` puts three matrices one below the other. Give back `in_proj_weight, out_proj`.",
    ),
    inputs=dict.fromkeys(("k_proj", "v_proj", "out_proj"), "width width"),
    draw_edges=({"width": 1},),
    arguments={"q_proj": "width width"},
    axes="in_proj_weight out_proj.weight",
    fixed="width",
    wrong="""
(torch.cat([k_proj, q_proj, v_proj]), out_proj)
    queries, keys and values in another order: the keys first
    ? Whose rows come first in `in_proj_weight`?
(torch.cat([v_proj, k_proj, q_proj]), out_proj)
    queries, keys and values in another order: the values first
    ? Whose rows come first in `in_proj_weight`?
(torch.cat([q_proj, v_proj, k_proj]), out_proj)
    queries, keys and values in another order: the values in the middle
    ? Whose rows come second in `in_proj_weight`?
(torch.cat([q_proj, k_proj, v_proj], 1), out_proj)
    the matrices side by side; they should stand one below the other
    ? Along which axis do you join? `in_proj_weight` has three times as many rows.
torch.cat => torch.stack
    the matrices on an axis of their own: (3, d_out, d_in)
    ? What is the difference between `stack` and `cat`?
(torch.stack([q_proj, k_proj, v_proj], 1).flatten(0, 1), out_proj)
    the rows of the three matrices in turn; those of one role should stay together
    ? Which rows of `in_proj_weight` make the queries?
right(q_proj.T, k_proj.T, v_proj.T, out_proj)
    the transposed matrices one below the other
    ? PyTorch keeps both as `nn.Linear` does. Which way round is that?
(torch.cat([q_proj, k_proj, v_proj]), out_proj.T)
    the transpose of `out_proj`: both sides are equally wide, so nothing fails
    ? PyTorch keeps `out_proj` as an `nn.Linear`, too. Does it need a transpose?
(torch.cat([q_proj, q_proj, q_proj]), out_proj)
    the query matrix three times [projection-reused]
torch.cat([q_proj, k_proj, v_proj, out_proj])
    all four matrices in one; W^O is a parameter of its own
    ? How many parameters should come back?
(out_proj, torch.cat([q_proj, k_proj, v_proj]))
    the two parameters in the wrong order: `in_proj_weight` comes first
    ? Which of the two should come first?
right(q_proj.T, k_proj.T, v_proj.T, out_proj.T)
    all four matrices transposed
    ? PyTorch keeps both as `nn.Linear` does. Which way round is that?
(torch.cat([q_proj / len(q_proj) ** 0.5, k_proj, v_proj]), out_proj)
    a query matrix that is scaled; PyTorch's module divides by the root of head_dim itself
    ? Where in multi-head attention are the scores scaled?
""",
)
