"""Exercises to lesson 05: all heads in one projection, and the way there from the wrapper."""

from __future__ import annotations

from course_lib.attention import MultiHeadAttention

from .exercise import Exercise
from .judges.conversion import CONVERT
from .judges.scores_by_head import SCORES_BY_HEAD
from .modules import ModuleJudge

LESSON_05 = (
    Exercise(
        "scores_by_head",
        "05",
        "Scores of all heads at once",
        2,
        4,
        SCORES_BY_HEAD,
        (
            "`@` multiplies the last two axes and leaves batch and head alone.",
            "Turn the keys in their last two axes: `keys.transpose(2, 3)`.",
            "Scale by the width of one head, the last size of the queries.",
        ),
    ),
    Exercise(
        "MultiHead",
        "05",
        "Multi-head attention with split weights",
        4,
        15,
        ModuleJudge(MultiHeadAttention, (7, 12, 3), num_heads=3),
        (
            "Four `nn.Linear` in `__init__`. In `forward`: project, cut, score, hide, weigh, mix, merge, project.",
            "You have `split_heads` and `merge_heads` from lesson 04, `causal_mask` from lesson 02.",
            "The mask is made for as many tokens as x has. After the mix: `transpose(1, 2)`, then `reshape`.",
        ),
    ),
    Exercise(
        "to_split",
        "05",
        "From the wrapper to the weight split",
        3,
        10,
        CONVERT,
        (
            "Build the module with the right sizes first: the wrapper knows `num_heads` and `head_dim`.",
            "`wrapper.heads[i].q_proj.weight` is (head_dim, d_in): in the wide matrix they lie one below the other.",
            "`torch.cat([head.q_proj.weight for head in wrapper.heads])` for each role; W^O is carried over as it is.",
        ),
    ),
)
