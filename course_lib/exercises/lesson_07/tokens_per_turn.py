"""How many tokens a pair needs for a full turn."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def tokens_per_turn(head_dim, base):  # int, float -> (pair)
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    return 2 * torch.pi * base ** (2 * pair / head_dim)


EXERCISE = FunctionExercise(
    tokens_per_turn,
    title="How many tokens for a full turn?",
    difficulty=2,
    minutes=4,
    prompt=(
        "Per token, pair i of a head of `head_dim` elements is rotated by base ** (-2 i / head_dim) radians. A full "
        "turn is 2 pi radians. Return, for each pair, after how many tokens it has made a full turn: a tensor of "
        "head_dim / 2 numbers with decimals. (Distances beyond the slowest pair's turn are what a model can't tell "
        "apart by that pair alone; a larger base moves them further away.)"
    ),
    hints=(
        "If a pair rotates by a quarter of a turn per token, how many tokens does it need?",
        "Divide the full turn by the angle per token: `2 * torch.pi / speed`.",
        "`speed = base ** (-2 * torch.arange(head_dim // 2) / head_dim)`, and return `2 * torch.pi / speed`.",
    ),
    inputs={"head_dim": lambda pair: 2 * pair, "base": [100.0, 10000.0, 500000.0, 1000000.0]},
    calls=4,
    draw_edges=({"head_dim": 2}, {"head_dim": 64}),
    axes="pair",
    own_dtype=True,
    wrong="""
2 * torch.pi / result
    the angles per token
    ? Is your result large for a quick pair, or for a slow one?
1 / result
    the parts of a full turn per token: the reciprocal is asked for
    ? If it takes 4 tokens, is your result 4 or 1/4?
2 * torch.pi * base => base
    tokens for one radian, not for a full turn
    ? How many radians are a full turn?
2 * torch.pi => 360
    tokens for 360 radians: the angles are in radians, not in degrees
    ? In which unit is the angle per token?
return 2 => return 1
    tokens for half a turn
    ? Is a full turn pi or 2 pi?
(2 => (1
    the turns of speeds that fall half as fast: base ** (-i / head_dim)
    ? What stands before i in the exponent?
2 * math.pi * base ** (torch.arange(head_dim, dtype=torch.float64) / head_dim)
    one number per element; there is one per pair
    ? How far does i count?
""",
)
