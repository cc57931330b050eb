"""Mistakes with projections and heads: who feeds which role, how heads are cut, shared and put together."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import nn

from ..anatomy import MANY, NOTHING, Row, column_sets
from ..contraction import Contraction
from ..examination import Examination
from ..labels import LAYOUT, REDUCTIONS
from ..lines import line_at, of_attribute, of_local
from ..report import Finding
from ..trace import Operation

KEYS = re.compile(r"(^|[._])(w_?)?(to_?)?(lin(ear)?_?)?k(ey)?s?([._]|$|_|\d|proj|lin)|key", re.I)
VALUES = re.compile(r"(^|[._])(w_?)?(to_?)?(lin(ear)?_?)?v(al(ue)?)?s?([._]|$|_|\d|proj|lin)|val", re.I)
QUERIES = re.compile(r"(^|[._])(w_?)?(to_?)?(lin(ear)?_?)?q(uery|ueries)?s?([._]|$|_|\d|proj|lin)|quer", re.I)
OUT = re.compile(r"(^|[._])(w_?)?(lin(ear)?_?)?(o|out|proj|output|fc|combine|merge|dense|final|unify|mix)([._]|$|_|\d|put|proj|w)|out|proj_?o|o_?proj", re.I)  # fmt: skip


def role_of(name: str) -> str | None:
    """What a parameter's or a variable's name says it makes: "queries", "keys", "values" or None."""
    for role, pattern in (("keys", KEYS), ("values", VALUES), ("queries", QUERIES)):
        if pattern.search(name):
            return role
    return None


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
        held = by_head.setdefault(row.head, {"keys": set(), "values": set(), "tokens": set()})
        held["keys"].update(row.key_sources)
        held["values"].update(row.value_sources)
        if len(set(row.keys)) < len(row.keys):
            return f"in head {row.head}, the keys of query {row.query} belong to the tokens {row.keys}"
    for head, held in by_head.items():
        for name in ("keys", "values"):
            if len(held[name]) > 1:
                return f"the {name} that head {head} meets come from {len(held[name])} different sets of columns"
    if anatomy.num_heads * anatomy.sizes[0] * anatomy.sizes[1] != len(
        {(r.sample, r.head, r.query) for r in anatomy.rows}
    ):
        return None
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
    from ..labels import carry

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


def picture_of_layout(examination: Examination):
    """The patient's own changes of layout, as they ran."""
    from course_lib.pictures import layout_steps
    from course_lib.recorder import record

    patient = examination.patient
    try:
        return layout_steps(record(lambda x: patient.call(patient.code, x), examination.x))
    except (ValueError, TypeError, RuntimeError):
        return None


# -- projections --


def check_projections(examination: Examination) -> Iterator[Finding]:
    """Queries, keys and values must come from different columns of weights."""
    anatomy = examination.anatomy
    if not anatomy.projections:
        return
    same_kv = same_qk = same_qv = 0
    for row in anatomy.rows:
        same_kv += all(k == v for k, v in zip(row.key_sources, row.value_sources, strict=True))
        same_qk += all(k == row.query_source for k in row.key_sources)
        same_qv += all(v == row.query_source for v in row.value_sources)
    total = len(anatomy.rows)
    row = next(
        (
            r
            for r in anatomy.rows
            if r.key_sources[0] in (r.value_sources[0], r.query_source) or r.value_sources[0] == r.query_source
        ),
        None,
    )
    if row is None:
        yield from _crossed_heads(examination)
        return
    dead = dead_roles(examination)
    meeting = _meeting_of(anatomy, row)
    if same_kv and "values" not in dead and not same_qk and not same_qv:
        unused = "; the keys are never used" if "keys" in dead else ""
        if "keys" in dead or _value_named(examination, meeting):
            yield Finding.named(
                "scores-from-values",
                f"queries meet the same numbers that are mixed afterwards, in {same_kv} of {total} rows{unused}",
                branch(examination, row, "keys and values", {"keys"}) or meeting.operation.where,
            )
            return
    names = {same_kv: "keys and values", same_qk: "queries and keys", same_qv: "queries and values"}
    which = names[max(same_kv, same_qk, same_qv)]
    unused = f"; the weights of the {', '.join(sorted(dead))} don't matter" if dead else ""
    yield Finding.named(
        "projection-reused",
        f"{which} come from the same columns of weights, in {max(same_kv, same_qk, same_qv)} of {total} rows{unused}",
        branch(examination, row, which, dead) or meeting.operation.where,
    )


