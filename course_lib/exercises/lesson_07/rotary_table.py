"""The table of rotations."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def rotary_table(num_tokens, head_dim, base):
    # two ints, float -> (token, pair), (token, pair)
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    speed = base ** (-2 * pair / head_dim)  # (pair)
    # (token, 1) * (pair) -> (token, pair)
    angle = torch.arange(num_tokens)[:, None] * speed
    return angle.cos(), angle.sin()


def _angle(num_tokens: int, head_dim: int, base: float, factor: float = -2.0, first: int = 0) -> Tensor:
    speed = base ** (factor * torch.arange(head_dim // 2, dtype=torch.float64) / head_dim)
    return (torch.arange(num_tokens) + first)[:, None] * speed


def _table(angle: Tensor) -> tuple[Tensor, Tensor]:
    return angle.cos(), angle.sin()


def _to_the_end(num_tokens: int, head_dim: int, base: float) -> tuple[Tensor, Tensor]:
    speed = base ** -torch.linspace(0, 1, head_dim // 2, dtype=torch.float64)
    return _table(torch.arange(num_tokens)[:, None] * speed)


def _pairs(head_dim: int) -> Tensor:
    return torch.arange(head_dim // 2, dtype=torch.float64)


def _of_speed(num_tokens: int, speed: Tensor) -> tuple[Tensor, Tensor]:
    return _table(torch.arange(num_tokens)[:, None] * speed)


def _draw(rng: InputGenerator) -> list[Case]:
    bases = rng.shuffled([100.0, 1000.0, 10000.0, 500000.0])
    odd = [2 * size + 1 for size in rng.sizes(4, 1, 5)]  # so that the number of tokens is not head_dim
    pairs = rng.sizes(4, 3, 8)
    pairs = [pair if pair != tokens else pair + 1 for pair, tokens in zip(pairs, odd, strict=True)]
    cases = [Case((tokens, 2 * pair, base)) for tokens, pair, base in zip(odd, pairs, bases, strict=True)]
    return [*cases, Case((1, 8, 10000.0)), Case((4, 2, 10000.0))]  # one token; one pair


WIDE = "tables with an angle for each element. There is one angle per pair, and a head has head_dim / 2 pairs"

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
    draw=_draw,
    axes="cos sin",
    own_dtype=True,
    wrong=(
        Wrong(
            "the table with sines and cosines exchanged",
            lambda t, d, b: _table(_angle(t, d, b))[::-1],
            hint="Which of the two is 1 at position 0?",
        ),
        Wrong(
            "speeds that fall half as fast: base ** (-i / head_dim)",
            lambda t, d, b: _table(_angle(t, d, b, -1.0)),
            hint="What stands before i in the exponent?",
        ),
        Wrong(
            "speeds that fall twice as fast: base ** (-4 i / head_dim)",
            lambda t, d, b: _table(_angle(t, d, b, -4.0)),
            hint="What is the exponent of pair 1? Is the 2 in it once or twice?",
        ),
        Wrong(
            "speeds that grow from pair to pair",
            lambda t, d, b: _table(_angle(t, d, b, 2.0)),
            hint="Which sign does the exponent have?",
        ),
        Wrong(
            "one speed for all pairs",
            lambda t, d, b: _table(_angle(t, d, b, 0.0)),
            hint="Where does the pair's index enter the angle?",
        ),
        Wrong(
            "a table that starts at position 1",
            lambda t, d, b: _table(_angle(t, d, b, first=1)),
            hint="By which angle is the first token rotated?",
        ),
        Wrong(
            "speeds whose last one is 1 / base: the exponents must not reach -1",
            _to_the_end,
            hint="What is the exponent of the last pair, with i = head_dim / 2 - 1?",
        ),
        Wrong(
            "each table twice, side by side, as wide as the head; here each pair has one column",
            lambda t, d, b: tuple(torch.cat([one, one], -1) for one in _table(_angle(t, d, b))),
            hint="How many pairs does a head have?",
        ),
        Wrong(
            "each column twice, one after the other; here each pair has one column",
            lambda t, d, b: tuple(one.repeat_interleave(2, -1) for one in _table(_angle(t, d, b))),
            hint="How many pairs does a head have?",
        ),
        Wrong(
            WIDE,
            lambda t, d, b: _table(torch.arange(t)[:, None] * b ** (-2 * torch.arange(d, dtype=torch.float64) / d)),
            hint="How far does i count?",
        ),
        Wrong(
            WIDE,
            lambda t, d, b: _table(torch.arange(t)[:, None] * b ** (-torch.arange(d, dtype=torch.float64) / d)),
            hint="How far does i count?",
        ),
        Wrong(
            "the tables transposed: a row must be one position",
            lambda t, d, b: _table(_angle(t, d, b).T),
            hint="Which of the two is a column when you multiply, the positions or the speeds?",
        ),
        Wrong(
            "angles that were taken for degrees",
            lambda t, d, b: _table(_angle(t, d, b).deg2rad()),
            hint="Which unit do `cos` and `sin` of PyTorch expect?",
        ),
        Wrong(
            "speeds whose pairs are counted from 1",
            lambda t, d, b: _of_speed(t, b ** (-2 * (_pairs(d) + 1) / d)),
            hint="How fast does pair 0 turn?",
        ),
        Wrong(
            "speeds with the power divided by head_dim, not its exponent",
            lambda t, d, b: _of_speed(t, b ** (-2 * _pairs(d)) / d),
            hint="What belongs to the exponent? Python takes the power before the division.",
        ),
        Wrong(
            "speeds with base ** -2 times i: the exponent ends too early",
            lambda t, d, b: _of_speed(t, b**-2 * _pairs(d) / d),
            hint="What belongs to the exponent? Python takes the power before the product.",
        ),
        Wrong(
            "speeds with a whole i in the exponent, not its share of head_dim",
            lambda t, d, b: _of_speed(t, b ** (-2 * _pairs(d))),
            hint="By what is the exponent divided?",
        ),
        Wrong(
            "speeds with the number e in place of `base`",
            lambda t, d, b: _of_speed(t, (-2 * _pairs(d) / d).exp()),
            hint="Where does your code use `base`?",
        ),
        Wrong(
            "angles in which positions and pairs changed places",
            lambda t, d, b: _table(b ** (-2 * torch.arange(t, dtype=torch.float64)[:, None] / d) * _pairs(d)),
            hint="Which of the two stands in the exponent, and which in front of it?",
        ),
        Wrong(
            "angles that were multiplied by 2 pi",
            lambda t, d, b: _table(2 * torch.pi * _angle(t, d, b)),
            hint="Which unit do `cos` and `sin` of PyTorch expect?",
        ),
        Wrong(
            "the angles themselves; their cosines and sines are asked for",
            lambda t, d, b: _angle(t, d, b),
            hint="Which two functions are applied to an angle?",
        ),
        Wrong(
            "the cosines alone; the sines are asked for, too",
            lambda t, d, b: _angle(t, d, b).cos(),
            hint="How many tables does the task ask for?",
        ),
        Wrong(
            "the cosines twice; the second table holds the sines",
            lambda t, d, b: (_angle(t, d, b).cos(),) * 2,
            hint="What should the second table be at position 0?",
        ),
        Wrong(
            "speeds whose exponent is divided by the number of tokens",
            lambda t, d, b: _of_speed(t, b ** (-2 * _pairs(d) / t)),
            hint="By what is the exponent divided?",
        ),
        Wrong(
            "speeds with a whole exponent: `//` cuts its fraction off",
            lambda t, d, b: _of_speed(t, b ** (-2 * _pairs(d) // d)),
            hint="`/` or `//`?",
        ),
        Wrong(
            "the pairs in reverse order: the fastest comes first",
            lambda t, d, b: _of_speed(t, b ** (-2 * _pairs(d).flip(0) / d)),
            hint="How fast does pair 0 turn?",
        ),
        *(
            Wrong(
                "both tables in one tensor; give back two",
                lambda t, d, b, join=join: join(_table(_angle(t, d, b)), -1),
                hint="What stands between the two values behind `return`?",
            )
            for join in (torch.stack, torch.cat)
        ),
        Wrong(
            "speeds with a base of 10000, whatever `base` is",
            lambda t, d, b: _table(_angle(t, d, 10000.0)),
            hint="Where does your code use `base`?",
        ),
    ),
)
