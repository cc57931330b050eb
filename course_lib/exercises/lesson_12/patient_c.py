"""A module with a mistake to be found by reading and probing."""

from __future__ import annotations

from course_lib.exercises.name_exercise import NameExercise


def patient_c():  # -> the name of the mistake
    return "kv-head-zero-only"


EXERCISE = NameExercise(
    patient_c,
    title="Find the mistake: patient C",
    difficulty=3,
    minutes=6,
    prompt="Grouped-query attention, with six query heads and two kv heads for example.",
    hints=(
        "Nothing leaks and every parameter gets a gradient: neither probe sees it. Look at who reads which keys.",
        "The gradient of `k_proj.weight`: look at its rows one by one, not at the whole. Which kv head do they make?",
        "Print `kv_head` for 6 heads and 2 kv heads. What should it be?",
    ),
    given="""\
class PatientC(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, -1, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        kv_head = torch.arange(self.num_heads, device=x.device) // self.num_heads
        keys, values = keys[:, kv_head], values[:, kv_head]
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))""",
    seen="Change kv head 1: no query head notices, where 3, 4 and 5 should.",
    against={
        "kv-heads-tiled": "Then query head 1 would read kv head 1. Change that one: does anything move?",
        "heads-share-scores": "Each query head has its own scores. Which keys does it read?",
        "merge-without-transpose": "The way out is right: transpose, then reshape.",
        "split-without-transpose": "All three are split by view, then transpose.",
        "wrong-scale": "`head_dim**-0.5` is right.",
    },
)
