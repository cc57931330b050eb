"""Find a token in a paged cache."""

from course_lib.exercises.function_exercise import FunctionExercise


def flat_slot(position, block_table, block_size):  # int, list of ints, int -> int
    block = block_table[position // block_size]
    return block * block_size + position % block_size


EXERCISE = FunctionExercise(
    flat_slot,
    title="The slot in a paged cache",
    difficulty=2,
    minutes=5,
    prompt=(
        "A paged cache cuts its memory into blocks of `block_size` slots: block 0 has the first `block_size` slots of "
        "the memory, block 1 the next ones, and so on. `block_table` lists the blocks of one sequence in the order of "
        "its tokens. In which slot of the memory is the token at `position`? All are counted from 0."
    ),
    hints=(
        "Which entry of the block table does the token belong to? With block_size=4, token 6 belongs to entry 1.",
        "And in its block it is number `position % block_size`.",
        "The first slot of a block is `block * block_size`.",
    ),
    inputs={
        "block_table": lambda rng, count: rng.unsorted([0, *rng.sizes(count - 1, 1, 3 * count - 1)]),
        "position": lambda count, block_size: count * block_size,
    },
    sizes=(3, 8),
    also=({"count": 6, "block_size": 1},),
    each=("position",),
    least={"position": 0},
    wrong="""
position
    the position itself, as in a cache without blocks
    ? What is the block table for?
block_table[position // block_size]
    the entry of the block table alone
    ? How many slots are in front of that block, and how many in front of the token within it?
position % block_size => 0
    the first slot of the token's block
    ? Where is the token within its block?
position % block_size
    the slot within the block
    ? How many slots of the memory are in front of the block?
block * block_size => block
    the block's number added to the slot: a block is not one slot wide
    ? How many slots has a block?
position % block_size => position
    the position counted from the first slot of its block
    ? Where is the token within its block?
block_table[position % len(block_table)] * block_size + position // len(block_table)
    tokens dealt out to the blocks in turn
    ? Are tokens 0 and 1 in the same block?
(block_table[position // block_size], position % block_size)
    block and slot as a pair
    ? How many slots of the memory are in front of the block?
""",
)
