"""Slips: what they do to a function, and in which words."""

import ast

import pytest
import torch

from course_lib.mutations import Watched, run_source, slips


def weights(queries, keys, num_hidden):
    scores = queries @ keys.T / queries.shape[-1] ** 0.5
    hidden = torch.arange(len(keys)) < num_hidden
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)


def joined(parts, first, size):
    total = torch.zeros(3)
    for start in range(0, 6, size):
        total += parts[start : start + size].sum(0)
    return torch.cat([total, first], dim=0) if size > 1 else total


QUERIES, KEYS = torch.randn(3, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)


def found(function, arguments, shapes, axes=()):
    """Slip's words -> what the function returns after it."""
    sizes = {size: name for shape, names in shapes.items() for size, name in zip(shape, names, strict=True)}
    watched = Watched(function, sizes, shapes)
    result = watched.watching(function.__globals__)(*arguments)
    values = {}
    for slip in slips(watched, result, axes):
        code = watched.source.edited(slip.edits)
        ast.parse(code)
        values.setdefault(slip.words, (run_source(code, "<slip>", dict(function.__globals__))[function.__name__], slip))
    return values


@pytest.fixture(scope="module")
def of_weights():
    shapes = {(3, 5): ["query", "head_dim"], (4, 5): ["key", "head_dim"], (3, 4): ["query", "key"]}
    return found(weights, (QUERIES, KEYS, 1), shapes, ["query", "key"])


SCORES = QUERIES @ KEYS.T / 5**0.5
HIDDEN, MORE = torch.arange(4) < 1, torch.arange(4) < 2
COMPARED = "{} (in a comparison of `keys` and `num_hidden`)"
OF_REVERSED = QUERIES @ KEYS.flip(0).T / 5**0.5


def masked(scores, hidden=HIDDEN):
    return scores.masked_fill(hidden, -torch.inf)


@pytest.mark.parametrize(
    ("words", "expected", "mistake"),
    [
        ("the scale is missing", masked(SCORES * 5**0.5).softmax(-1), "missing-scale"),
        ("head_dim itself stands in the place of its root", masked(SCORES / 5**0.5).softmax(-1), "wrong-scale"),
        ("the scale comes from key, not from head_dim", masked(SCORES * 5**0.5 / 2).softmax(-1), "wrong-scale"),
        ("softmax runs over the axis query, not over the axis key", masked(SCORES).softmax(0), "softmax-wrong-axis"),
        ("softmax is missing", masked(SCORES), "no-softmax"),
        ("the mask is missing", SCORES.softmax(-1), None),
        ("the mask is inverted", SCORES.masked_fill(~HIDDEN, -torch.inf).softmax(-1), "mask-inverted"),
        ("hidden scores are 0", SCORES.masked_fill(HIDDEN, 0.0).softmax(-1), "mask-with-zero"),
        ("the mask comes after softmax", SCORES.softmax(-1).masked_fill(HIDDEN, 0.0), "mask-after-softmax"),
        ("`num_hidden` is larger by one", masked(SCORES, MORE).softmax(-1), None),
        (COMPARED.format("the bound itself counts, too"), masked(SCORES, MORE).softmax(-1), None),
        ("`keys` comes in reverse order of key", masked(OF_REVERSED).softmax(-1), None),
        ("the order of query is reversed", masked(SCORES).softmax(-1).flip(0), None),
    ],
)  # fmt: skip
def test_a_slip_does_what_its_words_say(words, expected, mistake, of_weights):
    code, slip = of_weights[words]
    torch.testing.assert_close(code(QUERIES, KEYS, 1), expected, equal_nan=True)
    assert slip.mistake == mistake


PARTS, FIRST = torch.arange(18.0).reshape(6, 3) ** 2, torch.tensor([7.0, 8.0])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("the parts are joined in reverse order", [7.0, 8.0, *PARTS.sum(0).tolist()]),
        ("a loop ends too early", [*PARTS[:4].sum(0).tolist(), 7.0, 8.0]),
        ("a loop leaves out its first turn", [*PARTS[4:].sum(0).tolist(), 7.0, 8.0]),
        ("the last turn of a loop replaces those before it", [*PARTS[4:].sum(0).tolist(), 7.0, 8.0]),
        ("`size` makes no difference", [*PARTS.sum(0).tolist(), 7.0, 8.0]),
    ],
)
def test_a_slip_in_a_loop_or_in_what_is_joined(words, expected):
    code, _ = found(joined, (PARTS, FIRST, 4), {(6, 3): ["row", "width"]})[words]
    assert code(PARTS, FIRST, 4).tolist() == expected


def test_no_slip_is_made_in_a_loop_that_might_not_end():
    def count(x):
        while x < 10:
            x = x * 2 + 1
        return x - 1

    assert {words for words in found(count, (3,), {}) if "`x` is" not in words} == {
        "1 is added, not subtracted",
        "1 is not subtracted",
        "a difference is taken the other way round",
    }
