"""Read a sequence from a paged cache."""

from course_lib.exercises.function_exercise import FunctionExercise


def gather_blocks(memory, block_table, length):
    # (block, slot, width), list of ints, int -> (token, width)
    own_blocks = memory[block_table]  # in the order of the sequence
    # (b, s, d) -> (b * s, d), without the slots that are not filled
    return own_blocks.flatten(0, 1)[:length]


EXERCISE = FunctionExercise(
    gather_blocks,
    title="Read a paged cache",
    difficulty=2,
    minutes=2,
    prompt=(
        "`memory`, (block, slot, width), holds the keys of many sequences, in blocks. `block_table` lists the blocks "
        "of one sequence in the order of its tokens, and `length` is the number of its tokens. Give back its keys, "
        "(token, width). The last block may hold slots that are not filled."
    ),
    hints=(
        "A list of ints is an index: `memory[block_table]` takes these blocks, in this order.",
        "`flatten(0, 1)` puts the slots of all blocks in one row; the first `length` of them are tokens.",
    ),
    inputs={
        "block": lambda count, extra: count + extra,
        "block_table": lambda rng, block, count: rng.unsorted(rng.shuffled(range(block))[:count]),
        "length": lambda rng, count, slot: count * slot - 1 - rng.integer(slot - 1),
    },
    calls=4,
    special={"the last block is full": {"length": lambda count, slot: count * slot}},
    draw_edges=(
        {"block_table": [1], "length": 1},
        {"block_table": [2, 0], "length": lambda slot: 2 * slot, "width": "2*slot"},
    ),
    arguments={"memory": "block slot width"},
    axes="token width",
    fixed="block slot",
    wrong="""
own_blocks. => memory.
    the first blocks of the memory, whoever they belong to
    ? Which blocks are those of this sequence?
memory[sorted(block_table)].flatten(0, 1)[:length]
    the right blocks in the order of the memory, not of the sequence
    ? Which block holds the first tokens?
memory[block_table].flatten(0, 1)
    all slots of the blocks, filled or not
    ? How many tokens are in the last block?
memory[block_table].transpose(0, 1).flatten(0, 1)[:length]
    the slots of the blocks taken in turn: first all slots 0, then all slots 1
    ? Which two tokens are neighbours in the memory?
memory[block_table].flatten(0, 1)[-length:]
    the last `length` slots in place of the first
    ? At which end are the slots that are not filled?
memory[block_table[:-1]].flatten(0, 1)
    one block too few
    ? Where are the last tokens?
""",
)
