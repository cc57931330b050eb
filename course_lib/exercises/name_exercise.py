"""The exercises whose answer is the name of a mistake."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.mistakes import CATALOGUE

from .lines_of_code import question_about
from .returning import ReturningExercise
from .verdict import Verdict, not_passed, passed


@dataclass(frozen=True, kw_only=True)
class NameExercise(ReturningExercise):
    """An exercise whose answer is the id of a mistake; the solution returns the right one.

    Attributes:
        seen: The evidence for it, one sentence.
        against: Id -> the evidence against it; for other ids a line of `given` is quoted, with a question.
    """

    seen: str
    against: Mapping[str, str] = field(default_factory=dict)

    def _judge_given(self, given: Any) -> Verdict:
        if given is None:
            hint = f"What does the last line of `{self.name}` give back?"
            return not_passed("Your function gives back None: is a `return` missing?", "returns-none", hint=hint)
        if not isinstance(given, str):
            kind = type(given).__name__
            return not_passed(f"The answer is of type {kind}; it should be a name such as 'no-softmax'.")
        return judge_name(given, self.solution(), self.seen, self.given, self.against)


def judge_name(name: str, right: str, seen: str, source: str, against: Mapping[str, str] | None = None) -> Verdict:
    """Compare the name of a mistake, its id or its title, with the right id.

    Args:
        name: The answer.
        right: The id of the mistake.
        seen: The evidence for it, one sentence.
        source: The code with the mistake.
        against: Id -> the evidence against it.
    """
    name = _by_title(name) or name.strip().lower().replace("_", "-").replace(" ", "-")
    if name == right:
        return passed(f"{CATALOGUE[name].title} {seen}")
    if name not in CATALOGUE:
        near = [one for one in difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.4) if _is_part(name, one)]
        listed = f" Names that are near: {', '.join(near)}." if near else ""
        return not_passed(
            f"No mistake is called {name!r}.{listed} Print the catalogue: `list(CATALOGUE)` holds all names."
        )
    reason = (against or {}).get(name) or question_about(name, source)
    hint = f"How could you see whether it is `{name}`: what would you change, and what would have to stay the same?"
    return not_passed(f"It is not `{name}`. {reason}", hint=hint)


def _is_part(text: str, name: str) -> bool:
    """Return whether each word of a text is one of a name, perhaps misspelt; a sentence gets no name in return."""
    words = name.split("-")
    return all(difflib.get_close_matches(word, words, n=1, cutoff=0.7) for word in text.split("-"))


def _by_title(text: str) -> str | None:
    """Return the id of the mistake that has this title, with spaces or hyphens."""
    plain = "".join(character for character in text.lower() if character.isalnum())
    return next((m.id for m in CATALOGUE.values() if plain == "".join(c for c in m.title.lower() if c.isalnum())), None)
