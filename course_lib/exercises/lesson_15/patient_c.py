"""A module with a mistake to be found by reading and probing."""

from course_lib.exercises.name_exercise import NameExercise


def patient_c():  # -> the name of the mistake
    return "softmax-wrong-axis"


EXERCISE = NameExercise(
    patient_c,
    title="Find the mistake: patient C",
    difficulty=3,
    minutes=6,
    prompt="Grouped-query attention, with six query heads and two kv heads for example; the groups have an axis.",
    hints=(
        "`leaks` finds tokens, but nothing lies above the diagonal. Print the sums of the rows of `weights`.",
        "And the sums of its columns? Write the axes of `scores` down, and count them from 0.",
        "Without the axis of groups this line would be right.",
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
        share = self.num_heads // self.num_kv_heads
        kv_head = (batch, num_tokens, self.num_kv_heads, 1, self.head_dim)
        # (b, t, g, share, d) -> (b, g, share, t, d)
        queries = self.q_proj(x).view(*kv_head[:3], share, -1).permute(0, 2, 3, 1, 4)
        keys = self.k_proj(x).view(kv_head).permute(0, 2, 3, 1, 4)
        values = self.v_proj(x).view(kv_head).permute(0, 2, 3, 1, 4)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(3, 4)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=3)
        context = (weights @ values).permute(0, 3, 1, 2, 4)
        return self.out_proj(context.reshape(batch, num_tokens, -1))""",
    seen="The columns of the weights sum to 1, not the rows: axis 3 of (b, g, share, q, k) holds the queries.",
    against={
        "mask-after-softmax": "The mask comes before softmax. But what sums to 1, the rows or the columns?",
        "no-causal-mask": "Print the weights: nothing lies above the diagonal. Do their rows sum to 1?",
        "kv-heads-tiled": "Query heads 0, 1 and 2 read kv head 0, as they should: `share` stands behind the kv heads.",
        "heads-share-scores": "Each query head has its own scores. What is done with them?",
        "merge-without-transpose": "The way out is right: the tokens come before the heads, then reshape.",
        "split-without-transpose": "All three are split by view, then permute.",
        "weights-transposed": "The weights are not transposed. Over which of their axes did softmax run?",
        "wrong-scale": "`head_dim**-0.5` is right.",
    },
)
