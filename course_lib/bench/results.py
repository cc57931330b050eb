"""What a benchmark leaves behind: plain data that is written as JSON, read back, drawn and held against the goals.

The JSON is these classes, field by field:

    {"machine": {...}, "limits": [{...}], "groups": [{..., "rows": [{..., "times_ms": [...]}]}], "goals": [{...}]}

A row's JSON also holds what follows from its times (`median_ms`, `ratio`, ...), for readers without this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

MEASURED = Path(__file__).parent / "measured"
DERIVED = ("median_ms", "min_ms", "max_ms", "quartiles_ms", "times_limit")  # of a row, written for other readers


@dataclass(frozen=True)
class Row:
    """What was measured of one case.

    Attributes:
        name: of the case.
        times_ms: milliseconds, one a round; times at one place in two rows of a group are of one round.
        ratio: median over the rounds of (time of this case / time of the first case in that round); 1.0 for the first.
        peak_bytes: what the case takes at most on top of what is there, or None if not measured.
        cache_bytes: keys and values that were there before, or None.
        bytes, flops: what any form must read or write at least, and multiply and add; None where no limit is meant.
        limit_ms: the time that the machine's measured limits allow for them: max(bytes / read rate, flops / matrix
            rate), or None.
    """

    name: str
    times_ms: tuple[float, ...]
    ratio: float = 1.0
    peak_bytes: int | None = None
    cache_bytes: int | None = None
    bytes: int | None = None
    flops: int | None = None
    limit_ms: float | None = None

    @property
    def median_ms(self) -> float:
        """The time of half of the rounds or less."""
        return median(self.times_ms)

    @property
    def min_ms(self) -> float:
        """The fastest round."""
        return min(self.times_ms)

    @property
    def max_ms(self) -> float:
        """The slowest round."""
        return max(self.times_ms)

    @property
    def quartiles_ms(self) -> tuple[float, float]:
        """The spread: half of the rounds lie between these two."""
        if len(self.times_ms) == 1:
            return self.times_ms[0], self.times_ms[0]
        lower, _, upper = quantiles(self.times_ms, n=4, method="inclusive")
        return lower, upper

    @property
    def times_limit(self) -> float | None:
        """The distance from the limit: 2.0 is twice the time that the machine would need at best."""
        return None if self.limit_ms is None else self.median_ms / self.limit_ms

    @property
    def speedup(self) -> float:
        """How many times as fast as the first case."""
        return 1 / self.ratio


@dataclass(frozen=True)
class Table:
    """Cases measured in the same rounds.

    Attributes:
        name: of the group, as on the command line; several tables share it and differ in what follows.
        title: stands above the table.
        device: "cpu" or "cuda".
        dtype: "float32" or "bfloat16".
        direction: "forward" or "forward and backward".
        sizes: what was measured, such as {"batch": 8, "num_tokens": 256, "num_heads": 12}.
        rows: one a case.
        left_out: sentences that say which cases are missing, and why.
    """

    name: str
    title: str
    device: str
    dtype: str
    direction: str
    sizes: dict[str, int]
    rows: list[Row]
    left_out: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Row:
        """The row of that name; KeyError with the names there are."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r} in {self.title!r}: there are {[row.name for row in self.rows]}.")


@dataclass(frozen=True)
class Limits:
    """What one device of the machine can do at best, measured: see limits.py.

    Attributes:
        device, dtype: where and in what.
        matmul_gflops: 10^9 multiplications and additions a second in a large matrix product.
        read_gb_per_s: 10^9 bytes a second, read from memory.
        copy_gb_per_s: 10^9 bytes a second, read and written, each counted.
    """

    device: str
    dtype: str
    matmul_gflops: float
    read_gb_per_s: float
    copy_gb_per_s: float

    def milliseconds(self, bytes_: int, flops: int) -> float:
        """The least time in which so much can be read and so much be computed, both at once."""
        return max(bytes_ / self.read_gb_per_s, flops / self.matmul_gflops) / 1e6


@dataclass(frozen=True)
class Goal:
    """One goal, and what was measured of it.

    Attributes:
        goal: a sentence.
        where: the table or tables it was measured in.
        measured: the number.
        bound: what it had to be.
        sense: "at most" or "at least" that bound.
        met: the verdict.
        note: what decides in words: the interval of the ratio, by how much it was missed.
    """

    goal: str
    where: str
    measured: float
    bound: float
    sense: str
    met: bool
    note: str


@dataclass(frozen=True)
class Results:
    """All of a run. `machine` is plain text and numbers: see machine.py."""

    machine: dict[str, str | int | None]
    limits: list[Limits]
    groups: list[Table]
    goals: list[Goal] = field(default_factory=list)

    def find(self, name: str, **wanted: object) -> Iterator[Table]:
        """The tables of a group, in order, that have what is wanted.

        Args:
            name: of the group.
            wanted: fields of the table or of its sizes, as dtype="float32" or key_len=4096.
        """
        for table in self.groups:
            has = asdict(table) | table.sizes
            if table.name == name and all(has.get(key) == value for key, value in wanted.items()):
                yield table

    def to_json(self) -> str:
        """JSON, with what follows from the times beside them."""
        plain = asdict(self)
        for table, own in zip(plain["groups"], self.groups, strict=True):
            for row, measured in zip(table["rows"], own.rows, strict=True):
                row |= {name: getattr(measured, name) for name in DERIVED}
        return json.dumps(plain, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """What `to_json` wrote.

        Raises:
            ValueError: text that is not the JSON of a benchmark.
        """
        try:
            plain = json.loads(text)
            tables = []
            for table in plain["groups"]:
                rows = []
                for row in table.pop("rows"):
                    stored = {name: value for name, value in row.items() if name not in DERIVED}
                    rows.append(Row(**stored | {"times_ms": tuple(row["times_ms"])}))
                tables.append(Table(**table, rows=rows))
            limits = [Limits(**each) for each in plain["limits"]]
            goals = [Goal(**each) for each in plain["goals"]]
            return cls(plain["machine"], limits, tables, goals)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"this is not the JSON of `course bench --json`: {error!r}.") from error


def load_results(path: str | Path) -> Results:
    """Read what `course bench --save` wrote.

    Raises:
        ValueError: not such a file.
    """
    return Results.from_json(Path(path).read_text(encoding="utf-8"))


def stored(device: str) -> Results:
    """The measurement that came with the course, on one machine that its `.machine` describes.

    Args:
        device: "cpu" or "cuda".

    Raises:
        FileNotFoundError: none was stored for this device; the sentence says which there are.
    """
    path = MEASURED / f"{device}.json"
    if not path.exists():
        there = sorted(each.stem for each in MEASURED.glob("*.json"))
        raise FileNotFoundError(
            f"the course has no stored benchmark of {device!r}, only of {there}: run `course bench --save FILE` and "
            "read it with load_results(FILE)."
        )
    return load_results(path)
