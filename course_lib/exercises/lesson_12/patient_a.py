"""A module with a mistake to be found by reading and probing."""

from __future__ import annotations

from course_lib.exercises.name_exercise import NameExercise


def patient_a():  # -> the name of the mistake, such as "no-softmax"
    return "scores-from-values"


EXERCISE = NameExercise(
    patient_a,
    title="Find the mistake: patient A",
    difficulty=2,
    minutes=5,
    prompt="Read it, run it, record it. What is its mistake called?",
    hints=(
        "Run `leaks` on it, and `without_gradient` from the lesson with token=4. Which of them finds something?",
        "Ask the recorder: `record(PatientA(7, 12, 3), torch.randn(2, 5, 7)).unused()`.",
        "A projection that gets no gradient: follow its result through `forward`. Which line should read it?",
    ),
    given="""\
class PatientA(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ values.transpose(2, 3)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))""",
    seen="`k_proj.weight` gets no gradient from any token, and nothing reads `keys`.",
    against={
        "no-causal-mask": "`leaks` finds no token: the mask works.",
        "mask-discarded": "Softmax gets what `masked_fill` returns, and `leaks` finds no token.",
        "projection-reused": "Each projection is called once, each result has its own name. Follow the three names.",
        "merge-without-transpose": "The way out is right: transpose, then reshape.",
        "split-without-transpose": "All three are split by view, then transpose.",
        "output-projection-missing": "`out_proj` is the last step, and it gets a gradient.",
    },
)
