"""Exercises that say what is wrong: `check("split_heads", split_heads)` names the mistake, `progress()` sums up."""

from .checking import check
from .summary import progress
from .verdict import Verdict

__all__ = ["Verdict", "check", "progress"]
