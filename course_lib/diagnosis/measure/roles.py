"""Read from the name of a parameter or variable what it makes: queries, keys, values or the output."""

import re
from itertools import product as product_of

import torch

from .structure import Structure

# A name contains its role as a whole word ("key", "queries") or as a letter beside others ("w_k", "to_q", "v_proj").
LETTER = r"(^|[._])(w_?)?(to_?)?(lin(ear)?_?)?{}([._]|$|_|\d|proj|lin)"
ROLES = {
    "keys": re.compile(LETTER.format("k(ey)?s?") + "|key", re.I),
    "values": re.compile(LETTER.format("v(al(ue)?)?s?") + "|val", re.I),
    "queries": re.compile(LETTER.format("q(uery|ueries)?s?") + "|quer", re.I),
}
IN_ORDER = ("queries", "keys", "values")
LAST = "o|out|proj|output|fc|combine|merge|dense|final|unify|mix"
OUTPUT = re.compile(rf"(^|[._])(w_?)?(lin(ear)?_?)?({LAST})([._]|$|_|\d|put|proj|w)|out|proj_?o|o_?proj", re.I)


def role_of(name: str) -> str | None:
    """Return "queries", "keys", "values", or None if the name contains none of them."""
    return next((role for role, pattern in ROLES.items() if pattern.search(name)), None)


def unused_roles(structure: Structure) -> set[str]:
    """Return the roles whose weights don't change the output, by the names of parameters and unused variables."""
    run = structure.run
    names = list(run.unused_parameters)
    for product in structure.projections:
        if product.operation.number not in run.live:
            statement = product.operation.statement
            names += [*statement.names, *re.findall(r"[A-Za-z_]\w*", statement.expression)]
    roles = {role_of(name) for name in names} | _unused_part(structure)
    return {role for role in roles if role}


def _unused_part(structure: Structure) -> set[str]:
    """Return the role of the part of packed weights that nothing uses."""
    live = [number in structure.run.live for number in sorted(structure.projection_operations)]
    if len(live) == 3 and sum(live) == 2:  # three projections in their usual order
        return {IN_ORDER[live.index(False)]}
    values = [v for p in (*structure.score_products, *structure.value_products) for v, _ in p.sides()]
    used = set().union(*map(structure.columns_in, values))
    for product in structure.projections:
        number = product.operation.number
        if (structure.trace.descendants({number}) - {number}) & structure.projection_operations:
            continue  # what is projected again, as by a convolution, has the columns of that
        columns = torch.unique(structure.columns[product.out.number])
        for whole, roles in product_of((True, False), (IN_ORDER, IN_ORDER[1:])):
            if len(columns) % len(roles) or product.operation.number not in structure.run.live:
                continue
            parts = [set(part.tolist()) for part in columns.view(len(roles), -1)]
            touched = [bool(part & used) for part in parts]
            halved = whole and any(part & used and not part <= used for part in parts)
            if sum(touched) == len(roles) - 1 and not halved:
                return {roles[touched.index(False)]}
        unused = [int(column) for column in columns if int(column) not in used]
        if 0 < len(unused) < len(columns) and product.operation.number in structure.run.live:
            return _by_position(unused, columns.tolist())
    return set()


def _by_position(unused: list[int], columns: list[int]) -> set[str]:
    """Return the role of one block of unused columns: at the beginning the queries, at the end the values."""
    start, end = columns.index(unused[0]), columns.index(unused[-1]) + 1
    if end - start != len(unused):
        return set()
    return {"queries" if start == 0 else "values" if end == len(columns) else "keys"}
