"""What the run of a set of versions gave: kept, laid out as a table, stored for the book."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

SHOWN = ("python", "torch", "numpy", "matplotlib", "ipython", "ipykernel")  # of the versions, what is stored
EQUAL = "all equal"


@dataclass
class NotebookResult:
    """One notebook's run: the cells that are compared, those that were equal, a line for each that was not."""

    label: str
    cells: int = 0
    equal: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """What is printed as soon as the notebook has run."""
        state = f"{len(self.problems)} DIFFER" if self.problems else "equal"
        return f"{self.label:<28} {self.equal:>3} of {self.cells:>3} {self.seconds:>6.1f} s  {state}"


@dataclass
class SetResult:
    """One set's run: its versions, its notebooks, and what went wrong outside of them."""

    name: str
    versions: dict[str, str] = field(default_factory=dict)
    notebooks: list[NotebookResult] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def total(self, part: str) -> Any:
        """Add up ``cells``, ``equal`` or ``seconds`` over the notebooks."""
        return sum(getattr(notebook, part) for notebook in self.notebooks)

    @property
    def verdict(self) -> str:
        """One or two words: all equal, or how many notebooks are not."""
        if self.problems or not self.notebooks:
            return "FAILED"
        wrong = sum(bool(notebook.problems) for notebook in self.notebooks)
        return f"{wrong} DIFFER" if wrong else EQUAL


def table(results: list[SetResult]) -> str:
    """Lay the results out, a row a set: the compared cells, how many of them were equal, the notebooks' seconds."""
    heads = f"{'set':<8} {'Python':<9} {'torch':<14} {'notebooks':>9} {'cells':>6} {'equal':>6} {'seconds':>8}  verdict"
    lines = ["", heads, "-" * len(heads + "xx")]
    for each in results:
        python, torch = (each.versions.get(name, "?") for name in ("python", "torch"))
        counts = (
            f"{len(each.notebooks):>9} {each.total('cells'):>6} {each.total('equal'):>6} {each.total('seconds'):>8.1f}"
        )
        lines.append(f"{each.name:<8} {python:<9} {torch:<14} {counts}  {each.verdict}")
    return "\n".join([*lines, ""])


def problems(results: list[SetResult]) -> Iterator[str]:
    """Yield a line for everything that was not as it should be: set, notebook, cell, first difference."""
    for each in results:
        yield from (f"{each.name}: {problem}" for problem in each.problems)
        for notebook in each.notebooks:
            yield from (f"{each.name}: {notebook.label}, {problem}" for problem in notebook.problems)


def as_data(results: list[SetResult], day: date) -> dict[str, Any]:
    """Return the results as plain data, a day and a list of sets, as the book reads them."""
    sets = []
    for each in results:
        versions = {name: each.versions.get(name, "unknown") for name in SHOWN}
        counts = {part: each.total(part) for part in ("cells", "equal")}
        about = {"name": each.name, **versions, "notebooks": len(each.notebooks), **counts}
        sets.append({**about, "seconds": round(each.total("seconds"), 1), "verdict": each.verdict})
    return {"date": day.isoformat(), "sets": sets}


def store(results: list[SetResult], path: Path) -> None:
    """Write the results, with today's date, as JSON."""
    path.write_text(json.dumps(as_data(results, date.today()), indent=2) + "\n", encoding="utf-8")
