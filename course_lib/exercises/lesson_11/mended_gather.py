"""Read a batch of sequences from a paged cache, with its mistake corrected."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

GIVEN = """\
def broken_gather(memory, tables, lengths):
    # (block, slot, d), tables, lengths -> (s, longest, d), bool (s, longest)
    most = max(len(table) for table in tables)
    padded = torch.tensor([table + [0] * (most - len(table)) for table in tables])
    keys = memory[padded].flatten(1, 2)  # (sequence, block, slot, d) -> (s, k, d)
    keep = (padded != 0).repeat_interleave(memory.shape[1], dim=1)  # 0 is padding
    longest = max(lengths)
    keys, keep = keys[:, :longest], keep[:, :longest]
    return keys.masked_fill(~keep[:, :, None], 0.0), keep"""


def mended_gather(memory, tables, lengths):
    # (block, slot, d), tables, lengths -> (s, longest, d), bool (s, longest)
    most = max(len(table) for table in tables)
    padded = torch.tensor([table + [0] * (most - len(table)) for table in tables])
    keys = memory[padded].flatten(1, 2)  # (sequence, block, slot, d) -> (s, k, d)
    longest = max(lengths)
    keep = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return keys[:, :longest].masked_fill(~keep[:, :, None], 0.0), keep


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for slots, width, count, more in rng.size_rows(4, 4, 2, 8):
        lengths = rng.unsorted([slots * at + 1 + rng.integer(slots - 1) for at in range(count)])
        needed = [-(-length // slots) for length in lengths]
        free = rng.shuffled(range(sum(needed) + more))
        if 0 not in free[: sum(needed)]:
            free[free.index(0)], free[0] = free[0], 0
        tables = [[free.pop(0) for _ in range(number)] for number in needed]
        cases.append(Case((rng.normal(sum(needed) + more, slots, width), tables, lengths)))
    cases.append(Case((rng.normal(3, 2, 5), [[2, 0]], [4]), "one sequence fills its blocks"))
    return cases


EXERCISE = FunctionExercise(
    mended_gather,
    title="A batch of sequences: find the mistake",
    difficulty=3,
    minutes=8,
    given=GIVEN,
    prompt=(
        "`broken_gather` reads the keys of several sequences from one paged memory, as a batch. Shorter sequences are "
        "padded: their places behind the end hold zeros, and `keep` is False there. It was tested with sequences that "
        "fill their blocks, none of them in block 0, and passed. Find the mistake, and write `mended_gather`, without "
        "it. Hint: it is one line, and it is wrong in two ways."
    ),
    hints=(
        "Which block numbers may a sequence have? And which slots of its last block hold a token?",
        "The mask should be made from `lengths`, not from the block tables.",
        "`torch.arange(longest) < torch.tensor(lengths)[:, None]` is (sequence, longest).",
    ),
    draw=_draw,
    arguments={"memory": "block slot d"},
    axes="keys keep",
    fixed="block slot",
    wrong="""
torch.arange(longest) < torch.tensor(lengths)[:, None] => (padded != 0).repeat_interleave(memory.shape[1], dim=1)[:, :longest]
    the mask of the broken code: block 0 is taken for padding, and the last block for full
    ? Which sequence holds block 0, and how many tokens are in its last block?
torch.arange(longest) < torch.tensor(lengths)[:, None] => torch.arange(longest) < torch.tensor([len(table) * memory.shape[1] for table in tables])[:, None]
    whole blocks: the slots behind the end of a sequence are taken for tokens
    ? How many tokens are in the last block?
torch.arange(longest) < torch.tensor(lengths)[:, None] => torch.arange(longest) <= torch.tensor(lengths)[:, None]
    one token too many in each shorter sequence
    ? Which position has the last of three tokens?
torch.arange(longest) < torch.tensor(lengths)[:, None] => torch.arange(longest) >= torch.tensor(lengths)[:, None]
    the opposite mask, True where a key is hidden [mask-inverted]
keys[:, :longest].masked_fill(~keep[:, :, None], 0.0), keep => keys[:, :longest], keep
    keys with what strangers left in the slots behind the end
    ? What should stand where `keep` is False?
longest = max(lengths) => longest = keys.shape[1]
    all slots of the longest table, filled or not
    ? How many tokens has the longest sequence?
""",
)
