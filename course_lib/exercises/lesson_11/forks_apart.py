"""The test that catches two sequences that write into one page."""

from __future__ import annotations

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

PAGES = """
import torch

class Pages:
    def __init__(self, block_size, flaw):
        self.size, self.flaw = block_size, flaw
        self.blocks, self.tables, self.lengths = [], [], []

    def start(self):
        self.tables.append([])
        self.lengths.append(0)
        return len(self.tables) - 1

    def append(self, sequence, token):
        table, length = self.tables[sequence], self.lengths[sequence]
        if length == len(table) * self.size:
            table.append(len(self.blocks))
            self.blocks.append([None] * self.size)
        self.blocks[table[length // self.size]][length % self.size] = token
        self.lengths[sequence] += 1

    def fork(self, sequence):
        twin = self.start()
        table, length = self.tables[sequence], self.lengths[sequence]
        self.tables[twin], self.lengths[twin] = list(table), length
        if self.flaw == "one table":
            self.tables[twin] = table
        if length % self.size and self.flaw != "shared":
            copied = [None] * self.size if self.flaw == "empty" else list(self.blocks[table[-1]])
            self.blocks.append(copied)
            self.tables[twin][-1] = len(self.blocks) - 1
        if self.flaw == "late":
            self.lengths[twin] = len(table) * self.size
        return twin

    def read(self, sequence):
        table = self.tables[sequence]
        return [token for block in table for token in self.blocks[block]][: self.lengths[sequence]]

def pages(block_size, flaw):
    return Pages(block_size, flaw)
"""


def forks_apart(pages, prompt, first, second):
    # an object, three lists of ints -> two bools
    one = pages.start()
    for token in prompt:
        pages.append(one, token)
    other = pages.fork(one)
    for token in first:
        pages.append(one, token)
    for token in second:
        pages.append(other, token)
    return pages.read(one) == prompt + first, pages.read(other) == prompt + second


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for about, flaw, rest in rng.shuffled(
        [
            ("the pages are right", "", 1),
            ("the pages are right, and the prompt fills its blocks", "", 0),
            ("the last block is shared although it isn't full", "shared", 1),
            ("the last block is shared although it isn't full", "shared", 2),
            ("full blocks are shared", "shared", 0),
            ("the fork begins after the empty slots", "late", 1),
            ("both have one block table", "one table", 1),
            ("the copy of the last block is empty", "empty", 1),
        ]
    ):
        size = 3 + rng.integer(4)
        tokens = iter(rng.shuffled(range(10, 99)))
        counts = size + rest, size + rng.integer(4), 1 + rng.integer(2)
        lists = [[next(tokens) for _ in range(count)] for count in counts]
        if flaw == "shared" and rest == 2:
            lists = [lists[0], lists[2], lists[1]]
        cases.append(Case((FromSource(PAGES, "pages", (size, flaw)), *lists), about))
    return cases


EXERCISE = FunctionExercise(
    forks_apart,
    title="Write the test that catches a shared page",
    difficulty=3,
    minutes=8,
    prompt=(
        "`pages` is somebody's paged memory, for tokens in place of keys. `pages.start()` returns the number of a new "
        "sequence, `pages.append(sequence, token)` writes one token, `pages.fork(sequence)` returns a new sequence "
        "that begins with the same tokens, and `pages.read(sequence)` returns a list of all tokens of a sequence. "
        "Write `prompt` into a sequence, fork it, let the old sequence go on with `first` and then the new one with "
        "`second`. Return two bools: whether the old one, and whether the new one, then reads back what was written to "
        "it, and nothing else."
    ),
    hints=(
        "The old sequence should be `prompt + first` in the end, the new one `prompt + second`.",
        "Read both only after both have been written: the second may overwrite what the first wrote.",
        "Two comparisons, one for each sequence, with a comma between them, make the two bools.",
    ),
    draw=_draw,
    axes="old new",
    wrong="""
one = pages.start(); [pages.append(one, each) for each in prompt]; other = pages.fork(one); [pages.append(one, each) for each in first]; early = pages.read(one); [pages.append(other, each) for each in second]; return early == prompt + first, pages.read(other) == prompt + second
    the old sequence as it is before the new one has gone on
    ? Whose tokens are overwritten if both write into one block: those that were written first, or last?
pages.read(one) == prompt + first, pages.read(other) == prompt + second => pages.read(one)[: len(prompt)] == prompt, pages.read(other)[: len(prompt)] == prompt
    whether both still begin with the prompt
    ? Which tokens could the new sequence overwrite?
pages.read(one) == prompt + first, pages.read(other) == prompt + second => len(pages.read(one)) == len(prompt + first), len(pages.read(other)) == len(prompt + second)
    whether both have the right length
    ? Can a sequence of the right length hold a stranger's tokens?
pages.read(one) == prompt + first, pages.read(other) == prompt + second => pages.read(other) == prompt + second, pages.read(one) == prompt + first
    the new sequence first, and the old one second
    ? In which order are the two asked for?
other = pages.fork(one) => other = one
    one sequence twice, and no fork
    ? Which method makes the second sequence?
== prompt + second => == prompt + first + second
    the new sequence compared with all that was written to both
    ? What should the new sequence know of `first`?
""",
)
