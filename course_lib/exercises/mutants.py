"""The solution of an exercise with one slip, or with two."""

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from torch import Tensor

from course_lib.mutations import Edit, Source, Watched, run_source, slips

from .axes import axis_names, unique_names
from .copies import built


class Mutant(NamedTuple):
    """A solution with a slip.

    Attributes:
        words: What happens in it, as a clause such as "softmax is missing".
        code: The function.
        mistake: The slip's id in the catalogue, or None.
        source: The source that was edited, and the edits; None if another function was.
    """

    words: str
    code: Callable[..., Any]
    mistake: str | None = None
    source: tuple[Source, tuple[Edit, ...]] | None = None


def mutants(
    solution: FunctionType, arguments: Sequence[Any], named: Mapping[str, str], axes: Sequence[str]
) -> Iterator[Mutant]:
    """Make the mutants of a solution, and of the other solutions of its lesson that it calls.

    Args:
        solution: The right function.
        arguments: Those of one call, whose sizes all differ.
        named: Argument -> the names of its axes.
        axes: The names of the result's axes.
    """
    names, lesson = solution.__globals__, solution.__module__.rpartition(".")[0]
    called = [one for name in solution.__code__.co_names if isinstance(one := names.get(name), FunctionType)]
    functions = [solution, *(one for one in called if one.__module__.startswith(lesson))]
    result = solution(*built(tuple(arguments)))
    sizes, shapes = _names(
        dict(zip(inspect.signature(solution).parameters, arguments, strict=False)), named, result, axes
    )
    watched = [Watched(function, sizes, shapes) for function in functions]
    space = {**names, **{one.function.__name__: one.watching(one.function.__globals__) for one in watched[1:]}}
    watched[0].watching(space)(*built(tuple(arguments)))
    for one in watched:
        own = one is watched[0]
        shown = (
            (result, shapes.get(tuple(result.shape), ()) if isinstance(result, Tensor) else ()) if own else (None, ())
        )
        for slip in slips(one, *shown):
            if (code := _edited(one.function, one.source, slip.edits)) is None:
                continue
            if own:
                yield Mutant(slip.words, code, slip.mistake, (one.source, slip.edits))
            else:
                words = f"in `{one.function.__name__}`, {slip.words}"
                yield Mutant(words, _calling(solution, code), slip.mistake)


def pairs(solution: FunctionType, found: Sequence[Mutant]) -> Iterator[Mutant]:
    """Make the mutants with two slips, of those that can be made in one."""
    for first, second in itertools.combinations(found, 2):
        if first.source and second.source:
            source, edits = first.source[0], (*first.source[1], *second.source[1])
            disjoint = all(one.end <= other.start for one, other in itertools.pairwise(sorted(edits)))
            if disjoint and (code := _edited(solution, source, edits)) is not None:
                words = first.words if first.words == second.words else f"{first.words}, and {second.words}"
                yield Mutant(words, code)


def _names(
    arguments: Mapping[str, Any], named: Mapping[str, str], result: Any, axes: Sequence[str]
) -> tuple[dict[int, str], dict[tuple[int, ...], list[str]]]:
    """Name the axes of sizes and of shapes."""
    shapes = {
        tuple(value.shape): named.get(name, "").split()
        for name, value in arguments.items()
        if isinstance(value, Tensor)
    }
    if isinstance(result, Tensor):
        shapes[tuple(result.shape)] = list(axes)
    shapes = {shape: found for shape, found in shapes.items() if len(found) == len(shape)}
    sizes = axis_names(named, arguments)
    pairs = {pair for shape, found in shapes.items() for pair in zip(shape, found, strict=True) if pair[0] not in sizes}
    sizes |= unique_names(pairs)
    return {size: name for size, name in sizes.items() if " or " not in name}, shapes


def _edited(function: FunctionType, source: Source, edits: Sequence[Edit]) -> FunctionType | None:
    """Return a function after edits of its source; None if that is no code."""
    try:  # all under one name: `built` keeps the lines of each, and these are thousands
        return run_source(source.edited(edits), "<slip>", dict(function.__globals__))[function.__name__]
    except (SyntaxError, ValueError):
        return None


def _calling(solution: FunctionType, other: FunctionType) -> FunctionType:
    """Return the solution, calling another function of the same name as one that it calls."""
    names = {**solution.__globals__, other.__name__: other}
    return FunctionType(solution.__code__, names, solution.__name__, solution.__defaults__)
