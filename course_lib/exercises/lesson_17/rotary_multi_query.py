"""Multi-query attention with rotary positions and a cache."""

import torch
from torch import nn

from course_lib.exercises.lesson_07.my_rotary_attention import WRONG_ROTATIONS
from course_lib.exercises.lesson_07.rotary_table import rotary_table
from course_lib.exercises.lesson_07.rotate import rotate
from course_lib.exercises.lesson_07.rotate_neighbours import rotate_neighbours  # noqa: F401  a wrong answer calls it
from course_lib.exercises.module_exercise import ModuleExercise


class RotaryMultiQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads, base=10000.0):
        super().__init__()
        self.num_heads, self.head_dim, self.base = num_heads, d_out // num_heads, base
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        batch, num_new, _ = x.shape
        per_head = (batch, num_new, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, h, n, d)
        # one head for all: (b, n, d) -> (b, 1, n, d)
        keys, values = self.k_proj(x)[:, None], self.v_proj(x)[:, None]
        past = 0 if cache is None else cache[0].shape[2]
        # (position, pair), of the new tokens
        cos, sin = rotary_table(past + num_new, self.head_dim, self.base)
        cos, sin = cos[past:].to(x), sin[past:].to(x)
        queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin)
        if cache is not None:
            # (b, 1, past, d) and (b, 1, n, d) -> (b, 1, past + n, d)
            keys = torch.cat([cache[0], keys], dim=2)
            values = torch.cat([cache[1], values], dim=2)
        # (b, h, n, d) @ (b, 1, d, k) -> (b, h, n, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        keep = torch.ones(num_new, past + num_new, dtype=torch.bool, device=x.device)
        keep = keep.tril(past)
        # (b, h, n, d)
        context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
        output = self.out_proj(context.transpose(1, 2).reshape(batch, num_new, -1))
        return output, (keys, values)


EXERCISE = ModuleExercise(
    RotaryMultiQuery,
    title="Multi-query attention with rotary positions",
    difficulty=4,
    minutes=4,
    prompt=(
        "Multi-query attention with a cache, like the lesson's `MultiQueryWithCache`, whose queries and keys are rotated by their "
        "positions: the new tokens go on where the cache ends. Pairs are halves, and `base` is the base of the "
        "rotation, 10000 unless it is given. The keys in the cache are rotated already. The projections are `q_proj`, `k_proj`, "
        "`v_proj` and `out_proj`."
    ),
    hints=(
        "Take your class with a cache. Three lines are new, between the projections and the cache.",
        "`past`, the number of tokens in the cache, is the position of the first new token.",
        "`cos, sin = rotary_table(past + num_new, head_dim, base)`; the new tokens' rows are `cos[past:]` and "
        "`sin[past:]`. Rotate queries and keys before the keys go into the cache.",
    ),
    stub="""\
class RotaryMultiQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads, base=10000.0):
        super().__init__()

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        raise NotImplementedError  # rotary_table(num_positions, head_dim, base)""",
    in_steps=True,
    keeps_keys=True,
    kv_heads="one",
    rotary=True,
    wrong=WRONG_ROTATIONS
    + """
cos[past:].to(x), sin[past:].to(x) => cos[:num_new].to(x), sin[:num_new].to(x)
    attention whose new tokens begin at position 0 again, whatever is in the cache [positions-restart-in-cache]
rotary_table(past + num_new, self.head_dim, self.base) => rotary_table(past + num_new, self.head_dim, 10000.0)
    attention that rotates with base 10000, whatever the argument says
    ? Which of the arguments decides how fast the pairs rotate, and where do you use it?
""",
)
