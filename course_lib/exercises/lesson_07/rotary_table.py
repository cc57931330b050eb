"""The table of rotations."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def rotary_table(num_tokens, head_dim, base):
    # two ints, float -> (token, pair), (token, pair)
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    speed = base ** (-2 * pair / head_dim)  # (pair)
    # (token, 1) * (pair) -> (token, pair)
    angle = torch.arange(num_tokens)[:, None] * speed
    return angle.cos(), angle.sin()


EXERCISE = FunctionExercise(
    rotary_table,
    title="The table of rotations",
    difficulty=2,
    minutes=4,
    prompt=(
        "A head of `head_dim` elements has head_dim / 2 pairs. At position p, counted from 0, pair i is rotated by the "
        "angle p * base ** (-2 i / head_dim), in radians. Give back the cosines and the sines of all angles, two "
        "tensors of (token, pair)."
    ),
    hints=(
        "First one speed per pair, then one angle per position and pair, then the cosine and the sine of it.",
        "`torch.arange` makes the positions and the pairs. A column of positions times a row of speeds is the table.",
        "`speed = base ** (-2 * torch.arange(head_dim // 2) / head_dim)` and "
        "`angle = torch.arange(num_tokens)[:, None] * speed`; give back `angle.cos(), angle.sin()`.",
    ),
    inputs={
        "num_tokens": lambda half: 2 * half + 5,  # odd, so that it is not head_dim
        "head_dim": lambda pair: 2 * pair,
        "base": [100.0, 1000.0, 10000.0, 500000.0],
    },
    calls=4,
    also=({"num_tokens": 1}, {"pair": 1}),
    axes="cos sin",
    own_dtype=True,
    wrong="""
angle.cos(), angle.sin() => (angle.sin(), angle.cos())
    the table with sines and cosines exchanged
    ? Which of the two is 1 at position 0?
-2 => -1
    speeds that fall half as fast: base ** (-i / head_dim)
    ? What stands before i in the exponent?
-2 => -4
    speeds that fall twice as fast: base ** (-4 i / head_dim)
    ? What is the exponent of pair 1? Is the 2 in it once or twice?
-2 => 2
    speeds that grow from pair to pair
    ? Which sign does the exponent have?
-2 => 0
    one speed for all pairs
    ? Where does the pair's index enter the angle?
torch.arange(num_tokens) => torch.arange(1, num_tokens + 1)
    a table that starts at position 1
    ? By which angle is the first token rotated?
-2 * pair / head_dim => -torch.linspace(0, 1, head_dim // 2, dtype=torch.float64)
    speeds whose last one is 1 / base: the exponents must not reach -1
    ? What is the exponent of the last pair, with i = head_dim / 2 - 1?
tuple(torch.cat([table, table], -1) for table in result)
    each table twice, side by side, as wide as the head; here each pair has one column
    ? How many pairs does a head have?
tuple(table.repeat_interleave(2, -1) for table in result)
    each column twice, one after the other; here each pair has one column
    ? How many pairs does a head have?
2, => 1,
    tables with an angle for each element. There is one angle per pair, and a head has head_dim / 2 pairs
    ? How far does i count?
head_dim // 2 => head_dim && -2 => -1
    tables with an angle for each element. There is one angle per pair, and a head has head_dim / 2 pairs
    ? How far does i count?
tuple(table.T for table in result)
    the tables transposed: a row must be one position
    ? Which of the two is a column when you multiply, the positions or the speeds?
angle. => angle.deg2rad().
    angles that were taken for degrees
    ? Which unit do `cos` and `sin` of PyTorch expect?
-2 * pair => -2 * (pair + 1)
    speeds whose pairs are counted from 1
    ? How fast does pair 0 turn?
pair / head_dim) => pair) / head_dim
    speeds with the power divided by head_dim, not its exponent
    ? What belongs to the exponent? Python takes the power before the division.
(-2 * pair / head_dim) => -2 * pair / head_dim
    speeds with base ** -2 times i: the exponent ends too early
    ? What belongs to the exponent? Python takes the power before the product.
-2 * pair / head_dim => -2 * pair
    speeds with a whole i in the exponent, not its share of head_dim
    ? By what is the exponent divided?
base ** (-2 * pair / head_dim) => (-2 * pair / head_dim).exp()
    speeds with the number e in place of `base`
    ? Where does your code use `base`?
angle = torch.arange(num_tokens)[:, None] * speed => angle = base ** (-2 * torch.arange(num_tokens, dtype=torch.float64)[:, None] / head_dim) * pair
    angles in which positions and pairs changed places
    ? Which of the two stands in the exponent, and which in front of it?
angle. => (2 * torch.pi * angle).
    angles that were multiplied by 2 pi
    ? Which unit do `cos` and `sin` of PyTorch expect?
angle.cos(), angle.sin() => angle
    the angles themselves; their cosines and sines are asked for
    ? Which two functions are applied to an angle?
angle.cos(), angle.sin() => angle.cos()
    the cosines alone; the sines are asked for, too
    ? How many tables does the task ask for?
angle.sin => angle.cos
    the cosines twice; the second table holds the sines
    ? What should the second table be at position 0?
head_dim) => num_tokens)
    speeds whose exponent is divided by the number of tokens
    ? By what is the exponent divided?
-2 * pair / head_dim => -2 * pair // head_dim
    speeds with a whole exponent: `//` cuts its fraction off
    ? `/` or `//`?
tuple(table.flip(1) for table in result)
    the pairs in reverse order: the fastest comes first
    ? How fast does pair 0 turn?
torch.stack(result, -1)
    both tables in one tensor; give back two
    ? What stands between the two values behind `return`?
torch.cat(result, -1)
    both tables in one tensor; give back two
    ? What stands between the two values behind `return`?
right(num_tokens, head_dim, 10000.0)
    speeds with a base of 10000, whatever `base` is
    ? Where does your code use `base`?
""",
)
