"""A module with a mistake to be found by reading and probing."""

from course_lib.exercises.name_exercise import NameExercise


def patient_a():  # -> the name of the mistake, such as "no-softmax"
    return "dropout-at-eval"


EXERCISE = NameExercise(
    patient_a,
    title="Find the mistake: patient A",
    difficulty=2,
    minutes=5,
    prompt="Build it, switch it to evaluation with `.eval()`, and probe it. What is its mistake called?",
    hints=(
        "`leaks` lists tokens, but other ones each time. What if you change nothing and call the module twice?",
        "Which line of `forward` draws random numbers, and what switches it off?",
        "A layer such as `nn.Dropout` knows from `eval()` that training is over. What does a function know?",
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
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (F.dropout(weights, 0.1) @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))""",
    seen="After `eval()` two calls with the same input still differ.",
    against={
        "no-causal-mask": "Nothing lies above the diagonal of `weights`. What if you call the module twice?",
        "mask-discarded": "Softmax gets what `masked_fill` returns. What if you call the module twice?",
        "dropout-before-softmax": "Dropout comes after softmax, where it belongs. But when?",
        "projection-reused": "Each projection is called once, each result has its own name. Follow the three names.",
        "merge-without-transpose": "The way out is right: transpose, then reshape.",
        "split-without-transpose": "All three are split by view, then transpose.",
        "output-projection-missing": "`out_proj` is the last step of `forward`.",
    },
)
