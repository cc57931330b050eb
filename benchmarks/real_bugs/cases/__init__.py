"""The table of cases, `cases.toml`, and the functions that build their code, a file for each family."""

import tomllib
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.real_bugs.case import Case, Unmeasured
from benchmarks.real_bugs.sources import Commit, Release, Source


def _source(code: str, revision: str, paths: tuple[str, ...], needs: tuple[str, ...]) -> Source:
    return Commit(code, revision, paths, needs) if "/" in code else Release(code, revision, needs)


def _case(row: dict[str, Any]) -> Case:
    paths, needs, also = (tuple(row.pop(name, ())) for name in ("paths", "needs", "also"))
    code, family, name = row.pop("code"), *row.pop("build").split(".")
    build = partial(getattr(import_module(f".{family}", __name__), name), **row.pop("options", {}))
    before, after = (_source(code, row.pop(side), paths, needs) for side in ("before", "after"))
    return Case(**row, before=before, after=after, build=build, also=also)


_TABLE = tomllib.loads(Path(__file__).parents[1].joinpath("cases.toml").read_text(encoding="utf-8"))
CASES = tuple(map(_case, _TABLE["case"]))
UNMEASURED = tuple(Unmeasured(**row) for row in _TABLE["unmeasured"])
