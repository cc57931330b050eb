"""What comes after an earlier copy."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def comes_after_copy(tokens):
    # (batch, token) of integers -> (batch, query, key) of bool
    token_before = F.pad(tokens[:, :-1], (1, 0), value=-1)  # key 0 has none: -1
    # (b, q, 1) == (b, 1, k) -> (b, q, k)
    found = tokens[:, :, None] == token_before[:, None]
    return found.tril()


def repeated_tokens(rng: InputGenerator, batch: int, num_tokens: int, period: int) -> Tensor:
    """Draw a few different integers per sample and repeat them, (batch, token)."""
    rounds = torch.stack([torch.tensor(rng.sizes(period, 0, 25)) for _ in range(batch)])
    return rounds.repeat(1, num_tokens // period + 1)[:, :num_tokens]


def draw_tokens(rng: InputGenerator) -> list[Case]:
    """Draw tokens that are repeated regularly, in no order, and not at all."""
    irregular = torch.tensor([[rng.integer(4) for _ in range(11)] for _ in range(5)])  # neighbours may be equal
    return [
        Case((repeated_tokens(rng, 2, 9, 3 + rng.integer(2)),), "a few tokens are repeated again and again"),
        Case((irregular,), "tokens are repeated in no order"),
        Case((torch.tensor([rng.sizes(6, 0, 25)]),), "no token is repeated"),
    ]


EXERCISE = FunctionExercise(
    comes_after_copy,
    title="What comes after an earlier copy",
    difficulty=2,
    minutes=4,
    prompt=(
        "Where should an induction head look? Give back a table of bool, (batch, query, key), that is True where the "
        "key comes right after an earlier copy of the query's token: the token at key - 1 equals the token at query, "
        "and the key isn't later than the query. For the tokens D R D R, query 2 (the second D) has True at key 1 "
        "(the first R) and nowhere else."
    ),
    hints=(
        "Compare every token with every token first: a column of queries against a row of keys.",
        "What is the token before each key? Make a row of these, with -1 for key 0, which has none.",
        "`before = F.pad(tokens[:, :-1], (1, 0), value=-1)`. Compare `tokens[:, :, None]` with `before[:, None]`, and "
        "clear what is later than the query with `.tril()`.",
    ),
    draw=draw_tokens,
    draw_edges=lambda rng: [Case((repeated_tokens(rng, 2, 18, 5),))],
    arguments={"tokens": "batch token"},
    axes="batch query key",
    fixed="token",
    wrong="""
token_before[:, None] => tokens[:, None] && .tril() => .tril(-1)
    a table that shows the copies themselves, not what comes after them
    ? Which token is the answer: the earlier copy, or its neighbour?
token_before[:, None] => tokens[:, None] && found.tril() => found
    a table that shows all equal tokens, not what comes after an earlier copy
    ? Which token is the answer: the earlier copy, or its neighbour?
F.pad(tokens[:, :-1], (1, 0), value=-1) => F.pad(tokens[:, 1:], (0, 1), value=-1)
    a table that shows the token before a copy
    ? For D R D R, what should the second D look at?
found.tril() => found
    a table that shows later keys, too
    ? Which keys had the query not read yet?
result.tril(-1)
    a table without the keys that are the query itself: after two equal tokens it is True there
    ? For the tokens A A, which key comes right after the first A?
F.pad(tokens[:, :-1], (1, 0), value=-1) => tokens.roll(1, 1)
    a table in which key 0 comes after the last token
    ? What does `roll` do with the last column? Which token stands before the first?
-1) => 0)
    a table in which token number 0 stands before key 0, where nothing stands
    ? Which number is no token, so that no query equals it?
result.mT
    a table with queries and keys exchanged
    ? Is a row of your table one query or one key?
result & (result.flip(-1).cumsum(-1).flip(-1) == 1)
    a table that shows only what comes after the latest copy
    ? How many earlier copies can a token have?
result & (result.cumsum(-1) == 1)
    a table that shows only what comes after the first copy
    ? How many earlier copies can a token have?
""",
)
