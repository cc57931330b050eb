"""How many blocks several sequences take that begin alike."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def blocks_taken(prefix, lengths, block_size):  # int, list of ints, int -> int
    shared = prefix // block_size  # a block that is not full is copied
    own = sum(-(-length // block_size) - shared for length in lengths)
    return shared + own


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for block_size, full, more, count in rng.size_rows(4, 4, 2, 8):
        rest = 1 + rng.integer(block_size - 1)
        prefix = full * block_size + rest
        lengths = [prefix + 1 + rng.integer(5 * more) for _ in range(count)]
        cases.append(Case((prefix, rng.unsorted(lengths), block_size)))
        even = full * block_size
        cases.append(Case((even, [even + 1 + rng.integer(5 * more) for _ in range(count)], block_size)))
    cases.append(Case((8, [16, 12], 4), "all blocks are full"))
    cases.append(Case((3, [9, 4, 5], 4), "the common beginning fills no block"))
    cases.append(Case((7, [30], 4), "there is one sequence"))
    return cases


EXERCISE = FunctionExercise(
    blocks_taken,
    title="How many blocks?",
    difficulty=2,
    minutes=5,
    prompt=(
        "Several sequences begin with the same `prefix` tokens; `lengths` holds the number of tokens of each, the "
        "common ones included. They were made by forking: blocks that the common beginning fills are shared by all "
        "sequences, and the rest of it is copied for each. How many blocks of `block_size` tokens do they take "
        "together?"
    ),
    hints=(
        "How many blocks does the common beginning *fill*?",
        "A sequence needs as many blocks as its length asks for, rounded up: `-(-length // block_size)`.",
        "Count the shared blocks once, and of each sequence those behind them.",
    ),
    draw=_draw,
    least={"prefix": 0, "block_size": 1},
    wrong="""
sum(-(-length // block_size) for length in lengths)
    the blocks of sequences that share nothing
    ? How often are the blocks of the common beginning counted?
prefix // block_size => -(-prefix // block_size)
    a block that is shared although it is not full: all sequences would write into it
    ? Where does the first token after the common beginning go?
-(-length // block_size) - shared => length // block_size - shared
    the full blocks alone
    ? How many blocks do five tokens need, if a block has four slots?
-(-length // block_size) - shared => -(-(length - prefix) // block_size)
    the tokens after the common beginning, as if they began a block of their own
    ? What lies in the first block that a sequence has for itself?
shared + own => own
    the blocks that belong to one sequence, without the shared ones
    ? Are the shared blocks taken?
-(-length // block_size) - shared => length // block_size + 1 - shared
    one block too many where the last one is exactly full
    ? How many blocks do eight tokens need, if a block has four slots?
shared + own => (shared + own) * block_size
    the number of slots, not of blocks
    ? What is asked for: blocks or slots?
""",
)
