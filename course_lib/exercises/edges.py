"""The edges of what an exercise may be called with: axes of size 1, square tables, long axes, zeros, and float32."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from torch import Tensor

from course_lib.tracing import map_instances, tensors_in

from .answering.from_source import FromSource
from .exercise import Case
from .input_generator import LONG, InputGenerator

FLOAT32 = "the inputs are float32"
ZEROS = "some elements are exactly 0"
FREE_ROWS = ("x", "queries", "keys", "values")  # may hold any numbers, unlike weights and angles


def edge_cases(
    drawn: Sequence[Case],
    results: Sequence[Any],
    draw: Callable[[InputGenerator], Sequence[Case]],
    axes: Mapping[str, str],
    result_axes: str,
    fixed: Collection[str],
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
        rng: Where sizes and elements come from.
    """
    pairs = [(case, result) for case, result in zip(drawn, results, strict=True) if _is_plain(case)]
    pairs = pairs or list(zip(drawn, results, strict=True))
    first = pairs[0][0]
    if not any(isinstance(one, FromSource) for one in first.arguments) and not [*tensors_in(first.arguments)]:
        return
    sizes = {axis: size for axis, size in _sizes(first, axes).items() if axis not in fixed}
    yield from (_cut(first, axes, axis, 1) for axis, size in sizes.items() if size > 1)
    if sizes.get("query", 0) != sizes.get("key", 0) > 1:
        shorter, longer = sorted(("query", "key"), key=lambda axis: sizes.get(axis, 0))
        if shorter in sizes:
            yield _cut(first, axes, longer, sizes[shorter])
    square = (_square(case, result, axes, result_axes.split(), sizes) for case, result in pairs)
    yield from islice(filter(None, square), 1)
    yield from _redrawn(draw, rng.with_equal_sizes(), lambda sizes: len({*sizes}) <= 2 and min(sizes) > 1)[:1]
    yield from _redrawn(draw, rng.with_long_sizes(), lambda sizes: max(sizes) >= LONG)[:3]
    if (zeros := _with_zeros(first, axes)) is not None:
        yield zeros
    if any(map(_is_floating, results)):
        yield from (Case(in_float32(case.arguments), FLOAT32) for case, _ in pairs[:2])


def _redrawn(
    draw: Callable[[InputGenerator], Sequence[Case]], rng: InputGenerator, fits: Callable[[list[int]], bool]
) -> list[Case]:
    """Draw calls and return those that fit by the sizes of all tensors; none if the generator had no say."""
    cases = draw(rng)
    sizes = [[size for one in tensors_in(case.arguments) for size in one.shape] for case in cases]
    return [case for case, own in zip(cases, sizes, strict=True) if rng.has_drawn_rows and own and fits(own)]


def _square(
    case: Case, result: Any, axes: Mapping[str, str], names: Sequence[str], free: Collection[str]
) -> Case | None:
    """Cut the longer of a result's last two axes to the length of the other."""
    if not isinstance(result, Tensor) or result.ndim < 2 or len(names) != result.ndim:
        return None
    (shorter, _), (longer, name) = sorted(zip(result.shape[-2:], names[-2:], strict=True))
    is_free = name in free and _sizes(case, axes)[name] == longer
    return _cut(case, axes, name, shorter) if is_free and 1 < shorter < longer else None


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
    """Map the axes that have a name of their own to their sizes, in order."""
    found: dict[str, int] = {}

    def add(tensor: Tensor) -> Tensor:
        if len(listed) == tensor.ndim:
            found.update(zip(listed, tensor.shape, strict=True))
        return tensor

    for value, names in zip(case.arguments, axes.values(), strict=False):
        listed = names.split()
        map_instances(Tensor, add, value)
    joined = {part for names in axes.values() for name in names.split() for part in _parts(name)}
    return {name: size for name, size in found.items() if name.isidentifier() and name not in joined}


def _parts(name: str) -> list[str]:
    """Split the name of an axis that several axes were joined to, such as "head*head_dim"."""
    return name.split("*") if "*" in name else []


def _cut(case: Case, axes: Mapping[str, str], axis: str, size: int) -> Case:
    def cut(tensor: Tensor) -> Tensor:
        for at, name in enumerate(listed if len(listed) == tensor.ndim else ()):
            if name == axis:
                tensor = tensor.narrow(at, 0, size)
        return tensor.clone()

    arguments = []
    for value, names in zip(case.arguments, axes.values(), strict=False):
        listed = names.split()
        arguments.append(map_instances(Tensor, cut, value))
    return Case(tuple(arguments))
