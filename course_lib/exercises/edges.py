"""The edges of what an exercise may be called with: the sizes of an earlier call, smallest and long axes, the smallest
and large numbers, flags the other way, equal sizes, equal samples, rows far apart, zeros, and float32."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from course_lib.tracing import map_instances, tensors_in

from .answering.from_source import FromSource
from .exercise import Case
from .input_generator import LONG, InputGenerator

FLOAT32 = "the inputs are float32"
ZEROS = "some elements are exactly 0"
FAR_ROWS = "some rows are a thousand times as large, or more"
SAME = "all samples are equal"
FREE_ROWS = ("x", "queries", "keys", "values")  # may hold any numbers, unlike weights and angles
BOUND = ("weights", "cos", "sin")  # whose elements belong together
FAR = {"scores": 1e5, "lses": 1e5} | dict.fromkeys(("x", "query", "queries", "keys"), 1e3)  # what becomes scores
VERY_LONG = 130  # the least size of an axis beside which all others are short: wider than a head, longer than int8


def edge_cases(
    drawn: Sequence[Case],
    results: Sequence[Any],
    draw: Callable[[InputGenerator], Sequence[Case]],
    axes: Mapping[str, str],
    result_axes: str,
    fixed: Collection[str],
    least: Mapping[str, int],
    most: Mapping[str, int],
    rng: InputGenerator,
) -> Iterator[Case]:
    """Yield calls at the edges of those that an exercise draws.

    Args:
        drawn: The calls that were drawn.
        results: The right result of each.
        draw: Draws calls.
        axes: Argument, in order -> the names of its axes, or of those of each tensor in it; "" if they have none.
        result_axes: The names of the result's axes.
        fixed: The axes whose size is left as it was drawn.
        least, most: Small and large values of integers that may stand beside any other arguments; in a tensor or list
            of integers, in the first place.
        rng: Where sizes and elements come from.
    """
    pairs = [(case, result) for case, result in zip(drawn, results, strict=True) if _is_plain(case)]
    pairs = pairs or list(zip(drawn, results, strict=True))
    first = pairs[0][0]
    again = list(zip(drawn, draw(rng.with_same_sizes()), strict=False))
    yield from [case for other, case in again if _is_plain(other)][:3]
    made = any(isinstance(one, FromSource) for one in first.arguments)
    tensors = bool([*tensors_in(first.arguments)])
    for case in [first] if tensors else [case for case, _ in pairs[:4]]:
        yield from _with_numbers(case, [*axes], least, most)
    flipped = _replaced(first, lambda _, value: not value if isinstance(value, bool) else value)
    yield from flipped
    if not made and not tensors:
        return
    sizes = {axis: size for axis, size in _sizes(first, axes).items() if axis not in fixed}
    joined = any(axis in name.split("*") for axis in sizes for names in axes.values() for name in _joined(names))
    base = [first, *_replaced(first, lambda at, value: least.get([*axes][at], value))][-1] if joined else first
    yield from (_cut(base, axes, {axis: 1}) for axis, size in sizes.items() if size > 1)
    if not made and len(sizes) > 1:
        alike = {1, 2, max(sizes.values())} if max(sizes.values()) > 1 else ()
        yield from (_cut(base, axes, dict.fromkeys(sizes, size), rng) for size in sorted(alike))
    for axis, size in zip(sizes, rng.sizes(len(sizes), VERY_LONG, 2 * VERY_LONG), strict=True) if not made else ():
        short = {other: min(own, 1 + (other != "batch")) for other, own in sizes.items()}
        yield _cut(base, axes, short | {axis: size}, rng)
    if sizes.get("batch", 0) > 1:
        yield _cut(first, axes, {"batch": [sizes["batch"] - 1] * sizes["batch"]})._replace(about=SAME)
    if sizes.get("query", 0) != sizes.get("key", 0) > 1:
        shorter, longer = sorted(("query", "key"), key=lambda axis: sizes.get(axis, 0))
        if shorter in sizes:
            yield _cut(first, axes, {longer: sizes[shorter]})
    square = (_square(case, result, axes, result_axes.split(), sizes) for case, result in pairs)
    yield from islice(filter(None, square), 1)
    equal = _redrawn(draw, rng.with_equal_sizes(), lambda sizes: max(sizes) > 1)
    yield from sorted(equal, key=lambda case: (case.about, len({*_all_sizes(case)})))[:1]
    yield from _redrawn(draw, rng.with_long_sizes(), lambda sizes: max(sizes) >= LONG)[:3]
    if not made and (zeros := _with_zeros(first, axes)) is not None:
        yield zeros
    far = [] if made else [one for case in (first, *flipped) for one in _far_apart(case, axes)]
    yield from far
    if any(map(_is_floating, results)):
        yield from (Case(in_float32(case.arguments), FLOAT32) for case in [*(case for case, _ in pairs[:2]), *far])


def _with_numbers(case: Case, names: Sequence[str], *ends: Mapping[str, int]) -> Iterator[Case]:
    """Yield the call with each number in the place of its argument, alone and all of one end together."""
    for numbers in ends:
        for new in [{name: number} for name, number in numbers.items()] + [numbers] * (len(numbers) > 1):
            yield from _replaced(case, lambda at, value: _placed(new[names[at]], value) if names[at] in new else value)  # noqa: B023


def _placed(number: int, value: Any) -> Any:
    """Return a number in place of a value, or of the first number that it holds."""
    if isinstance(value, Tensor):
        return torch.cat([value.new_tensor([number]), value[1:]])
    return type(value)([number, *value[1:]]) if isinstance(value, (list, tuple)) else number


def _replaced(case: Case, change: Callable[[int, Any], Any]) -> list[Case]:
    """Return the call with other values, given their index and the value; none if it stays as it is."""
    arguments = tuple(change(at, value) for at, value in enumerate(case.arguments))
    pairs = zip(case.arguments, arguments, strict=True)
    same = all(own is other or (not isinstance(own, Tensor) and own == other) for own, other in pairs)
    return [] if same else [Case(arguments)]


def _far_apart(case: Case, axes: Mapping[str, str]) -> list[Case]:
    """Return the call with every other row of what becomes scores far larger, so that some scores are thousands."""
    arguments = []
    for value, name in zip(case.arguments, axes, strict=False):

        def enlarged(rows: Tensor, name: str = name) -> Tensor:
            if not rows.is_floating_point() or not rows.ndim:
                return rows
            larger = torch.arange(rows[..., 0].numel()).view(rows.shape[:-1]) % 2 == (rows.ndim > 1)
            return torch.where(larger[..., None], FAR[name] * rows, rows)

        arguments.append(map_instances(Tensor, enlarged, value) if name in FAR else value)
    changed = any(own is not other for own, other in zip(case.arguments, arguments, strict=False))
    return [Case(tuple(arguments), FAR_ROWS)] if changed else []


def _redrawn(
    draw: Callable[[InputGenerator], Sequence[Case]], rng: InputGenerator, fits: Callable[[list[int]], bool]
) -> list[Case]:
    """Draw calls and return those that fit by the sizes of all tensors; none if the generator had no say."""
    cases = draw(rng)
    return [case for case in cases if rng.has_drawn_rows and (sizes := _all_sizes(case)) and fits(sizes)]


def _all_sizes(case: Case) -> list[int]:
    return [size for one in tensors_in(case.arguments) for size in one.shape]


def _square(
    case: Case, result: Any, axes: Mapping[str, str], names: Sequence[str], free: Collection[str]
) -> Case | None:
    """Cut the longer of a result's last two axes to the length of the other."""
    if not isinstance(result, Tensor) or result.ndim < 2 or len(names) != result.ndim:
        return None
    (shorter, _), (longer, name) = sorted(zip(result.shape[-2:], names[-2:], strict=True))
    is_free = name in free and _sizes(case, axes)[name] == longer
    return _cut(case, axes, {name: shorter}) if is_free and 1 < shorter < longer else None


