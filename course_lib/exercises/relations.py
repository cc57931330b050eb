"""Find how a wrong result is related to the right one: a factor, an order, one slice of it, and so on."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lib.wording import counted, listed

from .differences import Expected
from .factors import constant_factor, factor_between, name_of_factor

CLOSE = 1e-6
FACTOR = "Which factor or divisor is missing, or one too many?"
FROM_NUMPY = "Which line leaves torch? `torch.from_numpy` makes a tensor of an array, without gradients."
NEARLY = 1e-3  # of the largest element: what is lost in float16, and in float32 where large numbers cancel
PRECISION = "Which line computes in float16, bfloat16 or float32, or adds a small number?"
ELEMENTS = 5000  # larger results are compared without looking for an order of their axes


class Relation(NamedTuple):
    """How a wrong result is related to the right one, in one sentence, and a question."""

    sentence: str
    question: str


def relation(result: Any, expected: Expected, others: Sequence[tuple[Any, Expected]] = ()) -> Relation | None:
    """Return how a result is related to the right one, or None if nothing simple was found.

    Args:
        result: The wrong result.
        expected: The right one.
        others: The results of other calls and the right ones, which tell a factor from one that is so by chance.
    """
    value = expected.value
    if isinstance(value, Tensor) and value.is_floating_point():
        value = value.double()
        expected = expected._replace(value=value)
    if isinstance(value, (int, float)):
        return _of_numbers([(result, expected), *others])
    if isinstance(value, Tensor) and value.ndim == 0 and value.is_floating_point():
        calls = [(result, expected), *others]
        return _of_numbers([(_item(one), right._replace(value=_item(right.value))) for one, right in calls])
    if not isinstance(value, Tensor) or value.numel() < 2:
        return None
    if isinstance(result, (list, tuple)):
        return _of_list(result, value)
    if isinstance(result, np.ndarray):
        same = result.dtype.kind in "biuf" and _same(torch.from_numpy(result).double(), value.double())
        return Relation("Its elements are right.", FROM_NUMPY) if same else None
    return _of_tensors(result, expected, others)


def _of_tensors(result: Any, expected: Expected, others: Sequence[tuple[Any, Expected]]) -> Relation | None:
    value = expected.value
    if not isinstance(result, Tensor) or result.is_complex() or not result.numel():
        return None
    result = result.detach().cpu()
    if result.shape != value.shape:
        found = list(_of_other_shape(result.double(), value.double(), expected.axes.split()))
        elsewhere = [_relations(*other) for other in others]
        return next((one for one in found if all(one in other for other in elsewhere if other is not None)), None)
    if value.dtype == torch.bool and result.dtype == torch.bool:
        return next(_of_masks(result, value, expected.axes.split()), None)
    if not value.is_floating_point():
        return next(_of_first_sample(result, value, expected.axes.split()), None)
    return next(_of_same_shape(result.double(), value, expected, [(result, expected), *others]), None)


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _of_numbers(calls: Sequence[tuple[Any, Expected]]) -> Relation | None:
    why = name_of_factor(calls) or constant_factor(calls)
    if why:
        return Relation(f"Your result is the right one times {why}.", FACTOR)
    result, value = calls[0][0], calls[0][1].value
    if rounded := _rounded(calls):
        return rounded
    factor = None if float(value).is_integer() else factor_between(result, value)
    if factor is None or not math.isfinite(factor) or not math.isclose(factor, round(factor), rel_tol=1e-6):
        return None
    return Relation(f"Your result is {round(factor)} times the right one here.", FACTOR) if factor > 1.5 else None


def _of_first_sample(result: Tensor, value: Tensor, names: list[str]) -> Iterator[Relation]:
    """Tell that the first of several samples is right, and few others or none."""
    if names[:1] != ["batch"] or value.ndim < 2:
        return
    close = torch.isclose(result.double(), value.double(), rtol=CLOSE, atol=CLOSE)
    right = [at for at, one in enumerate(close.flatten(1).all(1).tolist()) if one]
    if right[:1] == [0] and 2 * len(right) < len(value):
        wrong = next(at for at in range(len(value)) if at not in right)
        yield Relation(
            f"Your result is right for sample{'s' * (len(right) > 1)} {listed(right)} alone.",
            ("" if len(right) > 1 else "Does a line take from sample 0 what belongs to each? ")
            + f"What is different in sample {wrong}?",
        )


def _relations(result: Any, expected: Expected) -> set[Relation] | None:
    """Return what can be said of a result of another shape; None of one that is right at another call."""
    if not isinstance(result, Tensor) or not isinstance(expected.value, Tensor) or result.shape == expected.value.shape:
        return None
    return {*_of_other_shape(result.double(), expected.value.double(), expected.axes.split())}


def _of_masks(result: Tensor, value: Tensor, names: list[str]) -> Iterator[Relation]:
    if bool(result.all()) or not bool(result.any()):
        yield Relation(f"Every element is {bool(result.all())}.", "For which elements should it be the other value?")
    yield from _exchanged(result.double(), value.double(), names)
    yield from _right_part(result.double(), value.double(), names, by_sample=False)


def _of_list(result: Sequence[Any], value: Tensor) -> Relation | None:
    whole = [isinstance(one, Tensor) and _same(one.detach().double(), value.double()) for one in result]
    if any(whole):
        return Relation(f"The right result is element {whole.index(True)} of it.", "Which of the values is asked for?")
    try:
        parts = [torch.as_tensor(part, dtype=torch.float64) for part in result]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    for join in (torch.stack, torch.cat):
        try:
            axis = next((a for a in range(value.ndim) if _same(join(parts, a), value.double())), None)
        except (RuntimeError, IndexError):
            continue
        if axis is not None:
            what = "tensors" if isinstance(result[0], Tensor) else "numbers"
            return Relation("Its elements are right.", f"Which function makes one tensor of a list of {what}?")
    return None


def _of_other_shape(result: Tensor, value: Tensor, names: list[str]) -> Iterator[Relation]:
    if result.squeeze().shape == value.squeeze().shape and _same(result.squeeze(), value.squeeze()):
        more = result.ndim > value.ndim
        what = "with an axis of size 1 too many" if more else "but an axis of size 1 is missing"
        yield Relation(f"Its elements are right, {what}.", "Which line adds or removes an axis?")
    if result.ndim == value.ndim and value.numel() <= ELEMENTS:
        for order in permutations(range(value.ndim)):
            if _same(result, value.permute(order)):
                listed = f": ({', '.join(names[axis] for axis in order)})" if len(names) == value.ndim else ""
                yield Relation(
                    f"Its elements are right, but the axes stand in another order{listed}.",
                    "Which two axes have to be exchanged?",
                )
    if result.numel() == value.numel() and _same(result.flatten(), value.flatten()):
        yield Relation("Its elements are right and in the right order.", "Which sizes should its axes have?")
    if result.ndim in (value.ndim - 1, value.ndim):
        for axis in range(value.ndim):
            yield from _reduced(result, value, axis, names[axis] if len(names) == value.ndim else f"axis {axis}")


def _reduced(result: Tensor, value: Tensor, axis: int, name: str) -> Iterator[Relation]:
    """Compare a result with the right one after one axis was lost."""
    loop = f"Does a loop over the {name} end too early, or does one turn replace the other?"
    reductions: list[tuple[str, str, Callable[[Tensor], Tensor]]] = [
        (f"what belongs to the first {name} alone", loop, lambda v: v.select(axis, 0)),
        (f"what belongs to the last {name} alone", loop, lambda v: v.select(axis, -1)),
        (f"the sum of the right result over the axis {name}", "Which line adds up?", lambda v: v.sum(axis)),
        (f"the mean of the right result over the axis {name}", "Which line takes a mean?", lambda v: v.mean(axis)),
    ]
    for sentence, question, reduce in reductions:
        lost = reduce(value)
        if _same(result, lost) or _same(result, lost.unsqueeze(axis)):
            yield Relation(f"Your result is {sentence}.", question)


def _of_same_shape(
    result: Tensor, value: Tensor, expected: Expected, calls: Sequence[tuple[Any, Expected]]
) -> Iterator[Relation]:
    if _same(result.exp(), value):
        yield Relation(
            "The exponential of your result is right: these are logarithms.", "Which step takes a logarithm?"
        )
    yield from _of_first_sample(result, value, expected.axes.split())
    yield from _not_finite(result, value)
    if not bool(result.isfinite().all() and value.isfinite().all()):
        return
    first = result.flatten()[0]
    if bool(torch.isclose(result, first, rtol=CLOSE, atol=0.0).all()):
        yield Relation(f"Every element of your result is {float(first):.4g}.", "Which step makes them all equal?")
    yield from _factor(result, value, calls)
    if rounded := _rounded(calls):
        yield rounded
    yield from _off(result - value, value)
    yield from _order(result, value, expected.axes.split(), calls)
    for axis in range(value.ndim):
        if _same(result, value.softmax(axis)):
            yield Relation("Your result is softmax of the right one.", "Does the task ask for softmax here?")
        if _same(result.softmax(axis), value):
            yield Relation("Softmax of your result would be right.", "Which step is missing?")
    if value.ndim > 1 and result.shape[-2] > 1 and _same(result, result[..., :1, :].expand_as(result)):
        names = expected.axes.split()
        row = names[-2] if len(names) == value.ndim else "one"
        yield Relation("All rows of your result are equal.", f"Does each {row} get a row of its own?")
    yield from _sums(result, value)
    yield from _right_part(result, value, expected.axes.split(), expected.causal)


def _off(shift: Tensor, value: Tensor) -> Iterator[Relation]:
    if _same(shift, shift.flatten()[0].expand_as(shift)):
        yield Relation(f"Every element is off by {float(shift.flatten()[0]):.4g}.", "What is added, or left out?")
    if bool((shift.abs() <= NEARLY * value.abs().max()).all()):
        each = bool((shift.abs() <= 5 * NEARLY * value.abs()).all())
        digits = "Every element is right to three digits at least, and not to all."
        yield Relation(digits if each else "No element is off by more than a thousandth of the largest.", PRECISION)


def _not_finite(result: Tensor, value: Tensor) -> Iterator[Relation]:
    hidden = result == -torch.inf
    if bool(hidden.any() and value.isfinite().all()) and _same(result[~hidden], value[~hidden]):
        yield Relation("Your result is -inf in some places and right elsewhere.", "Does the task ask for a mask here?")
    for what, count in (("nan", int(result.isnan().sum())), ("infinite", int(result.isinf().sum()))):
        if count and bool(value.isfinite().all()):
            yield Relation(
                f"{count} of {result.numel()} elements are {what}.",
                "Which step makes the first of them: a division by zero, exp of a large number, a hidden row?",
            )


def _factor(result: Tensor, value: Tensor, calls: Sequence[tuple[Any, Expected]]) -> Iterator[Relation]:
    factor = factor_between(result, value)
    if factor is None:
        return
    why = "only the sign differs" if math.isclose(factor, -1, rel_tol=1e-6) else name_of_factor(calls)
    yield Relation(f"Every element is {factor:.4g} times the right one{f' ({why})' if why else ''}.", FACTOR)


def _rounded(calls: Sequence[tuple[Any, Expected]]) -> Relation | None:
    """Tell that the results of all calls are the right ones, rounded: neither all 0 nor all right."""
    pairs = [(_as_tensor(one), _as_tensor(right.value)) for one, right in calls]
    if not all(one.shape == right.shape for one, right in pairs):
        return None
    if not any(bool(one.any()) for one, _ in pairs) or all(torch.equal(*pair) for pair in pairs):
        return None
    for digits in range(5):
        if all(torch.allclose(one, right.round(decimals=digits), 1e-7, 1e-9) for one, right in pairs):
            places = counted(digits, "decimal") if digits else "whole numbers"
            return Relation(f"Your result is the right one, rounded to {places}.", "Which line rounds, and what for?")
    for name, whole in (("up", torch.ceil), ("down", torch.floor)):
        if all(torch.equal(one, whole(right)) for one, right in pairs):
            sentence = f"Your result is the right one, rounded {name} to whole numbers."
            return Relation(sentence, "Which line rounds, and what for?")
    return None


def _as_tensor(value: Any) -> Tensor:
    """Return a tensor or a number as float64; anything else has no elements."""
    if isinstance(value, (int, float)):
        value = torch.tensor(float(value), dtype=torch.float64) if abs(value) <= sys.float_info.max else torch.empty(0)
    return value.detach().cpu().double() if isinstance(value, Tensor) else torch.empty(0)


def _order(
    result: Tensor, value: Tensor, names: list[str], calls: Sequence[tuple[Any, Expected]]
) -> Iterator[Relation]:
    yield from _exchanged(result, value, names, calls)
    some_differ = len(value.flatten().round(decimals=6).unique()) > value.numel() // 2
    if some_differ and _same(result.flatten().sort().values, value.flatten().sort().values):
        yield Relation("All the right elements are there, but in other places.", "Which line moves elements?")


def _exchanged(
    result: Tensor, value: Tensor, names: list[str], calls: Sequence[tuple[Any, Expected]] = ()
) -> Iterator[Relation]:
    for first, second in combinations(range(value.ndim), 2):
        if value.shape[first] == value.shape[second] and _same(result, value.transpose(first, second)):
            which = f"{names[first]} and {names[second]}" if names else f"{first} and {second}"
            yield Relation(f"It is the right result with {which} exchanged.", "What is a row, and what a column?")
    for axis in range(value.ndim):
        if _same(result, value.flip(axis)) and _reversed_elsewhere(calls, axis):  # of two, any change is a reversal
            name = names[axis] if names else f"axis {axis}"
            yield Relation(f"It is the right result in reverse order of {name}.", "Which one comes first?")


def _reversed_elsewhere(calls: Sequence[tuple[Any, Expected]], axis: int) -> bool:
    """Return whether all wrong results of more than two elements along an axis are in reverse order."""
    pairs = [(one.detach().cpu().double(), right.value.double()) for one, right in calls if _comparable(one, right)]
    wrong = [(one, right) for one, right in pairs if right.shape[axis] > 2 and not _same(one, right)]
    return all(_same(one, right.flip(axis)) for one, right in wrong)


def _comparable(result: Any, expected: Expected) -> bool:
    value = expected.value
    return isinstance(result, Tensor) and isinstance(value, Tensor) and result.shape == value.shape


def _sums(result: Tensor, value: Tensor) -> Iterator[Relation]:
    ones = torch.ones_like(value.sum(-1))
    own = result.sum(-1)
    if _same(value.sum(-1), ones) and not _same(own, ones):
        index = int((own - 1).abs().flatten().argmax())
        yield Relation(
            f"Each row should sum to 1; one of yours sums to {float(own.flatten()[index]):.4g}.",
            "Which sum is each row divided by?",
        )
    elif _same(own, ones) and bool((result >= 0).all()) and not _same(value.sum(-1), ones):
        yield Relation("Each row of your result sums to 1; it should not.", "What makes the rows sum to 1?")


def _right_part(
    result: Tensor, value: Tensor, names: list[str], causal: bool = False, by_sample: bool = True
) -> Iterator[Relation]:
    """Tell along which axis a part of a result is right, and the rest is not."""
    right = torch.isclose(result, value, rtol=CLOSE, atol=CLOSE)
    for axis in range(value.ndim):
        good = right.movedim(axis, 0).reshape(len(right.movedim(axis, 0)), -1).all(1)
        if not bool(good.any()):
            continue
        name = names[axis] if len(names) == value.ndim else f"axis {axis}"
        where = [index for index, one in enumerate(good.tolist()) if one]
        if name == "batch" and not (by_sample and len(where) > 1):
            continue  # one sample may be right by chance
        if where == [0] and _sees_itself_alone(value, name, causal):
            yield Relation(
                f"Along {name}, only {name} 0 is right: it sees one key, whose weight is 1 whatever the scores are.",
                "Are the scores right, and which of them are hidden?",
            )
            continue
        listed = ", ".join(map(str, where[:6])) + (", ..." if len(where) > 6 else "")
        yield Relation(
            f"Along {name}, your result is right at {listed} and wrong elsewhere.",
            f"What is different {'in sample' if name == 'batch' else f'where {name} is'} {int((~good).nonzero()[0])}?",
        )


def _sees_itself_alone(value: Tensor, name: str, causal: bool) -> bool:
    if name == "token":
        return causal
    if name != "query" or value.ndim < 2:
        return False
    first = torch.zeros_like(value[..., 0, :])
    first[..., 0] = 1
    return _same(value[..., 0, :], first)


def _same(own: Tensor, other: Tensor) -> bool:
    return own.shape == other.shape and torch.allclose(own, other, rtol=CLOSE, atol=CLOSE)
