"""Go on with all texts of a padded batch at once."""

import torch

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def write_batch(logits_of, tokens, real, num_new):
    # logits_of(tokens, real) -> (batch, token, word); (b, t) int64, (b, t) bool, int
    # -> tokens and real with num_new more columns
    samples = torch.arange(len(tokens), device=tokens.device)
    for _ in range(num_new):
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        last = (columns * real).argmax(dim=1)  # of the real words of each row, (b)
        logits = logits_of(tokens, real)[samples, last]  # (b, t, word) -> (b, word)
        new = logits.argmax(dim=-1, keepdim=True)  # (b, 1)
        tokens = torch.cat([tokens, new], dim=1)
        real = torch.cat([real, torch.ones_like(new, dtype=torch.bool)], dim=1)
    return tokens, real


MODEL = """
import torch

def model_of(table):
    def logits_of(tokens, real):  # a word depends on all real ones up to it, and on how many there are
        seen = table[tokens] * real[..., None]
        return seen.cumsum(1) * (1 + real.cumsum(1)[..., None] % 3) + table[tokens].roll(1, -1)

    return logits_of
"""


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for number, (batch, num_tokens, num_new) in enumerate(rng.size_rows(4, 3, 2, 9)):
        lengths = torch.tensor([num_tokens, 1, *(1 + rng.integer(num_tokens) for _ in range(batch - 2))])
        columns = torch.arange(num_tokens)
        side = ("left", "right")[number % 2]
        real = columns < lengths[:, None] if side == "right" else columns >= num_tokens - lengths[:, None]
        model = FromSource(MODEL, "model_of", (rng.normal(11, 11),))
        cases.append(Case((model, rng.integers(11, batch, num_tokens), real, num_new), f"padding is on the {side}"))
    return cases


EXERCISE = FunctionExercise(
    write_batch,
    title="Write several texts at once",
    difficulty=3,
    minutes=6,
    prompt=(
        "`logits_of(tokens, real)` scores each word as the next one, after each token: (batch, token, word). `tokens` "
        "and `real` are a padded batch, whose padding may be on either side. Append to each row the likeliest next word "
        "after its last *real* word, which is a real word from then on; do so `num_new` times, and return both tables."
    ),
    hints=(
        "One round: find the column of each row's last real word, read the logits there, take the largest, append.",
        "`(torch.arange(num_columns) * real).argmax(dim=1)` is the last column that is real. Two index tensors side by "
        "side, `logits[samples, last]`, choose one token per row.",
        "`torch.cat([tokens, new], dim=1)`, with `new` of (batch, 1), and a column of True for `real`. Do all of it "
        "in a loop of `num_new` rounds: the columns grow, so find the last one anew each time.",
    ),
    draw=_draw,
    axes="tokens real",
    wrong="""
[samples, last] => [:, -1]
    texts that go on after the last column, which is padding in a row that is padded on the right
    ? What stands in the last column of a short row?
[samples, last] => [samples, real.sum(1) - 1]
    texts that go on after the column whose number is the count of real words: with padding on the left, that isn't the last real one
    ? Where does a row begin whose padding is on the left?
(columns * real).argmax(dim=1) => real.int().argmax(dim=1)
    texts that go on after the first real word
    ? Which real word of a row has read all the others?
last = (columns * real).argmax(dim=1) => last = last if _ else (columns * real).argmax(dim=1)
    new words that are all read in one column, which was found once, before the first of them
    ? Where is the last real word when the second new one is due?
torch.ones_like => torch.zeros_like
    new words that don't count as real, so that all but the first go on after the same word
    ? Is the new word a real one when the next is written?
argmax(dim=-1, keepdim=True) => argmin(dim=-1, keepdim=True)
    the unlikeliest words
    ? Which end of the logits is the likeliest word?
right(logits_of, tokens, torch.ones_like(real), num_new)
    texts whose padding counts as real words
    ? What do you give to `logits_of` as `real`?
right(logits_of, tokens, real, 1)
    one new word, whatever `num_new` is
    ? How often should the loop run?
return tokens, real => return tokens[:, -num_new:], real[:, -num_new:]
    the new words alone
    ? How many columns should the result have?
""",
)
