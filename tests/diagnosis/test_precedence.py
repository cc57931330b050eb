"""Causes are the fewest findings that explain all that was measured, in whatever order it was measured."""

from itertools import permutations

import pytest

from course_lib.diagnosis import Finding, Kind
from course_lib.diagnosis.precedence import root_causes

HERE = "attention.py:12"


def found(*named):
    """Findings by their mistakes, or by their kinds where they have no name."""
    return [
        Finding.unnamed(one, "seen", HERE) if isinstance(one, Kind) else Finding.named(one, "seen", HERE)
        for one in named
    ]


@pytest.mark.parametrize(
    ("measured", "causes"),
    [
        (["missing-scale"], ["missing-scale"]),
        (["double-softmax", "no-causal-mask", "wrong-scale"], ["double-softmax"]),
        # What is explained explains in turn.
        (["no-softmax", "batch-mixed", "values-misaligned", "heads-averaged"], ["no-softmax"]),
        # Each explains the other: the earlier step is the cause.
        (["mask-rank", "batch-mixed", "merge-without-transpose"], ["mask-rank"]),
        (["split-without-transpose", "values-misaligned", "weights-not-applied"], ["split-without-transpose"]),
        (["token-missing-from-cache", "stale-cache", "mask-off-by-one"], ["token-missing-from-cache"]),
        # Two mistakes at once, the earlier step first.
        (["output-projection-missing", "mask-transposed", "missing-scale"],
         ["missing-scale", "mask-transposed", "output-projection-missing"]),
        # What shows elsewhere comes last and explains no wrong numbers; what has no name is explained by what has one.
        (["dtype-pinned", "wrong-scale", Kind.MORE_HIDDEN], ["wrong-scale", "dtype-pinned"]),
        (["dtype-pinned", Kind.MORE_HIDDEN], ["dtype-pinned", Kind.MORE_HIDDEN]),
        (["dtype-pinned", Kind.NOT_EXAMINED], ["dtype-pinned", Kind.NOT_EXAMINED]),
        (["wrong-scale", Kind.NOT_EXAMINED], ["wrong-scale"]),
        # Names and unread values follow from wrong numbers, and paths that differ do.
        (["value-unused", "paths-differ", "mask-discarded"], ["mask-discarded"]),
        # A leak behind attention is hidden by nothing that changes no number.
        (["dead-parameter", Kind.LEAK_BEHIND], ["dead-parameter", Kind.LEAK_BEHIND]),
        (["no-causal-mask", Kind.LEAK_BEHIND], ["no-causal-mask"]),
        # With random numbers nothing else means anything.
        (["wrong-scale", Kind.RANDOM], [Kind.RANDOM]),
        (["wrong-scale", "dropout-at-eval"], ["dropout-at-eval"]),
    ],
)  # fmt: skip
def test_causes(measured, causes):
    for order in permutations(found(*measured)):
        assert [one.mistake or one.kind for one in root_causes(list(order))] == causes


def test_of_the_same_mistake_the_one_with_a_line_is_kept_and_then_the_first():
    without, first, second = (Finding.named("no-softmax", "seen", where) for where in (None, HERE, "attention.py:13"))
    assert root_causes([without, first, second]) == (first,)
    assert root_causes([without, second, first]) == (second,)


def test_a_cause_with_a_line_is_told_before_one_without():
    without, placed = Finding.named("stale-cache", "seen"), Finding.named("mask-inverted", "seen", HERE)
    assert root_causes([without, placed]) == (placed, without)
