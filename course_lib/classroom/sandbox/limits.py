"""How much a student's notebook may take."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """What one notebook may take.

    Attributes:
        cell: seconds that one cell may run.
        answer: seconds that one call of an answer may take.
        notebook: seconds for everything.
        memory: bytes beyond what Python and torch have.
        disk: megabytes that may be written, to a folder in memory that nobody else sees.
    """

    cell: float = 10.0
    answer: float = 10.0
    notebook: float = 60.0
    memory: int = 2 << 30
    disk: int = 16

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not isinstance(value, (int, float)):
                raise TypeError(f"{one.name} is {value!r}: give a number.")
            if not 0 < value < math.inf:
                raise ValueError(f"{one.name} is {value}: a limit must be more than 0, and finite.")
