"""Which parameter or variable is meant to make queries, keys or values."""

from __future__ import annotations

import re

import torch

from ..examination import Examination
from ..trace import Operation

# A name says its role as a whole word ("key", "queries") or as a letter beside others ("w_k", "to_q", "v_proj").
LETTER = r"(^|[._])(w_?)?(to_?)?(lin(ear)?_?)?{}([._]|$|_|\d|proj|lin)"
KEYS = re.compile(LETTER.format("k(ey)?s?") + "|key", re.I)
VALUES = re.compile(LETTER.format("v(al(ue)?)?s?") + "|val", re.I)
QUERIES = re.compile(LETTER.format("q(uery|ueries)?s?") + "|quer", re.I)
LAST = "o|out|proj|output|fc|combine|merge|dense|final|unify|mix"
OUT = re.compile(rf"(^|[._])(w_?)?(lin(ear)?_?)?({LAST})([._]|$|_|\d|put|proj|w)|out|proj_?o|o_?proj", re.I)


def role_of(name: str) -> str | None:
    """What a parameter's or a variable's name says it makes: "queries", "keys", "values" or None."""
    for role, pattern in (("keys", KEYS), ("values", VALUES), ("queries", QUERIES)):
        if pattern.search(name):
            return role
    return None


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