def _meeting_of(anatomy, row: Row) -> Contraction:
    label, base = row.scores[0], 0
    for meeting in anatomy.meetings:
        base += meeting.out.tensor.numel()
        if label < base:
            return meeting
    return anatomy.meetings[-1]


def _value_named(examination: Examination, meeting: Contraction) -> bool:
    """Whether the statement that compares names the values."""
    names = re.findall(r"[A-Za-z_]\w*", meeting.operation.place.source)
    return any(role_of(name) == "values" for name in names)


def dead_roles(examination: Examination) -> set[str]:
    """Which roles have weights that don't matter, by the parameters' names, places or the unused variables' names."""
    anatomy = examination.anatomy
    found = {role_of(name) for name in examination.dead}
    for product in anatomy.projections:
        if product.operation.number not in examination.alive:
            for name in _names_of(product.operation):
                found.add(role_of(name))
    found |= _dead_part(examination)
    return {role for role in found if role}


def _names_of(operation: Operation) -> list[str]:
    place = operation.place
    return [*place.names, *re.findall(r"[A-Za-z_]\w*", place.code)]


def _dead_part(examination: Examination) -> set[str]:
    """Of packed weights, the third that nobody uses."""
    anatomy = examination.anatomy
    alive = [p.operation.number in examination.alive for p in anatomy.projections]
    if len(alive) == 3 and sum(alive) == 2:  # three projections in their usual order
        return {("queries", "keys", "values")[alive.index(False)]}
    used = _used_columns(anatomy)
    for product in anatomy.projections:
        columns = torch.unique(anatomy.sources[product.out.number])
        for roles in (("queries", "keys", "values"), ("keys", "values")):
            if len(columns) % len(roles) or product.operation.number not in examination.alive:
                continue
            touched = [bool(set(part.tolist()) & used) for part in columns.view(len(roles), -1)]
            if sum(touched) == len(roles) - 1:
                return {roles[touched.index(False)]}
    return set()


def _used_columns(anatomy) -> set[int]:
    found: set[int] = set()
    for meeting in anatomy.meetings:
        for value, _ in meeting.sides():
            found.update(anatomy.sources[value.number].flatten().tolist())
    for mix in anatomy.mixes:
        for value, _ in mix.sides():
            found.update(anatomy.sources[value.number].flatten().tolist())
    return found


def branch(examination: Examination, row: Row, which: str, dead: set[str]) -> str | None:
    """The first line on the way of the wrong role that is not on the way of the right one.

    Args:
        examination: of the patient.
        row: one in which two roles have one source.
        which: "keys and values", "queries and keys" or "queries and values".
        dead: the roles whose own weights are not used; one of them is wrong.
    """
    anatomy, trace = examination.anatomy, examination.trace
    meeting = _meeting_of(anatomy, row)
    sides = [value for value, _ in meeting.sides()]
    keys = [v for v in sides if set(hashes_of(anatomy, meeting, v)) & set(row.key_sources)]
    values = [
        v for v, _ in row.mix.sides() if not any(n in anatomy.below for n in trace.makers(v, row.mix.operation.number))
    ]
    roles = {
        "queries": sides[:1],
        "keys": sides[1:] if which == "queries and keys" else keys or sides,
        "values": values,
    }
    right, wrong = which.split(" and ")
    if right in dead and wrong not in dead:
        right, wrong = wrong, right
    ours = trace.ancestors(roles[wrong])
    theirs = trace.ancestors(roles[right])
    scored = {m.operation.number for m in anatomy.meetings}
    for number in sorted(ours - theirs - scored):
        operation = trace.operations[number]
        if operation.number in anatomy.below:
            continue
        return line_at(operation.place_in(meeting.operation.code))
    return None


def hashes_of(anatomy, meeting: Contraction, value) -> list[tuple[int, int]]:
    """The column sets of a factor of a meeting, row by row."""
    which = next(where for one, where in meeting.sides() if one is value)
    return column_sets(anatomy.sources[value.number].flatten()[which])


