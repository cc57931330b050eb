"""The mask of a row that holds several texts."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def packed_mask(lengths):  # list of ints -> bool (query, key), True = may attend
    # (token): the number of its text
    text = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    return (text[:, None] == text).tril()


EXERCISE = FunctionExercise(
    packed_mask,
    title="Several texts in one row",
    difficulty=2,
    minutes=2,
    prompt=(
        "A row holds several texts, one after the other. `lengths` lists how many tokens each has. Return the mask of "
        "the whole row, (query, key), bool, True = may attend: a token may attend to itself and to the earlier tokens "
        "of its own text."
    ),
    hints=(
        "First give each token the number of its text: with lengths [3, 2] that is 0, 0, 0, 1, 1. "
        "`repeat_interleave` repeats each element of a tensor as often as a second tensor says.",
        "Then compare these numbers as a column with the same numbers as a row, and keep the lower triangle.",
    ),
    inputs={"lengths": lambda rng, count: [*rng.sizes(count, 1, count + 4)]},
    calls=4,
    also=({"lengths": [4]}, {"lengths": [1, 1, 3]}),
    draw_edges=({"lengths": [1]}, {"lengths": [40, 3]}),
    axes="query key",
    own_dtype=True,
    wrong="""
torch.ones(sum(lengths), sum(lengths), dtype=torch.bool).tril()
    the causal mask of the row: each text also sees the texts before it
    ? Whose tokens stand before the first token of the second text?
(text[:, None] == text).tril() => text[:, None] == text
    the texts kept from each other, but later tokens of a text are not hidden [no-causal-mask]
    ? May the first token of a text see its second?
(text[:, None] == text).tril() => (text[:, None] == text).tril(-1)
    a mask that hides each token from itself [mask-off-by-one]
    ? What is left to the first token of each text?
~result
    the opposite mask, True where a key is hidden [mask-inverted]
repeat_interleave(torch.tensor(lengths)) => repeat(sum(lengths))[: sum(lengths)]
    texts dealt out token by token, 0, 1, 0, 1
    ? Of lengths [3, 2]: which numbers have the first three tokens?
torch.block_diag(*[torch.ones(max(lengths), max(lengths)).tril() for _ in lengths])[:sum(lengths), :sum(lengths)].bool()
    a mask in which all texts are as long as the longest
    ? Where does the second text begin?
""",
)
