"""Attention with rotary positions."""

from torch import nn

from course_lib.attention import attend, causal_keep
from course_lib.exercises.lesson_04.to_heads import to_heads
from course_lib.exercises.module_exercise import ModuleExercise

from .rotary_table import rotary_table
from .rotate import rotate
from .rotate_neighbours import rotate_neighbours  # noqa: F401  a wrong answer calls it

WRONG_ROTATIONS = """
queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin) => pass
    attention without any rotation [rotary-unused]
queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin) => queries = rotate(queries, cos, sin)
    attention in which only the queries are rotated
    ? A score should depend on the distance. Which two angles are subtracted from each other?
queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin) => keys = rotate(keys, cos, sin)
    attention in which only the keys are rotated
    ? A score should depend on the distance. Which two angles are subtracted from each other?
queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin) => queries, keys, values = (rotate(x, cos, sin) for x in (queries, keys, values))
    attention whose values are rotated, too [rotary-on-values]
queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin) => queries, keys = (rotate_neighbours(x, cos, sin) for x in (queries, keys))
    attention that rotates pairs of neighbours; here the pairs are halves
    ? Which element is paired with element 0?
"""


# fmt: off
class MyRotaryAttention(nn.Module):
    def __init__(
        self, d_in, d_out, num_heads, num_kv_heads, base=100.0, positions=range(512)
    ):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim, self.base, self.positions = d_out // num_heads, base, positions
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries = to_heads(self.q_proj(x), self.num_heads)  # (b, h, t, d)
        keys = to_heads(self.k_proj(x), self.num_kv_heads)  # (b, g, t, d): g kv heads
        values = to_heads(self.v_proj(x), self.num_kv_heads)
        rows = self.positions[: x.shape[1]]  # a range: one position per token
        cos, sin = rotary_table(rows[-1] + 1, self.head_dim, self.base)
        cos, sin = cos[list(rows)].to(x), sin[list(rows)].to(x)  # (token, pair)
        queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin)
        keep = causal_keep(x.shape[1], device=x.device)
        context, _ = attend(queries, keys, values, keep)
        return self.out_proj(context.transpose(1, 2).flatten(2))


# fmt: on


EXERCISE = ModuleExercise(
    MyRotaryAttention,
    title="Attention with rotary positions",
    difficulty=3,
    minutes=6,
    prompt=(
        "Causal grouped-query attention whose queries and keys are rotated by their positions. The projections are "
        "`q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias; consecutive query heads share a kv head; pairs are "
        "halves, `base` is the base of the rotation, 100 unless it is given, and `positions` is a range that holds the "
        "position of each token, for texts of up to 512 tokens."
    ),
    hints=(
        "Project, split into heads, rotate, attend, merge, project: which of the three are rotated?",
        "`rotary_table(positions[num_tokens - 1] + 1, head_dim, base)` has all positions from 0 on. Take the rows of your "
        "tokens: `cos[list(positions[:num_tokens])]`.",
        "`attend(queries, keys, values, causal_keep(num_tokens, device=x.device))` returns context and attention "
        "weights, and shares kv heads by itself.",
    ),
    stub="class MyRotaryAttention(nn.Module): ...",
    kv_heads="any",
    rotary=True,
    wrong=WRONG_ROTATIONS
    + """
rotary_table(rows[-1] + 1, self.head_dim, self.base) => rotary_table(rows[-1] + 1, self.head_dim, 10000.0)
    attention that rotates with base 10000, whatever the argument says
    ? Which of the arguments decides how fast the pairs rotate, and where do you use it?
rotary_table(rows[-1] + 1, self.head_dim, self.base) => rotary_table(rows[-1] + 1, self.head_dim, 100.0)
    attention that rotates with base 100, whatever the argument says
    ? Which of the arguments decides how fast the pairs rotate, and where do you use it?
cos[list(rows)].to(x), sin[list(rows)].to(x) => cos[list(rows)].to(x), -sin[list(rows)].to(x)
    attention that rotates in the other direction, by the negative angles
    ? Where does the sine have a minus in (a cos t - b sin t, b cos t + a sin t)?
rows = self.positions[: x.shape[1]] => rows = range(x.shape[1])
    attention whose words are always at 0, 1, 2 and so on, whatever `positions` says
    ? Where do you use `positions`?
queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin) => from_0 = rotary_table(x.shape[1], self.head_dim, self.base); queries, keys = rotate(queries, cos, sin), rotate(keys, *(one.to(x) for one in from_0))
    attention in which only the queries are at `positions`; the keys are at 0, 1, 2 and so on
    ? At which position is the key of a word, and at which its query?
""",
)