def _crossed_heads(examination: Examination) -> Iterator[Finding]:
    """One head that uses the keys of another although each has its own."""
    anatomy = examination.anatomy
    kv = examination.num_kv_heads or anatomy.num_heads
    if kv != anatomy.num_heads or anatomy.num_heads < 2 or not examination.dead:
        return
    keys, values, queries = {}, {}, {}
    for row in anatomy.rows:
        keys[row.head], values[row.head] = row.key_sources[0], row.value_sources[0]
        queries[row.head] = row.query_source
    for held, name in ((keys, "keys"), (values, "values"), (queries, "queries")):
        if 1 < len(set(held.values())) < anatomy.num_heads or (
            len(set(held.values())) < anatomy.num_heads
            and len({len(set(one.values())) for one in (keys, values, queries)}) > 1
            and any(len(set(one.values())) == anatomy.num_heads for one in (keys, values))
        ):
            reused = next(h for h in held if list(held.values()).count(held[h]) > 1)
            products = [p for p in anatomy.projections if (anatomy.sources[p.out.number] == held[reused][0]).any()]
            yield Finding.named(
                "projection-reused",
                f"several heads use the same {name}: {len(set(held.values()))} different ones for "
                f"{anatomy.num_heads} heads, while {', '.join(examination.dead)} does not matter",
                products[-1].operation.where if products else None,
            )
            return


# -- heads --


def check_heads(examination: Examination) -> Iterator[Finding]:
    """Each head must have its own scores and its own weights."""
    anatomy, flow = examination.anatomy, examination.flow
    heads = anatomy.num_heads
    first = {row.head: row for row in reversed(anatomy.rows)}
    queries = {row.query_source for row in first.values()}
    values = {row.value_sources[0] for row in first.values()}
    told = examination.num_heads or 1
    meeting = anatomy.meetings[0]
    if heads > 1 and len(queries) == 1:
        if len(values) > 1:
            yield _shared_scores(examination, meeting, f"{heads} heads mix different values with the same queries")
        else:
            yield _shared_weights(examination, heads)
        return
    if heads > 1 and examination.num_kv_heads in (None, heads):
        shares = flow.operand
        varied = (shares.amax(-1) - torch.where(shares > 0, shares, torch.inf).amin(-1)).max() > 1e-9
        if varied and bool(((shares - shares[:, :1]).abs() < 1e-12).all()) and not _kv_shared(examination):
            yield _shared_scores(examination, meeting, f"the weights of all {heads} heads are equal to 12 digits")
            return
    if heads == 1 and told > 1:
        width = len(anatomy.rows[0].outs)
        if meeting.size % told == 0 and width % told == 0 and (width >= told) and flow.finished:
            yield _shared_scores(
                examination,
                meeting,
                f"there is one pattern of weights for {told} heads; a score adds up {meeting.size} products",
            )


def _kv_shared(examination: Examination) -> bool:
    return (examination.num_kv_heads or 0) == 1


def _shared_scores(examination: Examination, meeting: Contraction, words: str) -> Finding:
    line = meeting.operation.where
    for operation in examination.trace.operations:  # a line that picks or adds heads
        if operation.number in examination.anatomy.below and operation.number in examination.alive:
            labels = examination.anatomy.score_labels
            if (
                operation.name in ("expand", "repeat", "select", "slice")
                and operation.outputs
                and (labels[operation.outputs[0].number] != NOTHING).any()
            ):
                before, after = operation.inputs[0].tensor.shape, operation.outputs[0].tensor.shape
                if operation.name in ("select", "slice") and after.numel() < before.numel():
                    line = operation.where
                    break
    return Finding.named("heads-share-scores", words, line)


