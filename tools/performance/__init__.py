"""How fast the forms of attention are, and how much memory they take, against the limits of the machine."""

from .cases import GROUPS
from .goals import judge
from .machine import describe_machine, measure_limits
from .runner import measure
from .tables import format_goals, format_machine, format_tables

__all__ = [
    "GROUPS", "describe_machine", "format_goals", "format_machine", "format_tables", "judge", "measure",
    "measure_limits",
]  # fmt: skip
