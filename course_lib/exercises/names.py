"""The judge of exercises whose answer is the name of a mistake."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.diagnosis import CATALOGUE

from .running import Stopped, run
from .stubs import is_empty
from .verdict import Verdict, not_passed, not_written, passed


@dataclass(frozen=True)
class NameJudge:
    """Compares a name with the right one and says what speaks against another.

    Attributes:
        right: id of the catalogue.
        seen: what shows that it is this one, one sentence.
        against: id -> what speaks against it; for others the catalogue says how they would show.
    """

    right: str
    seen: str
    against: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, answer: Any) -> Verdict:
        if is_empty(answer):
            return not_written()
        try:
            name = run(answer) if callable(answer) else answer
        except Stopped as stopped:
            return not_written() if stopped.unwritten else not_passed(stopped.says, where=stopped.where)
        if name is None:
            return not_passed("Your function gives back None: is a `return` missing?", "returns-none")
        if not isinstance(name, str):
            return not_passed(f"The answer is a {type(name).__name__}; it should be a name such as 'no-softmax'.")
        name = name.strip().lower().replace("_", "-").replace(" ", "-")
        if name == self.right:
            return passed(f"{CATALOGUE[name].title} {self.seen}")
        if name not in CATALOGUE:
            near = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.4) or ["no-softmax"]
            return not_passed(f"No mistake is called {name!r}. Names that are near: {', '.join(near)}.")
        reason = self.against.get(name) or f"It would show like this: {CATALOGUE[name].shows}"
        return not_passed(f"It is not `{name}`. {reason}", hint="What does the module do on real numbers? Run it.")
