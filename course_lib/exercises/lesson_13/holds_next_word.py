"""Which keys hold the word that comes next."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise

from .comes_after_copy import draw_tokens, repeated_tokens


def holds_next_word(tokens):
    # (batch, token) of integers -> (batch, query, key) of bool
    following = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], -1)], dim=1)
    # (b, q, 1) == (b, 1, k) -> (b, q, k)
    found = following[:, :, None] == tokens[:, None]
    return found.tril()


EXERCISE = FunctionExercise(
    holds_next_word,
    title="Which keys hold the next word",
    difficulty=2,
    minutes=3,
    prompt=(
        "Where could a head find the word that comes next? Return a table of bool, (batch, query, key), that is True "
        "where the key's token equals the token *after* the query, and the key isn't later than the query. For the "
        "tokens D R D R, query 1 (the first R, after which comes a D) has True at key 0, query 2 at key 1. After the "
        "last token comes nothing, so its row is False."
    ),
    hints=(
        "Compare a column of queries with a row of keys. What does a query stand for here?",
        "Shift the tokens by one, `tokens[:, 1:]`, and put a -1 at the end, which is no token.",
        "Compare `following[:, :, None]` with `tokens[:, None]`, and clear what is later than the query, `.tril()`.",
    ),
    draw=draw_tokens,
    draw_edges=lambda rng: [Case((repeated_tokens(rng, 2, 18, 5),))],
    arguments={"tokens": "batch token"},
    axes="batch query key",
    fixed="token",
    wrong="""
following[:, :, None] => tokens[:, :, None]
    a table of the keys that equal the query itself, not the word after it
    ? Which word does the model look for when it has read the query?
found.tril() => found
    a table that shows later keys, too
    ? Which keys had the query not read yet?
result.tril(-1)
    a table without the keys that are the query itself: before two equal tokens it is True there
    ? For the tokens A A, which key holds what comes after the first A?
torch.full_like(tokens[:, :1], -1) => tokens[:, :1]
    a table in which the first token comes after the last
    ? What comes after the last token?
torch.full_like(tokens[:, :1], -1) => torch.zeros_like(tokens[:, :1])
    a table in which token number 0 comes after the last
    ? Which number is no token?
found.tril() => found.triu()
    a table that shows only the keys that are later than the query
    ? Which keys has the query read already?
following[:, :, None] == tokens[:, None] => tokens[:, :, None] == following[:, None]
    a table of the keys *before* the query's own word: the keys were shifted, not the queries
    ? Which of the two is shifted: the word that you look for, or the words that you look at?
torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], -1)], dim=1) => torch.cat([torch.full_like(tokens[:, :1], -1), tokens[:, :-1]], dim=1)
    a table of the word before the query, in place of the one after it
    ? In which direction do you shift the tokens?
before = torch.cat([torch.full_like(tokens[:, :1], -1), tokens[:, :-1]], dim=1); return (tokens[:, :, None] == before[:, None]).tril()
    a table of what comes after an earlier copy of the query: that is an induction head's
    ? Which word is wanted: the one that did come after the query before, or the one that comes after it now?
result.mT
    a table with queries and keys exchanged
    ? Is a row of your table one query or one key?
""",
)
