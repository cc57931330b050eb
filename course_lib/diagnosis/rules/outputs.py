"""Check the output: weights must be applied, heads kept apart, and the projection used at its width."""

import inspect
import re
from collections.abc import Iterator

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import (
    locate_attribute,
    locate_discarded,
    locate_read,
    locate_rename,
    locate_return,
    locate_unmixed_return,
)
from course_lib.diagnosis.measure import OUTPUT, SOFTMAXES, Attention, Run, Structure, role_of
from course_lib.diagnosis.registry import rule
from course_lib.tracing import REDUCTIONS, Contraction, Operation, SourceLine, line_at, statement_of

OUT_WIDTHS = ("d_out", "dim_out", "out_dim", "out_features", "dim_o", "output_dim", "d_output", "n_out", "out_channels")
SUMS = ("mean", "sum", "add", "add_")
OUT_ARGUMENTS = (*OUT_WIDTHS, "out", "d_o", "outputs", "out_size")
# An argument for the width of a head, or of all heads, says that it need not be the width of the output.
OF_HEADS = re.compile(
    r"head_?(dim|size|width|channels)|(dim|d|size|channels)_?(per_?)?head|inner|(^|_)d_?[kqv]$|d_(qk|kv)"
)


@rule()
def check_applied(structure: Structure) -> Iterator[Finding]:
    """Whether the attention weights are applied to the values."""
    run, operations = structure.run, [product.operation for product in structure.score_products]
    unused = not any(operation.number in run.live for operation in operations)
    constant = _constant_weights(structure) if unused else None
    if constant is not None:
        evidence = f"the scores of {len(operations)} products are never used; the values are multiplied with weights"
        yield Finding.named("heads-share-scores", f"{evidence} that are the same for every x", constant.where)
        return
    batch, num_tokens = structure.dependence.sizes
    expected = run.options.expected_keep(batch, run.options.num_heads or 1, num_tokens)
    if structure.dependence.combines_tokens(run.output) or not (expected.sum(-1) > 1).any():
        return
    if not unused and any(_is_one_hot(structure, product) for product in structure.value_products):
        evidence = "the weights are 0 and 1 to nine digits, and no smaller change of x moves them; give an x / 100"
        why = "each query gives all its weight to one token, because the scores are large"
        yield Finding.unseen(why, evidence, structure.value_products[0].operation.where)
        return
    empty = _product_with_zeros(structure)
    if empty is not None:
        evidence = "the weights multiply the values of a cache into which nothing of x is written"
        yield Finding.named("stale-cache", evidence, empty.operation.where)
        return
    dropped = _locate_dropped_results(structure)
    if dropped is not None:
        yield Finding.named("value-unused", "what the heads found is computed, and no line reads it", dropped)
        return
    last = next((op for op in reversed(run.trace.operations) if op.name in SOFTMAXES), operations[-1])
    evidence = "no token's output moves when another token changes"
    yield Finding.named("weights-not-applied", evidence, locate_instead(structure, last))


def _product_with_zeros(structure: Structure) -> Contraction | None:
    """Return the live product of weights with zeros, such as those of a cache that is never written."""
    for product in structure.products:
        for (weights, _), (values, _) in (product.sides(), product.sides()[::-1]):
            of_scores = not structure.score_descendants.isdisjoint(structure.trace.ancestors([weights]))
            empty = not structure.dependence.on_input(values) and not bool(values.tensor.any())
            if product.operation.number in structure.run.live and of_scores and empty:
                return product
    return None


def _locate_dropped_results(structure: Structure) -> SourceLine | None:
    """Find the statement that throws away what the weights made of the values; None if it reaches the output."""
    after = structure.value_product_descendants if structure.value_products else set()
    values = structure.trace.ancestors([value for one in structure.value_products for value, _ in one.sides()])
    run, x = structure.run, structure.trace.x.storage
    of_values = run.storages_read(values & structure.projection_operations) - {x}
    if not after or after & run.live or of_values & run.storages_read(run.live):
        return None  # the output has it, or the values without the weights, of which there may be two projections
    last = [one for one in run.in_order(after) if one.where]
    return locate_discarded(last[-1]) if last else None


def _is_one_hot(structure: Structure, product: Contraction) -> bool:
    """Return whether a live value product multiplies weights of 0 and 1 that a softmax made."""
    if product.operation.number not in structure.run.live:
        return False
    for value, _ in product.sides():
        made_from = structure.ancestors_of([value])
        weights = value.tensor.double()
        if any(op.name in SOFTMAXES and op.number in structure.score_descendants for op in made_from):
            whole = (weights.round() - weights).abs().max() < 1e-9
            return bool(whole) and bool((weights < 0.5).any()) and bool((weights > 0.5).any())
    return False


