"""A head with gaps."""

from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class SingleHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # (batch, query, key)
        scores = (queries / queries.shape[-1] ** 0.5) @ keys.transpose(1, 2)
        weights = scores.softmax(dim=-1)
        return weights @ values


EXERCISE = ModuleExercise(
    SingleHeadWithGaps,
    title="A head with gaps",
    difficulty=2,
    minutes=5,
    prompt=(
        "The function becomes a module with three projections, and its input gets a batch axis. Fill in the four gaps, "
        "each written `...`. Nothing is hidden from any token yet."
    ),
    hints=(
        "A module calls its layers like functions: `self.q_proj(x)` gives the queries.",
        "With a batch axis `.T` would reverse all three axes: `transpose` takes the two that you want to swap.",
        "`keys.transpose(1, 2)` is (batch, head_dim, key).",
    ),
    stub="""\
class SingleHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), ..., self.v_proj(x)
        scores = (queries / queries.shape[-1] ** 0.5) @ ...  # (batch, query, key)
        weights = scores.softmax(dim=...)
        return ... @ values""",
    causal=False,
)