def _with_zeros(case: Case, axes: Mapping[str, str]) -> Case | None:
    """Return the call with zeros on the diagonal of its scores, which a causal mask keeps, and in its last rows."""
    changed = False

    def zeroed(tensor: Tensor) -> Tensor:
        nonlocal changed
        if not tensor.is_floating_point() or tensor.ndim < 2:
            return tensor
        changed, tensor = True, tensor.clone()
        if name == "scores":
            tensor.diagonal(dim1=-2, dim2=-1).zero_()
        else:
            tensor[..., -1, :] = 0.0
        return tensor

    arguments = []
    for value, name in zip(case.arguments, axes, strict=False):
        arguments.append(map_instances(Tensor, zeroed, value) if name in ("scores", *FREE_ROWS) else value)
    return Case(tuple(arguments), ZEROS) if changed else None


def _is_floating(value: Any) -> bool:
    return any(one.is_floating_point() for one in tensors_in(value))


def in_float32(value: Any) -> Any:
    """Return arguments whose floating-point tensors are float32."""
    return _converted(value, Tensor.float)


def in_float64(value: Any) -> Any:
    """Return arguments whose floating-point tensors are float64."""
    return _converted(value, Tensor.double)


def _converted(value: Any, convert: Callable[[Tensor], Tensor]) -> Any:
    value = map_instances(Tensor, lambda one: convert(one) if one.is_floating_point() else one, value)
    return map_instances(FromSource, lambda one: replace(one, arguments=_converted(one.arguments, convert)), value)


