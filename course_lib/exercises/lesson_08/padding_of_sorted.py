"""How much padding is left when texts are sorted by length first."""

from __future__ import annotations

from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def padding_of_sorted(lengths, batch):
    # (text) of int64, int -> int: padding tokens of all batches together
    groups = lengths.sort().values.split(batch)
    return sum(int((group.max() - group).sum()) for group in groups)


def _lengths(rng: InputGenerator, text: int) -> Tensor:
    return 1 + rng.integers(90, 4 * text)


EXERCISE = FunctionExercise(
    padding_of_sorted,
    title="Less padding",
    difficulty=2,
    minutes=5,
    prompt=(
        "Padding costs as much as words do. So texts of about the same length are put together: sort the texts by "
        "length, shortest first, cut them into batches of `batch` texts (the last one may be smaller), and pad each batch to its own "
        "longest text. Return how many padding tokens all batches have together."
    ),
    hints=(
        "A batch needs, for each of its texts, as many padding tokens as its longest text is longer.",
        "`lengths.sort().values.split(batch)` are the lengths of each batch.",
        "`(group.max() - group).sum()` for each group, and the sum of these as an int.",
    ),
    inputs={"lengths": _lengths, "batch": [2, 3, 5]},
    calls=5,
    least={"batch": 1},
    arguments={"lengths": "text"},
    axes="",
    wrong="""
lengths.sort().values => lengths
    the padding without sorting
    ? Where does your code sort?
lengths.sort() => lengths.sort(descending=True)
    the padding with the longest text first
    ? Which texts are left over for the last batch, which may be smaller?
group.max() => lengths.max()
    the padding up to the longest text of all, in every batch
    ? To which length is a batch padded?
(group.max() - group) => group
    the number of words
    ? How many padding tokens does the longest text of a batch need?
(group.max() - group).sum()) => group.max() * len(group))
    the size of the tables, words included
    ? Are words padding?
.split(batch) => .chunk(batch)
    the padding of `batch` batches; asked for are batches of `batch` texts
    ? What does the number in `chunk` count, and what the one in `split`?
groups) => groups if len(group) == batch)
    the padding without the last batch, which is smaller
    ? What happens to the texts that are left over?
""",
)
