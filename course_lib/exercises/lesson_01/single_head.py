"""A head as a module."""

from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class SingleHead(nn.Module):
    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, head_dim, bias=False)
        self.k_proj = nn.Linear(d_in, head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # (b, q, d) @ (b, d, k) -> (b, q, k)
        scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(1, 2)
        # (b, q, k) @ (b, k, d_out) -> (b, q, d_out)
        return scores.softmax(dim=-1) @ values


EXERCISE = ModuleExercise(
    SingleHead,
    title="A head as a module",
    difficulty=3,
    minutes=8,
    prompt=(
        "Now the whole module, without a template. In the lesson the three projections were equally wide; here the "
        "values have a width of their own. The input has a batch axis, queries and keys are `head_dim` wide, "
        "the values are `d_out` wide, and so is the output. Call the projections `q_proj`, `k_proj` and `v_proj`, "
        "without bias: then the check can put weights of its own into them and compare numbers. No mask yet."
    ),
    hints=(
        "Three `nn.Linear` in `__init__`, two of them `head_dim` wide and one `d_out`; your three steps in `forward`.",
        "With a batch axis only the last two axes of the keys are transposed: `keys.transpose(1, 2)`.",
        "Scale by the width of the queries, `queries.shape[-1] ** -0.5`, which is `head_dim`.",
    ),
    causal=False,
    biases=False,
)
