"""Judge the parameters that are no matrices, by drawing them and looking for what they are added to."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_lib.exercises.differences import equal
from course_lib.exercises.input_generator import InputGenerator

from .layouts import NAMED_LIKE_A_BIAS, Added, CandidateLayouts
from .row_orders import OUTPUT as OUTPUT_KIND

OUTPUT, ALL = "the output", "all rows"
Run = Callable[[Mapping[str, Tensor]], Any]


class Vectors(NamedTuple):
    """What was found about the parameters that are no matrices.

    Attributes:
        wrong: The first that is no bias of a projection, or "".
        biases: Those of the learner's own names that are biases.
        kept: Single numbers, or one per head, that are no biases: judged by the values they were built with.
    """

    wrong: str = ""
    biases: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def adopt_biases(layouts: CandidateLayouts, run: Run, weights: dict[str, Tensor], x: Tensor) -> None:
    """Take parameters that are no matrices for biases, and draw them as such, if the output is right where they are 0.

    Args:
        layouts: What the parameters may mean; its lists of biases and odd parameters are changed.
        run, weights, x: As in `judge_vectors`.
    """
    vectors = {name: _zeros(0).new_zeros(layouts.shapes[name]) for name in layouts.odd if _numel(layouts, name) > 1}
    if not vectors:
        return
    for names in ([*vectors], *([name] for name in vectors if len(vectors) > 1)):
        result = run(weights | {name: vectors[name] for name in names})
        with torch.no_grad():
            right = any(equal(result, output) for output in layouts.outputs(weights, x).values())
        if right:
            layouts.biases += names
            layouts.odd = [name for name in layouts.odd if name not in names]
            return


def judge_vectors(
    layouts: CandidateLayouts, run: Run, weights: dict[str, Tensor], x: Tensor, rng: InputGenerator
) -> Vectors:
    """Find the parameters that do something else than a bias does.

    A bias is added to the queries, keys, values or the output. Biases that have a matrix's name are drawn together;
    the others, and all if that is not right, one by one.

    Args:
        layouts: What the matrices may mean.
        run: Runs the learner's module with these weights and returns its output.
        weights: Matrices, with which the output was right while all biases were zero.
        x: (batch, token, d_in).
        rng: Where the biases come from.
    """
    if layouts.second:  # a bias of the first of two matrices is multiplied by the second
        return Vectors()
    drawn = {
        name: rng.normal(_numel(layouts, name), std=0.5).view(layouts.shapes[name])
        for name in (*layouts.biases, *layouts.odd)
    }
    targets = {name: target for name in layouts.biases if (target := _named_target(layouts, name))}
    together = {name: drawn[name] for name in targets}
    if together and _fits(run(weights | together), layouts, weights, x, _added(layouts, together, targets)):
        drawn = {name: value for name, value in drawn.items() if name not in together}
    wrong, biases, kept = "", [], []
    for name, value in drawn.items():
        result = run(weights | {name: value})
        tried = (_added(layouts, {name: value}, {name: target}) for target in _targets(layouts, value.numel()))
        own = not NAMED_LIKE_A_BIAS.search(name)
        if any(_fits(result, layouts, weights, x, added) for added in tried):
            biases += [name] * own
        elif own and value.numel() in (1, layouts.sizes.num_heads):
            kept.append(name)
        else:
            wrong = wrong or name
    return Vectors(wrong, tuple(biases), tuple(kept))


def _fits(result: Any, layouts: CandidateLayouts, weights: Mapping[str, Tensor], x: Tensor, added: Added) -> bool:
    with torch.no_grad():
        return any(equal(result, output) for output in layouts.outputs(weights, x, None, added).values())


def _named_target(layouts: CandidateLayouts, name: str) -> str:
    """Return the matrix that has the same name as a bias, if the sizes fit, or ""."""
    matrix, numel = name.replace("bias", "weight"), _numel(layouts, name)
    if layouts.rows_of_matrices().get(matrix) == numel:
        return matrix
    is_output = layouts.kinds.get(matrix) == OUTPUT_KIND and numel == layouts.sizes.d_out
    return OUTPUT if is_output else ""


def _targets(layouts: CandidateLayouts, numel: int) -> Iterator[str]:
    """Yield what a bias of so many elements may be added to; a bias of the keys changes nothing."""
    rows = layouts.rows_of_matrices()
    yield from (role for role, width in zip("qkv", layouts.sizes.projected, strict=True) if width == numel)
    yield from (name for name, count in rows.items() if count == numel)
    if numel == sum(rows.values()):
        yield ALL
    if numel == layouts.sizes.d_out:
        yield OUTPUT


def _added(layouts: CandidateLayouts, values: Mapping[str, Tensor], targets: Mapping[str, str]) -> Added:
    rows, widths = layouts.rows_of_matrices(), layouts.sizes.projected
    by_row, by_role, to_output = _zeros(sum(rows.values())), _zeros(sum(widths)), _zeros(layouts.sizes.d_out)
    starts = {name: sum([*rows.values()][:at]) for at, name in enumerate(rows)} | {ALL: 0}
    for name, value in values.items():
        target, flat = targets[name], value.flatten()
        if target == OUTPUT:
            to_output += flat
        elif target in ("q", "k", "v"):
            start = sum(widths[: "qkv".index(target)])
            by_role[start : start + len(flat)] += flat
        else:
            by_row[starts[target] : starts[target] + len(flat)] += flat
    return Added(by_row, by_role, to_output)


def _numel(layouts: CandidateLayouts, name: str) -> int:
    return math.prod(layouts.shapes[name])


def _zeros(size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.float64)


def kept_note(kept: Sequence[str]) -> str:
    """Say what was done with the parameters that are no biases."""
    names = ", ".join(f"`{name[:60]}`" for name in kept[:4])
    have = "are parameters" if len(kept) > 1 else "is a parameter"
    return f"{names} {have} that the task does not ask for; it was judged with the values it is built with."