def check_scores_merged(examination: Examination) -> Iterator[Finding]:
    """A sum or mean on the way from scores to weights that runs over heads."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        if operation.name not in REDUCTIONS or operation.number not in anatomy.below:
            continue
        if operation.number not in examination.alive or operation.name not in ("sum", "mean"):
            continue
        value = operation.inputs[0]
        labels = anatomy.score_labels[value.number] if hasattr(anatomy, "score_labels") else None
        axes = operation.args[1] if len(operation.args) > 1 else None
        if labels is None or not axes or len(axes) != 1 or (labels == NOTHING).any():
            continue
        axis = axes[0] % labels.dim()
        if labels.shape[axis] < 2:
            continue
        a, b, s = anatomy.first[labels], anatomy.second[labels], anatomy.score_sample[labels]
        if not any((one.diff(dim=axis) != 0).any() for one in (a, b, s)):
            yield Finding.named(
                "heads-share-scores",
                f"`{operation.name}` runs over the {labels.shape[axis]} heads of the scores",
                operation.where,
            )
            return


def _shared_weights(examination: Examination, heads: int) -> Finding:
    code = examination.patient.code
    where = None
    if isinstance(code, nn.Module):
        for name, module in code.named_modules():
            if (
                isinstance(module, (nn.ModuleList, nn.Sequential))
                and len(module) > 1
                and len({id(m) for m in module}) == 1
            ):
                where = of_attribute(code, name.split(".")[-1])
    return Finding.named(
        "heads-share-weights",
        f"the queries, keys and values of all {heads} heads come from the same columns of weights",
        where or _copying(examination),
    )


def _copying(examination: Examination) -> str | None:
    """The line that makes several heads of one: it repeats weights or what they projected, or calls the same again."""
    anatomy, trace = examination.anatomy, examination.trace
    way = trace.ancestors([value for value, _ in anatomy.meetings[0].sides()])
    projected = {p.out.number for p in anatomy.projections}
    made = trace.below({p.operation.number for p in anatomy.projections})
    for number in sorted(way):
        operation = trace.operations[number]
        if operation.name not in ("expand", "repeat", "stack", "cat", "index"):
            continue
        grows = operation.outputs[0].tensor.numel() > operation.inputs[0].tensor.numel()
        ours = number in made or not anatomy.tokens[operation.outputs[0].number].any()
        if grows and (ours or operation.inputs[0].number in projected):
            return operation.where
    return line_at(anatomy.projections[-1].operation.outermost) if anatomy.projections else None


def check_kv_sharing(examination: Examination) -> Iterator[Finding]:
    """Consecutive query heads must share a kv head, and every kv head must be read."""
    anatomy = examination.anatomy
    heads = anatomy.num_heads
    first = {row.head: row for row in reversed(anatomy.rows)}
    told = examination.num_kv_heads
    for name in ("keys", "values"):
        sources = [first[h].key_sources[0] if name == "keys" else first[h].value_sources[0] for h in range(heads)]
        order = sorted(set(sources))
        reads = [order.index(source) for source in sources]
        count = len(order)
        if told and 1 <= count < told <= heads:
            operation = _selecting(examination, name)
            yield Finding.named(
                "kv-head-zero-only",
                f"{heads} query heads read {count} kv head{'s' * (count > 1)}, of {told}",
                _indexing(operation or _meeting_of(anatomy, first[0]).operation),
            )
            return
        if count < 2 or heads % count or count == heads:
            if count == heads and told in (None, heads) and reads != sorted(reads):
                yield Finding(
                    None,
                    f"query heads 0 to {heads - 1} read the {name} of heads {reads}",
                    None,
                    "It differs from attention in this way: heads use each other's keys or values.",
                )
                return
            continue
        right = [h // (heads // count) for h in range(heads)]
        if reads == right:
            continue
        if reads == [h % count for h in range(heads)] or sorted(reads) == right:
            operation = _selecting(examination, name)
            yield Finding.named(
                "kv-heads-tiled",
                f"query heads 0 to {heads - 1} read the kv heads {reads} instead of {right}",
                _indexing(operation or _meeting_of(anatomy, first[0]).operation),
            )
            return


def _indexing(operation: Operation) -> str | None:
    """Where the index was computed by which a loop picks a kv head."""
    picks = operation.name in ("select", "index", "slice") or operation.name not in LAYOUT
    return (of_local(operation, "%|//") if picks else None) or operation.where


def _selecting(examination: Examination, name: str) -> Operation | None:
    """The first operation that repeats or picks heads on the way to the keys or values."""
    anatomy = examination.anatomy
    row = anatomy.rows[0]
    if name == "keys":
        values = [v for meeting in anatomy.meetings for v, _ in meeting.sides()]
    else:
        values = [v for v, _ in row.mix.sides()]
    way = examination.trace.ancestors(values)
    made = {p.operation.number for p in anatomy.projections}
    start = min(made) if made else 0
    best = None
    for operation in examination.trace.operations:
        if operation.number not in way or operation.number < start or operation.name not in LAYOUT:
            continue
        before, after = operation.inputs[0].tensor.numel(), operation.outputs[0].tensor.numel()
        several = len(operation.outputs) == 1
        many = len(torch.unique(anatomy.sources[operation.inputs[0].number]))
        now = len(torch.unique(anatomy.sources[operation.outputs[0].number]))
        if operation.name in ("repeat", "index", "index_select", "cat", "stack") and after != before and several:
            return operation
        if operation.name in ("select", "slice") and now < many and (after < before) and _is_kv(examination, operation):
            best = best or operation
        if operation.name == "expand" and after > before and operation.outputs[0].tensor.dim() >= 4:
            best = best or operation
    return best


def _is_kv(examination: Examination, operation: Operation) -> bool:
    """Whether what is cut belongs to keys and values alone and not to a packed projection's three parts."""
    anatomy = examination.anatomy
    queries = set()
    for row in anatomy.rows:
        queries.add(row.query_source[0])
    return not (set(anatomy.sources[operation.inputs[0].number].flatten().tolist()) & queries)
