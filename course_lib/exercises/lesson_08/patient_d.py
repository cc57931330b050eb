"""Cross-attention with a mistake to be found by reading and probing."""

from course_lib.exercises.name_exercise import NameExercise


def patient_d():  # -> the name of the mistake, such as "no-softmax"
    return "mask-rank"


EXERCISE = NameExercise(
    patient_d,
    title="Find the mistake: patient D",
    difficulty=2,
    minutes=6,
    prompt=(
        "`PatientD` is cross-attention with a padding mask, `real` (batch, key), True = a real token of the context. "
        "Its author tested it with one text, and with four texts and four heads: no error. Three texts raise one. Give "
        "it four contexts of different lengths and compare each with the same context alone. What is its mistake "
        "called? (`list(course_lib.mistakes.CATALOGUE)` holds all names.)"
    ),
    hints=(
        "Which shape do the scores have, and which shape does the mask have where they meet?",
        "Shapes are compared from the right. Which axis of the scores stands where the mask counts its samples?",
        "With as many texts as heads, head 2 of every text gets the mask of text 2.",
    ),
    given="""\
class PatientD(nn.Module):
    def __init__(self, d_in, d_context, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_in // num_heads
        self.q_proj = nn.Linear(d_in, d_in, bias=False)
        self.k_proj = nn.Linear(d_context, d_in, bias=False)
        self.v_proj = nn.Linear(d_context, d_in, bias=False)
        self.out_proj = nn.Linear(d_in, d_in, bias=False)

    def forward(self, x, context, real):
        # (batch, query, d_in), (batch, key, d_context), (batch, key) bool
        queries = self.q_proj(x)
        keys, values = self.k_proj(context), self.v_proj(context)
        queries, keys, values = (
            each.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2)
            for each in (queries, keys, values)
        )
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.masked_fill(~real[:, None], -torch.inf).softmax(dim=-1)
        return self.out_proj((weights @ values).transpose(1, 2).flatten(2))""",
    seen="`~real[:, None]` is (batch, 1, key), and meets the scores' axes (head, query, key).",
    against={
        "mask-inverted": "True is a real token, `~` makes it hidden, and `masked_fill` fills what is True. The sense is right.",
        "batch-mixed": "A text does change with its neighbours. But which line reads the neighbours, and what of them?",
        "mask-after-softmax": "`masked_fill` comes before `softmax`.",
        "mask-discarded": "Softmax gets what `masked_fill` returns.",
        "split-without-transpose": "All three are split by unflatten, then transpose.",
        "merge-without-transpose": "The way out is right: transpose, then flatten.",
        "missing-scale": "The queries are multiplied by head_dim ** -0.5.",
        "no-causal-mask": "All of the other sequence is there already: there is nothing to hide but padding.",
    },
)