def _is_plain(case: Case) -> bool:
    return not case.about or case.trains


def _sizes(case: Case, axes: Mapping[str, str]) -> dict[str, int]:
    """Map the axes that can be resized to their sizes, in order: none that is joined to one of unknown size."""
    found: dict[str, int] = {}

    def add(tensor: Tensor) -> Tensor:
        if len(listed) == tensor.ndim:
            found.update(zip(listed, tensor.shape, strict=True))
        return tensor

    for value, names in zip(case.arguments, axes.values(), strict=False):
        listed = names.split()
        map_instances(Tensor, add, value)
    joined = [name.split("*") for names in axes.values() for name in _joined(names)]
    stuck = {part for parts in joined if not all(one in found for one in parts) for part in parts}
    return {name: size for name, size in found.items() if name.isidentifier() and name not in stuck}


def _joined(names: str) -> list[str]:
    """Return the axes that several axes were joined to, such as "head*head_dim"."""
    return [name for name in names.split() if "*" in name]


def _cut(
    case: Case, axes: Mapping[str, str], wanted: Mapping[str, int | list[int]], rng: InputGenerator | None = None
) -> Case:
    """Resize axes, also where they are joined to others: longer ones begin again, with elements that `rng` changes.

    Args:
        case: The call.
        axes: Argument -> the names of its axes.
        wanted: Axis -> its size, or the indices that are taken.
        rng: Where the changes come from; None changes no element.
    """
    sizes = _sizes(case, axes)
    taken = {
        axis: torch.tensor(one if isinstance(one, list) else [at % sizes[axis] for at in range(one)])
        for axis, one in wanted.items()
    }

    def cut(tensor: Tensor) -> Tensor:
        for at, axis in enumerate(listed if len(listed) == tensor.ndim else ()):
            index = torch.zeros(1, dtype=torch.int64)
            if taken.keys() & {*axis.split("*")}:
                for part in axis.split("*"):
                    own = taken.get(part, torch.arange(sizes[part]))
                    index = (index[:, None] * sizes[part] + own).flatten()
                tensor = tensor.index_select(at, index)
        if rng is not None and tensor.is_floating_point() and name not in BOUND:
            tensor = tensor * (1 + rng.normal(*tensor.shape, std=0.1))
        return tensor.clone()

    arguments = []
    for value, (name, names) in zip(case.arguments, axes.items(), strict=False):  # noqa: B007
        listed = names.split()
        arguments.append(map_instances(Tensor, cut, value))
    return Case(tuple(arguments))
