"""Answers to the exercises with gaps, right and wrong, as learners fill them in."""

from torch import nn

from course_lib.exercises import ALL


def filled(name, *gaps):
    """Fill the gaps of a stub in order; what is missing stays open."""
    parts = ALL[name].stub.split("...")
    pieces = [*gaps, *["..."] * (len(parts) - 1 - len(gaps))]
    source = "".join(part + piece for part, piece in zip(parts, [*pieces, ""], strict=True))
    namespace = {"torch": __import__("torch"), "nn": nn}
    exec(compile(source, "<filled>", "exec"), namespace)
    return namespace[name]


HEAD = ("self.k_proj(x)", "keys.transpose(1, 2)", "-1", "weights")
HEADS = (
    *("d_out // num_heads", "self.num_heads", "self.head_dim", "keys.transpose(2, 3)", "hidden", "-1"),
    "context.transpose(1, 2).reshape(batch, num_tokens, -1)",
)
GROUPS = (
    *["num_kv_heads * self.head_dim"] * 2,
    *["self.num_kv_heads"] * 2,
    "self.num_heads // self.num_kv_heads",
    "keys.repeat_interleave(group, dim=1)",
    "values.repeat_interleave(group, dim=1)",
)


def instead(gaps, index, other):
    return (*gaps[:index], other, *gaps[index + 1 :])


def answers(name, gaps, others):
    return [filled(name, *instead(gaps, index, other)) for index, other in others]


RIGHT = {
    "SingleHeadWithGaps": [
        filled("SingleHeadWithGaps", *HEAD),
        *answers("SingleHeadWithGaps", HEAD, [(1, "keys.mT"), (1, "keys.permute(0, 2, 1)"), (2, "2")]),
    ],
    "MultiHeadWithGaps": [
        filled("MultiHeadWithGaps", *HEADS),
        *answers("MultiHeadWithGaps", HEADS, [(3, "keys.mT"), (5, "3"), (6, "context.transpose(1, 2).flatten(2)")]),
    ],
    "GroupedQueryWithGaps": [
        filled("GroupedQueryWithGaps", *GROUPS),
        *answers(
            "GroupedQueryWithGaps", GROUPS, [(1, "self.k_proj.out_features"), (4, "queries.shape[1] // keys.shape[1]")]
        ),
        filled(
            "GroupedQueryWithGaps",
            *GROUPS[:5],
            "keys.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2)",
            GROUPS[6],
        ),
    ],
}


def wrong(name, gaps, others):
    return [(filled(name, *instead(gaps, index, other)), *words) for index, other, *words in others]


WRONG = {
    "SingleHeadWithGaps": wrong(
        "SingleHeadWithGaps",
        HEAD,
        [
            (0, "self.q_proj(x)", "projection-reused"),
            (0, "self.v_proj(x)", "scores-from-values"),
            (1, "keys", "stopped"),
            (2, "1", "softmax-wrong-axis"),
            (2, "0", "softmax-wrong-axis"),
            (3, "scores", "no-softmax"),
        ],
    ),
    "MultiHeadWithGaps": wrong(
        "MultiHeadWithGaps",
        HEADS,
        [
            (0, "d_out", "stopped"),
            (3, "keys", "stopped"),
            (4, "~hidden", "mask-inverted"),
            (5, "-2", "softmax-wrong-axis"),
            (6, "context.reshape(batch, num_tokens, -1)", "merge-without-transpose"),
            (6, "context", "stopped"),
        ],
    ),
    "GroupedQueryWithGaps": wrong(
        "GroupedQueryWithGaps",
        GROUPS,
        [
            (0, "d_out", "it should be"),
            (2, "self.num_heads", "stopped"),
            (4, "self.num_kv_heads", "stopped"),
            (5, "keys.repeat(1, group, 1, 1)", "kv-heads-tiled"),
            (5, "values.repeat_interleave(group, dim=1)", "scores-from-values"),
            (6, "keys", "projection-reused"),
        ],
    ),
}
