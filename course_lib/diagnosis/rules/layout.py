"""How heads are cut and put together: every row whole, every result in its own row."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..anatomy import MANY
from ..contraction import Contraction
from ..examination import Examination
from ..labels import NOTHING, carry
from ..report import Finding
from ..trace import Operation
from .weights import picture_of_layout


def check_split(examination: Examination) -> Iterator[Finding]:
    """Rows of a head must be whole: one token a row, each token once, one set of columns."""
    anatomy = examination.anatomy
    together = next(
        (row for row in anatomy.rows if len(row.query_sources) > 1 and row.mix.size > len(set(row.keys))), None
    )
    if together is not None:
        yield Finding.named(
            "heads-averaged",
            f"one sum mixes the values of {len(together.query_sources)} heads: {together.mix.size} terms for "
            f"{len(set(together.keys))} keys",
            together.mix.operation.where,
        )
        return
    words = None if in_pieces(anatomy) else _scrambled(examination)
    if words is None:
        return
    operation = _first_scramble(examination)
    yield Finding.named(
        "split-without-transpose",
        words,
        operation.where if operation else anatomy.meetings[0].operation.where,
        lambda: picture_of_layout(examination),
    )


def _scrambled(examination: Examination) -> str | None:
    anatomy = examination.anatomy
    for one, name in ((anatomy.first, "first"), (anatomy.second, "second")):
        if (one == MANY).any():
            return f"a row of the {name} factor of the scores holds numbers of several tokens"
    by_head: dict[int, dict[str, set]] = {}
    for row in anatomy.rows:
        held = by_head.setdefault(row.head, {"keys": set(), "values": set()})
        held["keys"].update(row.key_sources)
        held["values"].update(row.value_sources)
        if len(set(row.keys)) < len(row.keys):
            return f"in head {row.head}, the keys of query {row.query} belong to the tokens {row.keys}"
    for head, held in by_head.items():
        for name in ("keys", "values"):
            if len(held[name]) > 1:
                return f"the {name} that head {head} meets come from {len(held[name])} different sets of columns"
    return None


def in_pieces(anatomy) -> bool:
    """Whether the queries of a sample are answered in several passes, as with a cache."""
    passes: dict[int, set[int]] = {}
    for row in anatomy.rows:
        passes.setdefault(row.mix.operation.number, set()).add(row.query)
    return bool(passes) and max(map(len, passes.values())) < anatomy.sizes[1]


def _first_scramble(examination: Examination) -> Operation | None:
    """The view that first gives an axis of tokens another order."""
    anatomy = examination.anatomy
    sides = [v for meeting in anatomy.meetings for v, _ in meeting.sides()] + [
        v for mix in anatomy.mixes for v, _ in mix.sides()
    ]
    way = examination.trace.ancestors(sides)
    for operation in examination.trace.operations:
        if operation.number not in way or operation.name not in ("view", "_unsafe_view", "_reshape_alias"):
            continue
        before, after = operation.inputs[0], operation.outputs[0]
        if mixed_axis(anatomy, after) and not mixed_axis(anatomy, before):
            return operation
    return None


def mixed_axis(anatomy, value) -> bool:
    """Whether some axis runs through tokens and columns at once."""
    tokens, sources = anatomy.single(value), anatomy.sources[value.number]
    if (tokens < 0).any() or (sources == NOTHING).any():
        return False
    for axis in range(tokens.dim()):
        if tokens.shape[axis] < 2:
            continue
        t = (tokens.diff(dim=axis) != 0).any()
        s = (sources.diff(dim=axis) != 0).any()
        if t and s:
            return True
    return False


def check_landing(examination: Examination) -> Iterator[Finding]:
    """The result of a query must reach the row of its own token and no other."""
    landing = examination.flow.landing
    num_tokens = len(landing)
    if torch.equal(landing, torch.eye(num_tokens, dtype=torch.bool)) or not landing.any():
        return
    if _attends_again(examination):
        return
    stray = (landing & ~torch.eye(num_tokens, dtype=torch.bool)).nonzero()
    if not len(stray):
        return
    row, query = stray[0].tolist()
    operation = _first_stray(examination)
    yield Finding.named(
        "merge-without-transpose",
        f"what query {query} found reaches row {row} of the output; {len(stray)} of {num_tokens**2} pairs of tokens "
        "are crossed",
        operation.where if operation else None,
        lambda: picture_of_layout(examination),
    )


def _attends_again(examination: Examination) -> bool:
    """Whether another layer lets tokens meet after the first one: then everything reaches everybody."""
    anatomy = examination.anatomy
    mixes = {mix.operation.number for mix in anatomy.mixes}
    after = examination.trace.below(mixes)
    return any(
        product.operation.number in after - mixes
        and all(anatomy.tokens[value.number].any() for value, _ in product.sides())
        and any((anatomy.single(value) == MANY).any() for value, _ in product.sides())
        for product in anatomy.products
    )


def _first_stray(examination: Examination) -> Operation | None:
    """The last view after the mix."""
    anatomy = examination.anatomy
    after = examination.trace.below({mix.operation.number for mix in anatomy.mixes})
    found = [
        operation
        for operation in examination.trace.operations
        if operation.number in after
        and operation.number in examination.alive
        and operation.name in ("view", "_unsafe_view", "_reshape_alias", "as_strided")
    ]
    last = max(mix.operation.number for mix in anatomy.mixes)
    context = {mix.out.number: _query_labels(anatomy, mix) for mix in anatomy.mixes}

    queries = carry(examination.trace, context)
    for operation in found:
        if operation.number < last:
            continue
        before, now = queries[operation.inputs[0].number], queries[operation.outputs[0].number]
        if _crossed(now) and not _crossed(before):
            return operation
    return found[-1] if found else None


def _query_labels(anatomy, mix: Contraction) -> torch.Tensor:
    labels = torch.full((mix.out.tensor.numel(),), NOTHING)
    for row in anatomy.rows:
        if row.mix is mix:
            labels[torch.tensor(row.outs)] = row.query * 1000 + row.head
    return labels.view(mix.out.tensor.shape)


def _crossed(labels: torch.Tensor) -> bool:
    if (labels == NOTHING).all():
        return False
    queries, heads = labels // 1000, labels % 1000
    for axis in range(labels.dim()):
        if labels.shape[axis] > 1 and (queries.diff(dim=axis) != 0).any() and (heads.diff(dim=axis) != 0).any():
            return True
    return False
