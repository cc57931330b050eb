"""Lines of code that run one after the other, and what each of them makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

FILE = "<line {}>"  # what Python calls the file of the line at an index


@dataclass
class LinesRun:
    """What lines made in their order.

    Attributes:
        made: For each line that ran, name -> the value that it assigned.
        error: What the line after these raised; None if all ran.
    """

    made: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def value(self, name: str) -> Any:
        """Return the last value that was assigned to a name; None if there is none."""
        return next((made[name] for made in reversed(self.made) if name in made), None)


def run_lines(lines: Sequence[str], start: Mapping[str, Any]) -> LinesRun:
    """Run lines of code until one of them raises an error.

    Args:
        lines: The lines, in the order in which they run.
        start: Name -> value of what exists before the first line, besides `torch`.
    """
    names = {"torch": torch, "__builtins__": __builtins__, **start}
    run = LinesRun()
    for index, line in enumerate(lines):
        before = dict(names)
        try:
            exec(compile(line, FILE.format(index), "exec", dont_inherit=True), names)
        except Exception as error:
            run.error = error
            return run
        run.made.append({name: value for name, value in names.items() if value is not before.get(name)})
    return run
