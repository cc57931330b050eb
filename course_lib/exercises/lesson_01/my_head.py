"""The learner's own head, which the next lessons go on with."""

from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MyHead(nn.Module):
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
    MyHead,
    title="My head",
    difficulty=2,
    minutes=5,
    prompt="Compare, weigh and mix in `forward`, for a batch of samples. No token is hidden from any other.",
    hints=(
        "The keys are transposed in their last two axes only: `keys.transpose(1, 2)` is (batch, width, key).",
        "Divide the queries, or the scores, by the square root of the width of a query, `queries.shape[-1] ** 0.5`.",
    ),
    causal=False,
)
