"""Hand the shared heads out."""

from course_lib.exercises.function_exercise import FunctionExercise


def share_heads(keys, num_heads):
    # (batch, kv head, token, head_dim), int -> (batch, head, token, head_dim)
    heads_per_group = num_heads // keys.shape[1]
    # (b, g, t, d) -> (b, h, t, d)
    return keys.repeat_interleave(heads_per_group, dim=1)


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
        "copies. The lesson's `decode_step` does without the copy.)",
    ),
    inputs={"num_heads": lambda kv_head, group: kv_head * group},
    also=({"kv_head": 1}, {"group": 1}, {"batch": 1, "token": 1, "head_dim": 1}),
    draw_edges=({"kv_head": 1, "group": 1},),
    arguments={"keys": "batch kv_head token head_dim"},
    axes="batch head token head_dim",
    fixed="kv_head",
    gradients=("keys",),
    wrong="""
keys.repeat(1, num_heads // keys.shape[1], 1, 1)
    the kv heads dealt out in turn, 0, 1, 0, 1 [kv-heads-tiled]
keys[:, :1].expand(-1, num_heads, -1, -1)
    kv head 0 for every query head [kv-head-zero-only]
keys.mean(1, keepdim=True).expand(-1, num_heads, -1, -1)
    the mean of the kv heads for every query head [heads-averaged]
    ? Which one kv head does query head 0 read?
1) => 2)
    tokens that are repeated instead of heads
    ? Which axis is the heads'?
keys
    the kv heads as they were: there must be as many as query heads
heads_per_group, => num_heads,
    every kv head num_heads times: it should be num_heads // num_kv_heads
    ? How many query heads share one kv head?
right(keys.flip(1), num_heads)
    the kv heads in reverse order, shared
    ? Which kv head does query head 0 read?
keys[:, :, None].expand(-1, -1, num_heads // keys.shape[1], -1, -1)
    the groups on an axis of their own; join them to (batch, head, token, head_dim)
    ? Which two axes have to become one?
keys[:, -1:].expand(-1, num_heads, -1, -1)
    the last kv head for every query head
    ? How many kv heads are read?
""",
)
