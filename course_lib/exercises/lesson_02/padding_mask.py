"""The padding mask."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def padding_mask(lengths, num_tokens):
    # list of batch lengths, int -> (batch, 1, 1, key), bool
    real = torch.arange(num_tokens) < torch.tensor(lengths)[:, None]  # (batch, key)
    return real[:, None, None]  # (batch, key) -> (batch, 1, 1, key)


EXERCISE = FunctionExercise(
    padding_mask,
    title="The padding mask",
    difficulty=2,
    minutes=8,
    prompt=(
        "A batch holds sentences of these lengths, each filled up with padding on the right. Hide the padding from "
        "every query, with a mask that fits scores of (batch, head, query, key). Two functions help: "
        "`torch.arange(5)` is the tensor 0, 1, 2, 3, 4, and `torch.tensor(lengths)` makes a tensor "
        "of the list."
    ),
    hints=(
        "Token k of sample b is real if k is less than `lengths[b]`. Which comparison of two tensors says that of all "
        "tokens and samples at once?",
        "A column compared with a row gives a table: (batch, 1) < (key) is (batch, key). `[:, None]` makes a column: "
        "`torch.arange(num_tokens) < torch.tensor(lengths)[:, None]`.",
        "Scores are (batch, head, query, key): put two axes of size 1 between batch and key, `[:, None, None]`. That "
        "makes (batch, 1, 1, key) of (batch, key).",
    ),
    inputs={
        "num_tokens": lambda batch, more: batch + more,
        "lengths": lambda rng, batch, num_tokens: [*rng.sizes(batch, 1, num_tokens)],
    },
    also=({"lengths": lambda lengths, num_tokens: [*lengths[1:], num_tokens]}, {"batch": 1}),
    draw_edges=({"lengths": [1, 1], "num_tokens": 1}, {"num_tokens": 200}),
    least={"lengths": 0},
    axes="batch 1 1 key",
    wrong="""
~result
    the mask upside down: it is True at the padding [mask-inverted]
right([length + 1 for length in lengths], num_tokens)
    a mask that shows one token of padding [mask-off-by-one]
    ? In a sentence of three tokens, which index has the last real one?
right([length - 1 for length in lengths], num_tokens)
    a mask that hides the last real token [mask-off-by-one]
    ? In a sentence of three tokens, which index has the last real one?
result.flip(-1)
    a mask for padding on the left; here it stands on the right
    ? Where does a sentence of three stand in a row of seven?
result.mT
    a mask that hides padding as queries; nobody must look at it, so it is hidden as a key [mask-transposed]
:, None, None => :
    the right rows without axes for heads and queries: (batch, key) would line up with (query, key) [mask-rank]
result[:, 0]
    the right rows with one axis too few: (batch, 1, key) would line up with (head, query, key) [mask-rank]
right(sorted(lengths), num_tokens)
    the masks of the lengths in order of size: a sample has another one's mask
    ? Which row of the mask belongs to the first sentence of the batch?
right(sorted(lengths, reverse=True), num_tokens)
    the masks of the lengths in falling order: a sample has another one's mask
    ? Which row of the mask belongs to the first sentence of the batch?
result.long()
    the mask as integers 0 and 1; it should be bool
right([max(lengths)] * len(lengths), num_tokens)
    a mask that treats every sentence as the longest one
    ? How long is the shortest sentence of the batch?
""",
)
