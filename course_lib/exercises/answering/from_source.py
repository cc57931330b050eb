"""An argument that is code, kept as its source so that it can be sent to another process."""

from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

MADE = "<made>"  # stands for the file in tracebacks


@dataclass(frozen=True)
class FromSource:
    """An argument that is made by running source and calling a function that it defines.

    Attributes:
        source: Python that imports torch, or what the exercise provides of the course.
        name: The name of the function to call.
        arguments: Plain data and tensors.
    """

    source: str
    name: str
    arguments: tuple[Any, ...] = ()

    def build(self) -> Any:
        """Run the source in a new namespace and call the function, which may change the arguments."""
        namespace: dict[str, Any] = {"__name__": "made"}
        exec(_compiled(self.source), namespace)
        return namespace[self.name](*self.arguments)


@lru_cache(maxsize=64)  # each case of an exercise runs the same source
def _compiled(source: str) -> CodeType:
    return compile(source, MADE, "exec", dont_inherit=True)
