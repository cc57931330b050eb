"""Write word after word."""

from __future__ import annotations

import torch

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

MODEL = """
import torch

def model(table):  # (token, text, vocabulary): what comes next depends on the last token, and on all and their number
    def logits(tokens):  # (batch, token) -> (batch, token, vocabulary)
        text = (tokens.sum(dim=1, keepdim=True) + tokens.shape[1]) % len(table)
        return table[tokens, text.expand(tokens.shape)]
    return logits
"""


def greedy_decode(model, tokens, num_new):
    # tokens: (batch, token), int64 -> (batch, token + num_new), int64
    for _ in range(num_new):
        # (batch, token, vocabulary) -> (batch)
        newest = model(tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, newest[:, None]], dim=1)
    return tokens


def _draw_long(rng: InputGenerator) -> list[Case]:
    """Draw a long text after which token 0 is chosen, and one that it begins: no token ends the loop."""
    words = 2 * (5 + rng.integer(3))
    table = rng.normal(words, words, words, std=1e-4)  # close to each other
    table[:, ::2, 0] += 9.0
    tokens = torch.tensor([[rng.integer(words - 1) for _ in range(40)] for _ in range(1 + rng.integer(2))])
    tokens[:, 0] += tokens.sum(dim=1) % 2
    made = FromSource(MODEL, "model", (table,))
    long = Case((made, tokens, 6), "the text has 40 tokens and token 0 is chosen")
    table, tokens = table.clone(), tokens[:, :4].clone()
    table[:, :, 0], tokens[:, 0] = 9.0, 0
    again = FromSource(MODEL, "model", (table,))
    return [long, Case((again, tokens, 5), "token 0 begins the text and is chosen each time")]


EXERCISE = FunctionExercise(
    greedy_decode,
    title="Write word after word",
    difficulty=3,
    minutes=6,
    prompt=(
        "`model(tokens)` takes token ids, (batch, token), and returns logits, (batch, token, vocabulary). Decode "
        "greedily: `num_new` times, let the model read everything so far, take the most likely next token of each "
        "sample, and put it behind the others. `num_new` may be 0. Return all ids, (batch, token + num_new)."
    ),
    hints=(
        "It is a loop of two lines: choose the next token, and append it.",
        "The logits of the last token choose: `model(tokens)[:, -1].argmax(dim=-1)` is (batch).",
        "To append it, it needs an axis for the token: `torch.cat([tokens, newest[:, None]], dim=1)`.",
    ),
    inputs={
        "model": lambda rng, words: FromSource(MODEL, "model", (rng.normal(words + 8, words + 8, words + 8),)),
        "tokens": lambda rng, batch, token, words: rng.integers(words + 8, batch, token),
    },
    calls=4,
    least={"num_new": 0},
    draw_edges=_draw_long,
    arguments={"tokens": "batch token"},
    axes="batch token",
    wrong="""
newest = model(tokens)[:, -1:].argmax(-1); return torch.cat([tokens, newest.expand(-1, num_new)], 1)
    tokens that were all chosen after the prompt: the model never read what it wrote
    ? What does the model read in the second round of the loop?
1] => 0]
    tokens that were chosen by the first token's logits
    ? Which token's logits speak about what comes after the text?
model(tokens) => model(tokens[:, -1:])
    tokens that were chosen after the last token alone; the rest of the text was not read
    ? Without a cache, what must the model read in each round?
for _ in => for round in && model(tokens) => model(tokens[:, -1:] if round else tokens)
    tokens that were chosen after the newest token alone, from the second round on
    ? Without a cache, what must the model read in each round?
model(tokens)[:, -1].argmax => model(tokens)[:, -1].argmin
    the least likely tokens
    ? Does a large logit mean likely or unlikely?
[tokens, newest[:, None]] => [newest[:, None], tokens]
    the new tokens in front of the prompt
    ? Which of the two comes first in the list that you join?
result[:, tokens.shape[1]:]
    the new tokens without the prompt
    ? How many tokens should be returned?
right(model, tokens, num_new - 1)
    one new token too few
    ? How often does your loop run?
right(model, tokens, num_new + 1)
    one new token too many
    ? How often does your loop run?
""",
)
