"""What was tried with which versions, as the last `make test-versions` stored it."""

import json
from pathlib import Path

from book.make import tables

COLUMNS = ("Python", "torch", "numpy", "IPython", "ipykernel")


def write_versions(stored: Path, page: Path) -> None:
    """Fill in the table that `versions.md` leaves open.

    Raises:
        ValueError: nothing has been stored yet.
    """
    if not stored.exists():
        raise ValueError(f"{stored.name} is missing: run `make test-versions ARGS=--save` (a quarter of an hour).")
    rows = table(json.loads(stored.read_text(encoding="utf-8")))
    page.write_text(page.read_text(encoding="utf-8").replace("{{ versions }}", rows), encoding="utf-8")


def table(data: dict) -> str:
    """Lay the stored run out, a row a set of versions, below its date."""
    rows = [["set", *COLUMNS, "notebooks", "cells that agree"]]
    for each in data["sets"]:
        versions = [str(each[name.lower()]) for name in COLUMNS]
        rows.append([each["name"], *versions, str(each["notebooks"]), f"{each['equal']} of {each['cells']}"])
    return f"Last run on {data['date']}:\n\n{tables.table(rows)}"
