"""The positions of new tokens."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def next_positions(lengths, num_new):  # (batch) of int64, int -> (batch, new), int64
    ahead = torch.arange(num_new, device=lengths.device)
    return lengths[:, None] + ahead  # (batch, 1) + (new) -> (batch, new)


EXERCISE = FunctionExercise(
    next_positions,
    title="The positions of new tokens",
    difficulty=2,
    minutes=4,
    prompt=(
        "A batch of sentences is generated with a cache. Sentence b has `lengths[b]` real tokens so far (padding on "
        "the left is not counted), and `num_new` tokens are to be added to each. Return the positions of the new "
        "tokens, (batch, new); the first token of a sentence is at position 0."
    ),
    hints=(
        "A sentence of four words has positions 0 to 3. Where is the next word?",
        "Each row starts at its own length and counts up: a column of lengths plus a row of steps.",
        "`lengths[:, None] + torch.arange(num_new)`.",
    ),
    inputs={"lengths": lambda rng, batch: 2 + rng.integers(99, batch)},
    calls=4,
    first={"num_new": 1},
    least={"lengths": 0, "num_new": 1},
    most={"lengths": 100_000, "num_new": 300},
    arguments={"lengths": "batch"},
    axes="batch new",
    wrong="""
lengths[:, None] + torch.arange(num_new) - 1
    positions that start at the last word of each sentence, not behind it
    ? A sentence of four words has positions 0 to 3. Where is the next word?
lengths[:, None] + torch.arange(num_new) + 1
    positions one too large
    ? A sentence of four words has positions 0 to 3. Where is the next word?
torch.arange(num_new).expand(len(lengths), -1)
    positions that start at 0 in each step, as if there were no cache
    ? How many words are there before the new one?
right(lengths.max().expand_as(lengths), num_new)
    the positions of the longest sentence for all of them
    ? Is padding counted as a word?
lengths[:, None].expand(-1, num_new)
    the same position for all new tokens of a sentence
    ? Do two words of a sentence share a position?
result.T
    (new, batch): a row should be one sentence
    ? Which of the two is a column in your sum?
""",
)
