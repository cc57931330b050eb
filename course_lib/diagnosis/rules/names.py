"""What the code calls queries, keys and values must be used as such."""

import re
from collections.abc import Iterator

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import Attention, Row, role_of
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Contraction, SourceLine, Value, line_at

INITIALS = re.compile(r"(?<![a-z])w?([qkv]{2,3})(?![a-z])", re.I)  # as in `to_qkv`, `kv_proj` and `Wqkv`
NORM = re.compile(r"norm|(^|[._])ln", re.I)
ROLE_OF_INITIAL = {"q": "queries", "k": "keys", "v": "values"}


@rule(of_dot_products=True)
def check_names(attention: Attention) -> Iterator[Finding]:
    """Whether weights do what they are called."""
    played = _roles_played(attention)
    said = {name: _role_in(name) for name in played}
    for name, roles in played.items():
        role, place = said[name]
        if role is None or role in roles or len(roles) != 1:
            continue
        (other,) = roles
        swapped = [one for one in played if said[one] == (other, place) and played[one] == {role}]
        if swapped or NORM.search(name):  # a bias called v may be that of a second term
            rest = f"and `{swapped[0]}` for the {role}" if swapped else f"and not for the {role}"
            evidence = f"`{name}` is used for the {other}, {rest}"
            yield Finding.named("roles-exchanged", evidence, _locate(attention, name, *swapped[:1]))
            return


@rule(of_dot_products=True)
def check_packed_names(attention: Attention) -> Iterator[str]:
    """Whether packed weights are in the order of their name."""
    structure, run = attention.structure, attention.run
    used = _columns_of_roles(attention, attention.rows.first_of_head[0])
    for product in structure.projections:
        columns = structure.columns_in(product.out)
        first = {role: min(own & columns) for role, own in used.items() if own & columns}
        order = sorted(first, key=lambda role: first[role])
        if len(set(first.values())) < max(2, len(first)):
            continue
        read = {value.storage for value in product.operation.inputs}
        names = [name for name, values in run.parameter_reads.items() if any(one.storage in read for one in values)]
        orders = _orders_in([*names, *product.operation.statement.names], set(order))
        if orders and order not in orders.values():
            name, said = next(iter(orders.items()))
            where = _locate_parts(attention, product)
            at = f" at {where}" if where else ""  # as CodeGen's are, so that it is no mistake
            yield f"`{name}` says {', '.join(said)}; its columns are used as {', '.join(order)}{at}"
            return


def _roles_played(attention: Attention) -> dict[str, set[str]]:
    """Return the roles that the numbers of each parameter reach: name -> some of queries, keys and values."""
    scores, trace = attention.rows.scores, attention.trace
    factors: dict[str, list[Value]] = {role: [] for role in ROLE_OF_INITIAL.values()}
    for product in attention.structure.value_products:
        factors["values"].append(scores.weights_and_values(product)[1][0])
        right = scores.keys_are_right(product)
        for one in attention.structure.score_products:
            factors["keys" if right else "queries"].append(one.right)
            factors["queries" if right else "keys"].append(one.left)
    before = {role: trace.ancestors(values) - attention.structure.score_descendants for role, values in factors.items()}
    found = {}
    for name in attention.run.parameter_reads:
        readers = {one.number for one in attention.run.readers_of(name)}
        found[name] = {role for role, operations in before.items() if readers & operations}
    return found


def _role_in(name: str) -> tuple[str | None, str]:
    """Return the role in the name of a parameter, None without one, and the rest of the name."""
    parts = name.split(".")
    for at in reversed(range(len(parts))):
        if INITIALS.search(parts[at]):
            return None, ""
        if role_of(parts[at]):
            return role_of(parts[at]), ".".join([*parts[:at], "", *parts[at + 1 :]])
    return None, ""


def _orders_in(names: list[str], roles: set[str]) -> dict[str, list[str]]:
    """Return the orders of some roles that names tell by their initials: "kv_proj" -> keys, values."""
    found = {}
    for name in names:
        initials = INITIALS.search(name)
        order = [ROLE_OF_INITIAL[one] for one in initials[1].lower()] if initials else []
        if set(order) == roles and len(order) == len(roles):
            found[name] = order
    return found


def _columns_of_roles(attention: Attention, row: Row) -> dict[str, set[int]]:
    """Return the columns of weights behind the query, the first key and the first value of a row."""
    scores, structure = attention.rows.scores, attention.structure
    product, element = scores.origin_of(row.scores[0])
    sides = [set(structure.columns[value.number].flatten()[at[element]].tolist()) for value, at in product.sides()]
    query, key = sides if scores.keys_are_right(row.product) else sides[::-1]
    values, at = scores.weights_and_values(row.product)[1]
    value = set(structure.columns[values.number].flatten()[at[row.outputs][:, row.positions[0]]].tolist())
    return {"queries": query - {UNLABELLED}, "keys": key - {UNLABELLED}, "values": value - {UNLABELLED}}


def _locate(attention: Attention, *names: str) -> SourceLine | None:
    """Find the first line that reads one of some parameters."""
    first = next(iter(attention.run.readers_of(*names)), None)
    product = attention.structure.score_products[0].operation
    return None if first is None else line_at(first.statement_in(product.code))


def _locate_parts(attention: Attention, product: Contraction) -> SourceLine | None:
    """Find the line that names the parts of a projection's result, or else the one that takes it apart."""
    code = product.operation.code
    after = attention.run.in_order(attention.trace.descendants({product.operation.number}))
    named = (one.statement_in(code) for one in after if any(frame is code for frame, _ in one.frames))
    line = next((line_at(one) for one in named if len(one.names) > 1), None)
    return line or next((one.where for one in after if len(one.outputs) > 1), product.operation.where)
