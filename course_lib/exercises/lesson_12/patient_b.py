"""A module with a mistake to be found by reading and probing."""

from __future__ import annotations

from course_lib.exercises.name_exercise import NameExercise


def patient_b():  # -> the name of the mistake
    return "merge-without-transpose"


EXERCISE = NameExercise(
    patient_b,
    title="Find the mistake: patient B",
    difficulty=3,
    minutes=3,
    prompt="All of its parameters are used. What is its mistake called?",
    hints=(
        "`leaks` finds tokens, but print the weights: they are causal. So where does the future come in?",
        "Write the shape beside each line of `forward`. Which two axes are joined in the end?",
        "Lesson 04 shows the way out of the heads; compare.",
    ),
    given="""\
class PatientB(nn.Module):
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
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.reshape(batch, num_tokens, -1))""",
    seen="Change token 3: outputs of earlier tokens move, although the weights are causal.",
    against={
        "split-without-transpose": "The way in is right: view, then transpose. What about the way out?",
        "no-causal-mask": "Print the weights: nothing lies above the diagonal. The leak comes after the mix.",
        "mask-discarded": "The masked scores are what softmax gets. The leak comes after the mix.",
        "heads-averaged": "All heads reach the output with all their numbers. But in which rows?",
        "output-projection-missing": "`out_proj` is the last step of `forward`. What is it given?",
    },
)
