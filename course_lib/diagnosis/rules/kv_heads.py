"""Check how many heads and kv heads there are, and which query head reads which kv head."""

from collections.abc import Iterator
from typing import Literal

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_assignment
from course_lib.diagnosis.measure import Attention
from course_lib.diagnosis.registry import rule
from course_lib.tracing import LAYOUT, UNLABELLED, VIEWS, Operation, SourceLine
from course_lib.wording import counted

COPIES = ("repeat", "index", "index_select", "cat", "stack")
DIVISIONS = ("remainder", "fmod", "floor_divide", "div")


@rule(of_dot_products=True)
def check_kv_sharing(attention: Attention) -> Iterator[Finding]:
    """Which kv head each query head uses."""
    heads, wanted = attention.rows.num_heads, attention.options.num_kv_heads
    first = attention.rows.first_of_head
    counts = []
    for role in ("keys", "values"):
        rows = [first[head] for head in range(heads)]
        columns = [row.key_columns[0] if role == "keys" else row.value_columns[0] for row in rows]
        if any(largest == UNLABELLED for _, largest, _ in columns):  # such as the mean of several heads
            continue
        order = sorted(set(columns))
        reads, count = [order.index(one) for one in columns], len(order)
        counts.append(count)
        right = [head // (heads // count) for head in range(heads)] if heads % count == 0 else []
        if wanted and count == 1 < wanted <= heads:
            evidence = f"{heads} query heads read 1 kv head, of {wanted}"
            yield Finding.named("kv-head-zero-only", evidence, _locate_choice(attention, role, tiled=False))
            return
        if count == heads and wanted in (None, heads) and reads != sorted(reads):
            evidence = f"query heads 0 to {heads - 1} read the {role} of heads {reads}"
            yield Finding.unnamed("heads use each other's keys or values", evidence)
            return
        tiled = reads == [head % count for head in range(heads)] or sorted(reads) == right
        alike = len(set(counts)) == 1  # otherwise keys and values do not belong to the same kv heads
        if 1 < count < heads and right and reads != right and tiled and alike and not _are_subtracted(attention):
            of = "" if role == "keys" else "values of the "
            evidence = f"query heads 0 to {heads - 1} read the {of}kv heads {reads} instead of {right}"
            yield Finding.named("kv-heads-tiled", evidence, _locate_choice(attention, role, tiled=True), kv_heads=reads)
            return


@rule(of_dot_products=True)
def check_head_count(attention: Attention) -> Iterator[Finding]:
    """Whether there are as many heads as the caller says."""
    rows, options = attention.rows.first_of_head.values(), attention.options
    kv_heads = max(len({row.key_columns[0] for row in rows}), len({row.value_columns[0] for row in rows}))
    query_heads = len({row.query_columns for row in rows})  # each of them may serve several groups of tokens
    heads = query_heads if options.num_heads == query_heads else attention.rows.num_heads
    said = ("num_heads", "head", heads, options.num_heads), ("num_kv_heads", "kv head", kv_heads, options.num_kv_heads)
    product = attention.structure.score_products[0]
    for name, what, found, given in said:
        if not given or given == found or found == 1 or _are_subtracted(attention):  # one is found by other rules
            continue
        if found % given or not _are_beside(attention, options.num_heads or given):  # such are several attentions
            difference = f"it has {counted(found, what)}, and {name}={given} was given"
            yield Finding.unnamed(difference, f"a score is a sum of {product.size} terms", product.operation.where)


def _are_subtracted(attention: Attention) -> bool:
    """Return whether the results of some heads are subtracted from those of others, as in differential attention."""
    after, trace = attention.structure.value_product_descendants, attention.trace
    subtractions = (op for op in attention.run.live_operations if op.name in ("sub", "sub_") and op.number in after)
    return any(
        len(op.inputs) == 2 and all(after.intersection(trace.writers_of(value, op.number)) for value in op.inputs)
        for op in subtractions
    )


def _are_beside(attention: Attention, count: int) -> bool:
    """Return whether the results of so many heads are added to, or joined with, those of other heads.

    Those are of attentions beside each other.
    """
    heads: dict[int, set[int]] = {}  # the value product -> its heads
    for row in attention.rows.all:
        heads.setdefault(row.product.operation.number, set()).add(row.head)
    for operation in attention.run.live_operations if len(heads) > 1 else ():
        if operation.name in ("add", "add_", "cat") and len(operation.inputs) == 2:
            behind = [attention.trace.ancestors([value]) & heads.keys() for value in operation.inputs]
            one, other = (set[int]().union(*(heads[number] for number in numbers)) for numbers in behind)
            if one and other and not one & other and count in (len(one), len(other)):
                return True
    return False


def _locate_choice(attention: Attention, role: Literal["keys", "values"], *, tiled: bool) -> SourceLine | None:
    """Find the line that assigns kv heads to query heads."""
    product = attention.rows.score_product(attention.rows.first_of_head[0]).operation
    operation = (None if tiled else _picking(attention, role)) or _choosing(attention, role)
    if tiled and (operation is None or operation.where == product.where):  # then the queries are tiled, too
        operation = _splitting_queries(attention)
    return _locate_index(attention, operation or product)


def _locate_index(attention: Attention, operation: Operation) -> SourceLine | None:
    """Find where the index of a kv head was computed."""
    if operation.name in ("index", "index_select") and len(operation.inputs) > 1:
        ancestors = attention.structure.ancestors_of(list(operation.inputs[1:]))
        divided = [one for one in ancestors if one.name in DIVISIONS]
        return divided[-1].where if divided else operation.where
    picks = operation.name in ("select", "slice") or operation.name not in LAYOUT
    return (locate_assignment(operation, "%|//", in_calls=False) if picks else None) or operation.where


def _splitting_queries(attention: Attention) -> Operation | None:
    """Return the first operation that splits the query heads along two axes."""
    structure, column = attention.structure, attention.rows.first_of_head[0].query_columns[0]
    made = structure.projection_operations
    for operation in structure.run.in_order(structure.trace.descendants(made) - made):
        if operation.name in VIEWS:
            before, after = operation.inputs[0].tensor.dim(), operation.outputs[0].tensor.dim()
            if column in structure.columns_in(operation.outputs[0]) and after > before and after > 4:
                return operation
    return None


def _layouts(attention: Attention, role: Literal["keys", "values"]) -> list[Operation]:
    """Return the operations that reorder, repeat or cut what was projected, on the way to the keys or values."""
    structure, row = attention.structure, attention.rows.all[0]
    values = structure.score_factors if role == "keys" else [value for value, _ in row.product.sides()]
    start = min(structure.projection_operations, default=0)
    after = [one for one in structure.ancestors_of(values) if one.number >= start and one.name in LAYOUT]
    return [one for one in after if structure.is_projected(one.outputs[0])]


def _picking(attention: Attention, role: Literal["keys", "values"]) -> Operation | None:
    """Return the first operation that picks some of the kv heads."""
    return next((one for one in _layouts(attention, role) if _picks_kv_heads(attention, one)), None)


def _choosing(attention: Attention, role: Literal["keys", "values"]) -> Operation | None:
    """Return the first operation that repeats or picks heads on the way to the keys or values."""
    possible = None
    for operation in _layouts(attention, role):
        read = {value.number: value.tensor.numel() for value in operation.inputs}  # `[t] * n` reads one tensor
        before = sum(read.values()) if operation.name in ("cat", "stack") else operation.inputs[0].tensor.numel()
        after = operation.outputs[0].tensor
        if operation.name in COPIES and after.numel() != before and len(operation.outputs) == 1:
            return operation
        repeats = operation.name == "expand" and after.numel() > before and after.dim() >= 4
        if repeats or (after.numel() < before and _picks_kv_heads(attention, operation)):
            possible = possible or operation
    return possible


def _picks_kv_heads(attention: Attention, operation: Operation) -> bool:
    """Return whether an operation slices keys or values rather than a packed projection that includes the queries."""
    if operation.name not in ("select", "slice"):
        return False
    queries = {row.query_columns[0] for row in attention.rows.all}
    given, made = map(attention.structure.columns_in, (operation.inputs[0], operation.outputs[0]))
    before, after = given - {UNLABELLED}, made - {UNLABELLED}
    parts = [one for one in attention.run.live_operations if one.inputs[:1] == operation.inputs[:1]]
    kept = set().union(*(attention.structure.columns_in(one.outputs[0]) for one in parts if one.outputs)) - {UNLABELLED}
    row = attention.rows.all[0]
    whole = any({*columns[0][:2]} <= after for columns in (row.key_columns, row.value_columns))
    # A rotation, too, cuts rows, but reads all parts, or cuts a head in two.
    return whole and len(after) < len(before) and not before & queries and kept != before
