"""A probe for padded batches: each text must come out as it does alone."""

from __future__ import annotations

import torch

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def padding_probe(code, tokens, real):
    # code(tokens, real) -> (batch, token, width); how far batch and alone are apart
    together = code(tokens, real)
    largest = torch.tensor(0.0)
    for sample in range(len(tokens)):
        kept = real[sample]  # (t)
        alone = code(tokens[sample, kept][None], real[sample, kept][None])[0]
        largest = torch.maximum(largest, (together[sample, kept] - alone).abs().max())
    return largest


def _as_number(result: object, *_: object) -> object:
    return result.item() if isinstance(result, torch.Tensor) and result.dim() == 0 else result


PADDED = """
import torch

def padded(table, flaw):
    def code(tokens, real):
        batch, num_tokens = tokens.shape
        columns = torch.arange(num_tokens).expand(batch, -1)
        positions = columns if flaw == "columns" else (real.cumsum(1) - 1).clamp(min=0)
        x = table[tokens] + 0.2 * positions[..., None]
        keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
        if flaw != "seen":
            keep = keep & (real[:1] if flaw == "first" else real)[:, None]
        scores = (x @ x.transpose(1, 2)).masked_fill(~keep, -torch.inf)
        out = scores.softmax(-1).nan_to_num() @ x
        return out - out.mean(0) * (flaw == "mixed") - 0.5 * (flaw == "lower" and batch > 1)

    return code
"""


def _draw(rng: InputGenerator) -> list[Case]:
    kinds = [
        ("the code is right", "", "left"),
        ("the code is right", "", "right"),
        ("it counts the columns", "columns", "left"),
        ("padding is seen", "seen", "left"),
        ("every sample gets the mask of the first", "first", "right"),
        ("its samples are mixed", "mixed", "right"),
        ("its outputs are lower in a batch", "lower", "left"),
    ]
    cases = []
    for about, flaw, side in rng.shuffled(kinds):
        batch, num_tokens, words = rng.sizes(3, 4, 9)
        lengths = torch.tensor([num_tokens - 1, num_tokens, 2, *[num_tokens - 2] * (batch - 3)])
        columns = torch.arange(num_tokens)
        real = columns < lengths[:, None] if side == "right" else columns >= num_tokens - lengths[:, None]
        code = FromSource(PADDED, "padded", (rng.normal(words, 5, std=0.6), flaw))
        cases.append(Case((code, rng.integers(words, batch, num_tokens), real), f"{about}, padding on the {side}"))
    return cases


EXERCISE = FunctionExercise(
    padding_probe,
    title="Write the test that catches it",
    difficulty=3,
    minutes=8,
    prompt=(
        "`code(tokens, real)` returns (batch, token, width) for a padded batch, whose padding may be on either side. "
        "Run it on the batch, and then on each text by itself, without its padding, as a batch of one. Return how far "
        "the outputs of real tokens are from each other at most, without a sign. The check gives your function code "
        "that is right, and code with five different mistakes: your number must be the same as ours for each of them."
    ),
    hints=(
        "`tokens[sample, real[sample]]` are the real tokens of a text. `[None]` makes a batch of one of them; what is "
        "`real` for such a batch?",
        "The outputs to compare are `together[sample, real[sample]]` and the output of the text alone, both (token, "
        "width).",
        "Keep the largest of all samples: a mistake may show in one of them alone.",
    ),
    draw=_draw,
    extract=_as_number,
    wrong="""
largest = torch.maximum(largest, (together[sample, kept] - alone).abs().max()) => largest = (together[sample, kept] - alone).abs().max()
    the difference of the last text alone
    ? What happens to the number of the first text when the loop goes on?
.abs().max() => .max()
    the difference with its sign: an output that is too small is overlooked
    ? What is the largest of -5 and 1, and which of them is further off?
.abs().max() => .abs().mean()
    the mean difference of a text; asked for is the largest
    ? What does a mean make of one large difference among many zeros?
(together[sample, kept] - alone).abs() => (together[sample, kept] - alone)[-1:].abs()
    the difference of each text's last word alone
    ? Which words of a text may be off?
code(tokens[sample, kept][None], real[sample, kept][None])[0] => code(tokens[sample][None], real[sample][None])[0, kept]
    the difference from the same text with its padding, as a batch of one: both have the same mistake
    ? Is a text alone if its padding comes with it?
range(len(tokens)) => range(1)
    the difference of the first text alone
    ? Which texts does your loop run over?
""",
)
