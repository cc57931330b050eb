"""The results of a benchmark as plain data, which is stored as JSON, drawn and compared with the goals.

The JSON has the fields of these classes:

    {"machine": {...}, "limits": [{...}], "groups": [{..., "rows": [{..., "times_ms": [...]}]}], "goals": [{...}]}

The JSON of a row also holds what is derived from its times (`median_ms`, ...), for readers without this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

DERIVED = ("median_ms", "min_ms", "max_ms", "quartiles_ms", "times_limit")  # properties that are written, not read


@dataclass(frozen=True)
class Measurement:
    """The measurement of one case, which is one row of a table.

    Attributes:
        name: name of the case.
        times_ms: milliseconds, one per round; equal indices in two rows of a table belong to the same round.
        ratio: median over the rounds of (time of this case / time of the first case in that round); 1.0 for the first.
        peak_bytes: the most memory that the case holds, in addition to what was held before; None if not measured.
        cache_bytes: size of the keys and values that were in the cache beforehand, or None.
        bytes, flops: the least that any implementation must read and write, and multiply and add; None if no limit is
            to be shown.
        limit_ms: the least time for these at the machine's measured limits: max(bytes / read rate, flops / matrix
            rate); None without them.
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
        """The median time."""
        return median(self.times_ms)

    @property
    def min_ms(self) -> float:
        """The time of the fastest round."""
        return min(self.times_ms)

    @property
    def max_ms(self) -> float:
        """The time of the slowest round."""
        return max(self.times_ms)

    @property
    def quartiles_ms(self) -> tuple[float, float]:
        """The lower and the upper quartile: half of the rounds lie between them."""
        if len(self.times_ms) == 1:
            return self.times_ms[0], self.times_ms[0]
        lower, _, upper = quantiles(self.times_ms, n=4, method="inclusive")
        return lower, upper

    @property
    def times_limit(self) -> float | None:
        """The median as a multiple of the limit: 2.0 is twice the least time."""
        return None if self.limit_ms is None else self.median_ms / self.limit_ms


@dataclass(frozen=True)
class Table:
    """Cases measured in the same rounds.

    Attributes:
        name: name of the group, as on the command line; tables of one group differ in the other attributes.
        title: the heading.
        device: "cpu" or "cuda".
        dtype: "float32" or "bfloat16".
        direction: "forward" or "forward and backward".
        sizes: what was measured, such as {"batch": 8, "num_tokens": 256, "num_heads": 12}.
        rows: one per case.
        left_out: one sentence per missing case, with the reason.
    """

    name: str
    title: str
    device: str
    dtype: str
    direction: str
    sizes: dict[str, int]
    rows: list[Measurement]
    left_out: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Measurement:
        """Return the row of that name.

        Raises:
            KeyError: there is no such row; the message lists the names.
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r} in {self.title!r}: there are {[row.name for row in self.rows]}.")


@dataclass(frozen=True)
class MachineLimits:
    """The highest rates that were measured on one device in one dtype.

    Attributes:
        device, dtype: the device and the dtype that the rates were measured with.
        matmul_gflops: 10^9 multiplications and additions per second in a large matrix product.
        read_gb_per_s: 10^9 bytes read from memory per second.
        copy_gb_per_s: 10^9 bytes per second, reading and writing both counted.
    """

    device: str
    dtype: str
    matmul_gflops: float
    read_gb_per_s: float
    copy_gb_per_s: float

    def milliseconds(self, bytes_: int, flops: int) -> float:
        """Return the least time to read so many bytes and, at the same time, compute so many operations."""
        return max(bytes_ / self.read_gb_per_s, flops / self.matmul_gflops) / 1e6


@dataclass(frozen=True)
class Goal:
    """One goal, and the measurement that decides it.

    Attributes:
        goal: one sentence.
        where: the table it was measured in.
        measured: the measured value.
        bound: the value it is compared with.
        sense: "at most" or "at least" that bound.
        met: whether the goal was met.
        note: details, such as the confidence interval of a ratio.
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
    """All results of one run.

    Attributes:
        machine: a description of the machine, such as {"processor": ..., "cores": ...}.
        limits: the machine's measured limits.
        groups: the tables, in the order in which they were measured.
        goals: the goals, and whether they were met.
    """

    machine: dict[str, str | int | None]
    limits: list[MachineLimits]
    groups: list[Table]
    goals: list[Goal] = field(default_factory=list)

    def find(self, name: str, **wanted: object) -> Iterator[Table]:
        """Yield the tables of a group that match, in order.

        Args:
            name: name of the group.
            wanted: fields of the table or of its sizes, such as dtype="float32" or key_len=4096.
        """
        for table in self.groups:
            fields = vars(table) | table.sizes
            if table.name == name and all(fields.get(key) == value for key, value in wanted.items()):
                yield table

    def to_json(self) -> str:
        """Return the JSON that the docstring of the module describes."""
        plain = asdict(self)
        for table, group in zip(plain["groups"], self.groups, strict=True):
            for row, measured in zip(table["rows"], group.rows, strict=True):
                row |= {name: getattr(measured, name) for name in DERIVED}
        return json.dumps(plain, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is not the JSON of a benchmark.
        """
        try:
            plain = json.loads(text)
            tables = [
                Table(**table | {"rows": [_measurement(row) for row in table["rows"]]}) for table in plain["groups"]
            ]
            limits = [MachineLimits(**each) for each in plain["limits"]]
            goals = [Goal(**each) for each in plain["goals"]]
            return cls(plain["machine"], limits, tables, goals)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"this is not the JSON of `course bench --json`: {error!r}.") from error


def _measurement(row: dict[str, Any]) -> Measurement:
    fields: dict[str, Any] = {name: value for name, value in row.items() if name not in DERIVED}
    fields["times_ms"] = tuple(fields["times_ms"])
    return Measurement(**fields)


def load_results(path: str | Path) -> Results:
    """Read what `course bench --save` wrote.

    Raises:
        ValueError: the file has other content.
    """
    return Results.from_json(Path(path).read_text(encoding="utf-8"))