def _constant_weights(structure: Structure) -> Operation | None:
    """Return the operation that reads weights which existed before the run, such as those of an earlier cell."""
    dependence = structure.dependence
    for product in structure.products:
        if product.operation.number not in structure.run.live or not dependence.combines_tokens(product.out):
            continue
        for (values, _), (fixed, _) in (product.sides(), product.sides()[::-1]):
            if not dependence.on_input(fixed) and (dependence.token_of(values) >= 0).all():
                ancestors = structure.ancestors_of([fixed])
                old = [op for op in ancestors if any(v.made_by is None for v in op.inputs) and op.name != "alias"]
                return (old or ancestors or [product.operation])[0]
    return None


def locate_instead(structure: Structure, last: Operation) -> SourceLine | None:
    """Find the line that reads the values without the weights; `last` is the last operation on the weights."""
    run = structure.run
    live = {line_at(statement_of(*frame)) for op in run.live_operations for frame in op.frames}
    idle = (op for op in run.trace.operations if op.number not in run.live)
    unused = {line for op in idle for frame in op.frames if (line := line_at(statement_of(*frame)))} - live
    where = locate_unmixed_return(last, lambda name: role_of(name) == "values")
    where = where or locate_read(last, lambda name: role_of(name) == "values", unused)
    after = [op for op in run.live_operations if op.number > last.number]
    elsewhere = [op for op in after if op.where and op.where != last.where]
    return where or ((elsewhere or after)[0].where if after else locate_return(last))


@rule()
def check_averaged(attention: Attention) -> Iterator[Finding | str]:
    """Whether the heads are averaged."""
    influence, structure = attention.influence, attention.structure
    apart, after = influence.head_difference, structure.value_product_descendants
    if apart > 1e-9 and attention.run.output.tensor.shape[-1] > 1 and not _multiplies_by_learned(attention.run, after):
        apart = influence.head_angle  # each head may have a gate of its own
    if apart > 1e-9 or not influence.head_affects_output.all():
        return
    first_rows = attention.rows.first_of_head.values()
    queries, values = {row.query_columns for row in first_rows}, {row.value_columns[0] for row in first_rows}
    if len(values) == 1 < len(queries) and not structure.run.unused_parameters:
        yield "all heads read one value, and their results are averaged, as interpretable attention does"
        return
    if structure.is_additive:
        yield "its heads' results are averaged, as in the last layer of graph attention"
        return
    first = min(product.operation.number for product in structure.value_products)
    after = structure.value_product_descendants - {first}
    sums = [op for op in attention.run.live_operations if op.number in after and op.name in SUMS]
    reductions = [op for op in sums if op.name in REDUCTIONS] or sums
    amounts = f"by the same amounts (apart by {apart:.1e})"
    if influence.head_difference > apart:
        amounts = f"by the same amounts but for a factor (apart by {apart:.1e})"
    evidence = f"the same change in each of {attention.rows.num_heads} heads moves the output {amounts}"
    yield Finding.named("heads-averaged", evidence, reductions[0].where if reductions else None)


def _multiplies_by_learned(run: Run, after: set[int]) -> bool:
    """Return whether some of the operations `after` the value products multiply by parameters, element by element."""
    learned = run.parameter_storages
    multiplied = (one for one in run.in_order(after) if one.name in ("mul", "mul_"))
    return any(value.storage in learned for one in multiplied for value in one.inputs)


@rule()
def check_output_projection(structure: Structure) -> Iterator[Finding]:
    """Whether the output projection is used."""
    for name, part in _unused_matrices(structure):
        called = bool(OUTPUT.search(name)) and (bool(part) or _is_wide_enough(structure, name))
        called &= not _projects_something_else(structure, name)
        if (called and not part) or (part == "3]" and not called):  # the fourth packed matrix is the output projection
            yield _missing_projection(structure, name, part)
            return


def _is_wide_enough(structure: Structure, name: str) -> bool:
    """Return whether a matrix is as wide as the results of all heads; a smaller one may combine heads."""
    batch, num_tokens = structure.dependence.sizes
    results = sum(product.out.tensor.numel() for product in structure.value_products) // (batch * num_tokens)
    return max(structure.run.subject.parameters[name].shape) >= results or any(
        product.size == 1 for product in structure.value_products
    )


