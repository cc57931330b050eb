"""A probe for caches: the tokens in pieces must give what all tokens at once give."""

from __future__ import annotations

import torch

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def cache_probe(code, x, size):
    # code(x, cache) -> (batch, token, width); how far pieces are from all at once
    cache = {}
    pieces = [code(piece, cache) for piece in x.split(size, dim=1)]
    return (torch.cat(pieces, dim=1) - code(x, {})).abs().max()


def _as_number(result: object, *_: object) -> object:
    return result.item() if isinstance(result, torch.Tensor) and result.dim() == 0 else result


CACHED = """
import torch

def with_cache(weight, flaw):
    def code(x, cache):
        start = cache["rows"].shape[1] if cache else 0
        place = torch.arange(x.shape[1]) + (0 if flaw == "position" else start)
        rows = x @ weight + 0.3 * place[:, None]
        queries = rows
        if cache:
            rows = torch.cat([cache["rows"], rows], dim=1)
        cache["rows"] = rows
        scores = queries @ rows.transpose(1, 2)
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1 if flaw == "mask" else start + 1)
        off = 2.0 * (flaw == "once" and start == 2)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ rows + off

    return code
"""


def _draw(rng: InputGenerator) -> list[Case]:
    kinds = [
        ("the code is right", "", 2),
        ("the code is right", "", 1),
        ("its mask is top-left", "mask", 1),
        ("its mask is top-left", "mask", 2),
        ("its positions begin at 0 in each piece", "position", 3),
        ("its positions begin at 0 in each piece", "position", 2),
        ("one piece, not the last, is off", "once", 1),
    ]
    cases = []
    for about, flaw, size in rng.shuffled(kinds):
        batch, num_tokens, width = rng.sizes(3, 5, 9)
        weight = rng.normal(width, width, std=0.5 * width**-0.5)
        code = FromSource(CACHED, "with_cache", (weight, flaw))
        cases.append(Case((code, rng.normal(batch, num_tokens, width), size), about))
    return cases


EXERCISE = FunctionExercise(
    cache_probe,
    title="In pieces and at once",
    difficulty=2,
    minutes=3,
    prompt=(
        "`code(x, cache)` returns (batch, token, width). The cache is a dict, empty at first, in which the code keeps "
        "what it needs of the tokens so far. Run x in pieces of `size` tokens with one cache, run it at once with an "
        "empty one, and return the largest difference of the two outputs, without its sign."
    ),
    hints=(
        "`x.split(size, dim=1)` makes the pieces; the last one may be shorter.",
        "`torch.cat(pieces, dim=1)` joins the outputs. All pieces share one `cache = {}`; the run at once gets "
        "another, `{}`.",
    ),
    draw=_draw,
    extract=_as_number,
    wrong="""
code(piece, cache) => code(piece, {})
    the difference if each piece begins with an empty cache
    ? In which line is the cache made, and how often does that line run?
code(x, {}) => code(x, cache)
    the difference if the run at once begins with the cache that the pieces have filled
    ? What is in the cache after the last piece?
.abs().max() => .max()
    the difference with its sign: an output that is too small is overlooked
    ? What is the largest of -5 and 1, and which of them is further off?
.max() => .mean()
    the mean difference instead of the largest
    ? What does a mean make of one large difference among many zeros?
.abs() => [:, -1].abs()
    the difference of the last token alone
    ? Which tokens of the output does it compare?
right(code, x, 1)
    the difference for pieces of one token, whatever `size` is
    ? Where does your code use `size`?
.abs() => [0].abs()
    the difference of the first sample alone
    ? Which axis holds the samples?
right(code, x, -(-x.shape[1] // size))
    the difference for `size` pieces, not for pieces of `size` tokens
    ? What does the number in `chunk` count, and what the one in `split`?
right(code, x[:, : x.shape[1] // size * size], size)
    the difference without the last piece, which is shorter
    ? Which tokens are left over if `size` does not divide their number?
""",
)
