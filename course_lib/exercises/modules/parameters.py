"""Compare the parameters of a learner's module with what the task asks for, before anything is computed."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from course_lib.exercises.answer import BuiltModule

from .layouts import CandidateLayouts, without_indices
from .registration import Problem, listed, not_registered, one_layer_for_two, only_layer_in_front
from .row_orders import OUTPUT, PROJECTION
from .sizes import Sizes

MAX_ELEMENTS = 1_000_000  # elements in all parameters; the largest right answer has fewer than ten thousand


class Counts(NamedTuple):
    """How many rows the matrices with an axis of d_in have, how many elements the others, and how many they need."""

    rows: float
    output: int
    wanted_rows: int
    wanted_output: int


def count_parameters(layouts: CandidateLayouts) -> Counts:
    """Count the rows and elements of the matrices."""
    sizes = layouts.sizes
    wanted = sum(sizes.projected)
    rows, output = _elements(layouts, PROJECTION) / sizes.d_in, _elements(layouts, OUTPUT)
    if layouts.second and rows == wanted:
        output -= sizes.d_out**2  # the queries go through two matrices
    return Counts(rows, output, wanted, layouts.output_elements)


def find_problem(
    module: BuiltModule, layouts: CandidateLayouts, takes: Sequence[str], biases: bool = True
) -> Problem | None:
    """Return what is wrong with the number and the shapes of the parameters, or None.

    Args:
        module: The learner's module.
        layouts: What its parameters may mean.
        takes: The names of the arguments that the class was constructed with, such as ("d_in", "d_out").
        biases: Whether the task allows them.
    """
    if not module.forward:
        return Problem(
            "The class has no method `forward`, so that the module can't be called.",
            (),
            "Is it spelt `forward`, and indented inside the class?",
        )
    counts, other = count_parameters(layouts), _of_one_name(layouts)
    built = ", ".join(f"{name}={getattr(layouts.sizes, name)}" for name in takes)
    if counts[:2] == counts[2:] and not other:
        return None if biases or not layouts.biases else bias_problem(layouts, layouts.biases[0], built)
    too_few = counts.rows < counts.wanted_rows
    if too_few and (problem := not_registered(module)):
        return problem
    if other:
        return _other_shape(layouts, other, built)
    if counts.rows * layouts.sizes.num_heads == counts.wanted_rows and layouts.sizes.num_heads > 1:
        return _one_head(layouts, built)
    if too_few and module.shared:
        return one_layer_for_two(module.shared, built)
    needed = counts.wanted_rows * layouts.sizes.d_out + counts.wanted_output
    return only_layer_in_front(layouts, needed) or _other_counts(layouts, counts, built)


def hides_projections(layouts: CandidateLayouts) -> bool:
    """Return whether a parameter that is no matrix has as many elements as the projections lack."""
    counts = count_parameters(layouts)
    missing = (counts.wanted_rows - counts.rows) * layouts.sizes.d_in
    return missing in [math.prod(layouts.shapes[name]) for name in (*layouts.biases, *layouts.odd)]


def bias_problem(layouts: CandidateLayouts, name: str, built: str) -> Problem:
    """Say that a parameter is a bias, where the task asks for none."""
    return Problem(
        f"`{name[:60]}` {tuple(layouts.shapes[name])} is a bias; the task asks for projections without bias.",
        (f"The module was built with {built}.",),
        "What adds it, and which argument of `nn.Linear` decides whether a layer has one?",
    )


def _other_shape(layouts: CandidateLayouts, name: str, built: str) -> Problem:
    shape, sizes = layouts.shapes[name], layouts.sizes
    return Problem(
        f"`{name}` is {shape}; it should be {layouts.expected[name]}.",
        (f"The module was built with {built}: head_dim is {sizes.head_dim}.",),
        "Which of the arguments decide how wide this projection is?",
        "output-projection-shape" if name == "out_proj.weight" and shape[0] == sizes.d_in else None,
    )


def _one_head(layouts: CandidateLayouts, built: str) -> Problem:
    heads = layouts.sizes.num_heads
    return Problem(
        f"The module has the parameters of one head; {heads} heads need {heads} times as many.",
        (f"The module was built with {built}.", listed(layouts.shapes)),
        "Does each head get layers of its own?",
        "heads-share-weights",
    )


def _other_counts(layouts: CandidateLayouts, counts: Counts, built: str) -> Problem:
    """Say that the numbers of rows or elements differ, with all parameters."""
    sizes, shapes = layouts.sizes, layouts.shapes
    evidence = (f"The module was built with {built}.", listed(shapes))
    widths = "How wide are all heads together, and how wide is the output?"
    joined = sizes.num_heads * sizes.value_dim
    if counts.wanted_output and not counts.output and counts.rows == counts.wanted_rows + joined:
        name, shape = list(shapes.items())[-1]
        sentence = (
            f"No matrix can be the output projection: `{name[:60]}` is {tuple(shape)}, and {_output_size(sizes)}."
        )
        return Problem(sentence, evidence, widths, "output-projection-shape")
    if counts.rows != counts.wanted_rows:
        parts = "{} for the queries, {} for the keys, {} for the values".format(*sizes.projected)
        return Problem(
            f"The matrices with an axis of d_in={sizes.d_in} give {counts.rows:g} numbers per token; queries, keys and "
            f"values together need {counts.wanted_rows}.",
            (f"The module was built with {built}: {parts}.", listed(shapes)),
            "Has each role matrices of its own and none too many, and which arguments decide how wide they are?",
        )
    what = _output_size(sizes) if counts.wanted_output else "this task asks for no output projection"
    return Problem(
        f"The matrices with an axis of d_out={sizes.d_out} and none of d_in have {counts.output} elements; {what}.",
        evidence,
        widths,
    )


def _of_one_name(layouts: CandidateLayouts) -> str | None:
    """Return the first parameter of another size, if all names are the solution's but for the number of heads."""
    shapes = {name: shape for name, shape in layouts.shapes.items() if name not in layouts.biases}
    if {without_indices(name) for name in shapes} != {without_indices(name) for name in layouts.expected}:
        return None
    common = [(name, shape) for name, shape in layouts.expected.items() if name in shapes]
    return next((name for name, shape in common if _sizes_above_1(shapes[name]) != _sizes_above_1(shape)), None)


def _sizes_above_1(shape: tuple[int, ...]) -> list[int]:
    """Return the sizes in ascending order: a matrix may be transposed, or be a convolution of one token."""
    return sorted(size for size in shape if size > 1)


def _elements(layouts: CandidateLayouts, kind: str) -> int:
    return sum(math.prod(shape) for name, shape in layouts.shapes.items() if layouts.kinds[name] == kind)


def _output_size(sizes: Sizes) -> str:
    factor = "num_heads * head_dim" if sizes.own_head_dim else "d_out"
    elements = sizes.d_out * sizes.num_heads * sizes.value_dim
    return f"the output projection should have d_out * {factor} = {elements} elements"


def is_sane(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether tensors of the shapes may be allocated that a learner's code reports."""
    sane = all(len(shape) <= 8 and all(0 < size <= MAX_ELEMENTS for size in shape) for shape in shapes.values())
    return sane and sum(map(math.prod, shapes.values())) <= MAX_ELEMENTS
