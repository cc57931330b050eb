"""A module with a mistake to be found by reading and probing."""

from course_lib.exercises.name_exercise import NameExercise


def patient_b():  # -> the name of the mistake
    return "mask-after-softmax"


EXERCISE = NameExercise(
    patient_b,
    title="Find the mistake: patient B",
    difficulty=3,
    minutes=3,
    prompt="Two calls agree, and all of its parameters are used. What is its mistake called?",
    hints=(
        "`leaks` finds tokens, but nothing lies above the diagonal of `weights`. So where does the future come in?",
        "Print the sum of each row of `weights`.",
        "By what does softmax divide each weight, and which scores are in that sum?",
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
        weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))""",
    seen="Nothing lies above the diagonal, but the rows sum to less than 1: softmax divided by later scores, too.",
    against={
        "split-without-transpose": "All three are split by view, then transpose.",
        "merge-without-transpose": "The way out is right: transpose, then reshape.",
        "no-causal-mask": "Print the weights: nothing lies above the diagonal. What does a row of them sum to?",
        "mask-discarded": "The masked weights are what multiplies the values. What does a row of them sum to?",
        "mask-with-zero": "It is the weights that are set to zero here, not the scores. What does a row sum to?",
        "softmax-wrong-axis": "Softmax runs over the keys. What does a row of `weights` sum to afterwards?",
    },
)
