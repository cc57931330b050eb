"""Hand the shared heads out."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def share_heads(keys, num_heads):
    # (batch, kv head, token, head_dim), int -> (batch, head, token, head_dim)
    heads_per_group = num_heads // keys.shape[1]
    # (b, g, t, d) -> (b, h, t, d)
    return keys.repeat_interleave(heads_per_group, dim=1)


def _draw(rng: InputGenerator) -> list[Case]:
    rows = [
        *rng.size_rows(3, 5, 2, 8),
        (2, 1, 5, 4, 3),
        (2, 3, 5, 4, 1),
        (1, 2, 1, 1, 3),
    ]  # one kv head, and as many as heads
    return [Case((rng.normal(batch, kv, tokens, width), kv * group)) for batch, kv, tokens, width, group in rows]


EXERCISE = FunctionExercise(
    share_heads,
    title="Hand the shared heads out",
    difficulty=2,
    minutes=7,
    prompt=(
        "Give every query head the keys that it reads, so that plain multi-head attention can go on from there. "
        "Consecutive heads share one, as in the lesson."
    ),
    hints=(
        "Query head i gets kv head i // (num_heads // num_kv_heads). One way: pick `keys[:, kv_head]` for each query "
        "head and put them together with `torch.stack(..., dim=1)`.",
        "Two functions of PyTorch repeat along an axis. For heads 0, 1 and twice as many query heads, "
        "`keys.repeat(1, 2, 1, 1)` gives 0, 1, 0, 1, and `keys.repeat_interleave(2, dim=1)` gives 0, 0, 1, 1.",
        "`keys.repeat_interleave(num_heads // num_kv_heads, dim=1)`, where `num_kv_heads` is `keys.shape[1]`. (It "
        "copies. Exercise 6 does without the copy.)",
    ),
    draw=_draw,
    draw_edges=lambda rng: [Case((rng.normal(2, 1, 4, 3), 1))],
    arguments={"keys": "batch kv_head token head_dim"},
    axes="batch head token head_dim",
    fixed="kv_head",
    gradients=("keys",),
    wrong=(
        Wrong(
            "the kv heads dealt out in turn, 0, 1, 0, 1",
            lambda k, n: k.repeat(1, n // k.shape[1], 1, 1),
            "kv-heads-tiled",
        ),
        Wrong("kv head 0 for every query head", lambda k, n: k[:, :1].expand(-1, n, -1, -1), "kv-head-zero-only"),
        Wrong(
            "the mean of the kv heads for every query head",
            lambda k, n: k.mean(1, keepdim=True).expand(-1, n, -1, -1),
            "heads-averaged",
            "Which one kv head does query head 0 read?",
        ),
        Wrong(
            "tokens that are repeated instead of heads",
            lambda k, n: k.repeat_interleave(n // k.shape[1], 2),
            hint="Which axis is the heads'?",
        ),
        Wrong("the kv heads as they were: there must be as many as query heads", lambda k, n: k),
        Wrong(
            "every kv head num_heads times: it should be num_heads // num_kv_heads",
            lambda k, n: k.repeat_interleave(n, 1),
            hint="How many query heads share one kv head?",
        ),
        Wrong(
            "the kv heads in reverse order, shared",
            lambda k, n: share_heads(k.flip(1), n),
            hint="Which kv head does query head 0 read?",
        ),
        Wrong(
            "the groups on an axis of their own; join them to (batch, head, token, head_dim)",
            lambda k, n: k[:, :, None].expand(-1, -1, n // k.shape[1], -1, -1),
            hint="Which two axes have to become one?",
        ),
        Wrong(
            "the last kv head for every query head",
            lambda k, n: k[:, -1:].expand(-1, n, -1, -1),
            hint="How many kv heads are read?",
        ),
    ),
)