@rule()
def check_possible_projection(attention: Attention) -> Iterator[Finding]:
    """Whether the heads' results are projected."""
    merged = attention.rows.num_heads * len(attention.rows.all[0].outputs)
    for name, part in _unused_matrices(attention.structure):
        fits = not part and merged in attention.run.subject.parameters[name].shape
        if fits and not attention.influence.last_projected and not _projects_something_else(attention.structure, name):
            yield _missing_projection(attention.structure, name, part)
            return


def _projects_something_else(structure: Structure, name: str) -> bool:
    """Return whether the code multiplies a matrix with something, and never with the heads' results."""
    readers = {one.number for one in structure.run.readers_of(name)}
    products = {one.operation.number for one in structure.products} & structure.trace.descendants(readers)
    return bool(products) and products.isdisjoint(structure.value_product_descendants)


def _unused_matrices(structure: Structure) -> Iterator[tuple[str, str]]:
    """Yield the unused matrices whose name says no other role, with the part that is unused.

    If what the heads found is thrown away, all matrices are unused.
    """
    if structure.value_products and structure.run.live.isdisjoint(structure.value_product_descendants):
        return
    for name in structure.run.unused_parameters:
        whole, _, part = name.partition("[")
        if not role_of(whole.removesuffix(".weight").split(".")[-1]):
            yield whole, part


def _missing_projection(structure: Structure, name: str, part: str) -> Finding:
    run = structure.run
    own = [op for op in run.live_operations if op.code is not None and not op.by(run.trace.caller)]
    shape = tuple(run.subject.parameters[name].shape)[1 if part else 0 :]
    evidence = f"`{name}{'[' if part else ''}{part}` {shape} does not change the output"
    after = run.trace.descendants({one.number for one in run.readers_of(name)})
    called = [op for op in run.in_order(after - run.live) if op.where]
    results = structure.value_products[-1:]
    where = locate_discarded(called[0]) if called else None
    for last in (*(product.operation for product in results), *own[-1:]):
        where = where or locate_rename(last)
    product = results[0].operation if results else None
    where = where or (locate_return(own[-1], product) if own else None)
    return Finding.named("output-projection-missing", evidence, where)


@rule()
def check_output_width(attention: Attention) -> Iterator[Finding]:
    """The width of the output."""
    d_in, width = attention.run.x.shape[-1], attention.run.output.tensor.shape[-1]
    merged = attention.rows.num_heads * max(len(row.outputs) for row in attention.rows.all)
    promised = _promised_width(attention, merged)
    if promised is not None and promised != d_in and width == d_in:
        evidence = (
            f"its tokens come out {width} wide, as they came in; the heads together and d_out are {promised} wide"
        )
        yield Finding.named("output-projection-shape", evidence, locate_last_weights(attention))


def _promised_width(attention: Attention, merged: int) -> int | None:
    """Return the d_out that a module's constructor is given; the width of all heads together if it is not kept.

    An argument with a default may stand for the width of x, and one beside the width of a head says nothing of heads.
    """
    subject, heads = attention.run.subject, attention.rows.num_heads
    if not subject.is_module or subject.is_part:
        return None
    try:
        taken = inspect.signature(type(subject.examined).__init__).parameters
    except (TypeError, ValueError):
        return None
    needed = [name for name, one in taken.items() if name in OUT_ARGUMENTS and one.default is one.empty]
    if not needed:  # an attribute alone may name the width of the heads together
        return None
    kept = [value for name in OUT_WIDTHS if isinstance(value := getattr(subject.examined, name, None), int)]
    if kept:
        return kept[0]
    numbers = [getattr(subject.examined, name, None) for name in taken]
    of_a_head = any(isinstance(one, int) and one == merged // heads != heads for one in numbers)
    return None if of_a_head or any(map(OF_HEADS.search, taken)) else merged


def locate_last_weights(attention: Attention) -> SourceLine | None:
    """Find where the weights were made that multiply the heads' results."""
    run, last_projected = attention.run, attention.influence.last_projected
    names = run.parameter_names
    for product in reversed(attention.structure.products):
        for results, weights in ((product.left, product.right), (product.right, product.left)):
            if results in last_projected and weights.storage in names:
                *path, last = names[weights.storage].split(".")
                attribute = path[-1] if path and last in ("weight", "bias") else last
                return locate_attribute(run.subject, attribute, "Linear") or product.operation.where
    return None
