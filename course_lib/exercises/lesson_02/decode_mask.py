"""Fewer queries than keys."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def decode_mask(num_queries, num_keys):
    # two ints -> (query, key), bool, True = may attend
    keep = torch.ones(num_queries, num_keys, dtype=torch.bool)
    return keep.tril(num_keys - num_queries)


EXERCISE = FunctionExercise(
    decode_mask,
    title="Fewer queries than keys",
    difficulty=2,
    minutes=6,
    prompt=(
        "A model that writes text has computed some tokens before, and now computes the queries of the newest ones "
        "only. There are `num_keys` tokens in all, and the `num_queries` queries belong to the **last** of them: the "
        "last query is the last token. Build the causal mask. A token may attend to itself and to everything before "
        "it. `num_queries` is at most `num_keys`."
    ),
    hints=(
        "Draw 2 queries and 5 keys on paper. Which token is query 0? Which keys may it see?",
        "It is the bottom of a square mask: the last `num_queries` rows of the causal mask for `num_keys` tokens.",
        "`tril(n)` keeps n diagonals more than `tril()`. Query 0 may see `num_keys - num_queries` keys more than one.",
    ),
    inputs={"num_keys": lambda num_queries, more: num_queries + more},
    also=({"num_queries": 1}, {"more": 0}, {"num_queries": 1, "more": 0}),
    least={"num_queries": 1},
    most={"num_keys": 300},
    axes="query key",
    wrong="""
(num_keys => (num_queries
    the mask aligned at the first key: query 0 sees key 0 and nothing else [causal-top-left]
    ? Which token is query 0? How many tokens came before it?
~result
    the mask upside down: True where a key is hidden [mask-inverted]
num_keys - num_queries => num_keys
    a mask that hides nothing [no-causal-mask]
    ? May the first of the new tokens see the last one?
torch.ones(num_keys, num_keys).tril().bool()
    the square mask for all tokens; only the last of them are queries
    ? How many rows should the mask have?
result.T
    the mask with queries and keys exchanged: a row must be one query [mask-transposed]
(torch.arange(num_keys) < num_keys - num_queries).expand(num_queries, num_keys)
    a mask that shows the old tokens and hides the new ones
    ? May a token attend to itself?
result & (torch.arange(num_keys) >= num_keys - num_queries)
    a mask that hides the old tokens: each query sees the new ones only
    ? What came before the first of the new tokens?
num_keys - num_queries => num_queries
    a mask whose diagonal is moved by the number of queries
    ? How many keys more than one may query 0 see?
keep.tril => keep.triu
    a mask that shows each token itself and what comes later [mask-inverted]
    ? `tril` or `triu`?
""",
)
