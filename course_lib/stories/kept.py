"""Whether a text keeps the facts that it sets."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from .language import GIRLS, KIND_OF, PRONOUNS, SLOT, choices_of, parse_slot
from .plots import SENTENCES

Reading = tuple[tuple[str, str, int], ...]  # what a sentence says: each fact's name, its word, and where that begins
DISTINCT = {"name", "thing", "place"}  # one word for two of these: nobody knows which is meant (two owls may well meet)
SENTENCE_END = re.compile(r'[.!?]"? ')


class Mention(NamedTuple):
    """A word of a text that says a fact.

    Attributes:
        start, end: Its first letter, and the one behind its last.
        name: The fact's name, such as "other animal".
        word: The word, in small letters.
        again: Whether the text said something of this fact before; a pronoun always says again who the hero is.
        right: Whether it agrees with what the text said before.
    """

    start: int
    end: int
    name: str
    word: str
    again: bool
    right: bool


def facts_kept_by(text: str) -> dict[str, bool]:
    """Read a text and tell of each kind of fact whether it is kept.

    A kind is kept if whatever the text says of its facts is what it said first, and if it comes back to one of them at
    least once: to say nothing more of a fact is to lose it. Where a sentence can be read in several ways, the reading
    that agrees best with those before it counts.

    Args:
        text: A story, as `stories` tells it or as a model writes it.

    Returns:
        Kind -> whether its facts are kept, for the kinds of which the text says something; and "sentence" -> whether
        every sentence is one of the language.
    """
    found, is_language = mentions(text)
    by_kind: dict[str, list[Mention]] = {}
    for mention in found:
        by_kind.setdefault(KIND_OF[mention.name], []).append(mention)
    kept = {
        kind: all(each.right for each in said) and any(each.again for each in said) for kind, said in by_kind.items()
    }
    return {"sentence": is_language, **kept}


def mentions(text: str) -> tuple[list[Mention], bool]:
    """The words of a text that say facts, and whether every sentence is one of the language."""
    found: list[Mention] = []
    facts: dict[str, str] = {}
    is_language, start = True, 0
    while start < len(text):
        readings = list(_readings(text, start))
        if not readings:
            end = SENTENCE_END.search(text, start)
            is_language, start = False, end.end() if end else len(text)
            continue
        reading, start = min(readings, key=lambda one: _disagreement(one[0], facts))
        for name, word, at in reading:
            again = name in facts or KIND_OF[name] == "pronoun"
            found.append(Mention(at, at + len(word), name, word, again, not _differs(name, word, facts)))
            if not again:
                facts[name] = word
    return found, is_language


@cache
def sentence_patterns() -> list[tuple[re.Pattern[str], list[str]]]:
    """For each sentence of the language a pattern, and the names of the facts that its groups say."""
    found = []
    for template in SENTENCES:
        parts = SLOT.split(template)
        slots = [parse_slot(written) for written in parts[1::2]]
        pattern = re.escape(parts[0])
        for slot, text in zip(slots, parts[2::2], strict=True):
            pattern += f"{'an? ' if slot.article else ''}({'|'.join(choices_of(slot))}){re.escape(text)}"
        found.append((re.compile(rf"{pattern}(?: |$)"), [slot.name for slot in slots]))
    return found


def _readings(text: str, start: int) -> Iterator[tuple[Reading, int]]:
    """All ways to read the sentence that begins at an offset, each with the offset at which it ends."""
    for pattern, names in sentence_patterns():
        if match := pattern.match(text, start):
            said = [(name, match[group].lower(), match.start(group)) for group, name in enumerate(names, 1)]
            yield tuple(said), match.end()


def _disagreement(reading: Reading, facts: Mapping[str, str]) -> tuple[int, int]:
    """How much of a reading differs from what the text said before, and how much it says for the first time."""
    differing = sum(_differs(name, word, facts) or _coincides(name, word, facts) for name, word, _ in reading)
    return differing, sum(name not in facts for name, _, _ in reading)


def _differs(name: str, word: str, facts: Mapping[str, str]) -> bool:
    """Whether a fact is another one than the text said before."""
    if KIND_OF[name] == "pronoun":
        other, _, form = name.rpartition(" ")
        person = facts.get("friend" if other else "hero")
        return person is not None and word != PRONOUNS[form][person.capitalize() not in GIRLS]
    if name in facts:
        return facts[name] != word
    if name in ("first", "second"):
        people = facts.get("hero"), facts.get("friend")
        return word not in people or word in (facts.get("first"), facts.get("second"))
    return KIND_OF[name] in DISTINCT and _coincides(name, word, facts)


def _coincides(name: str, word: str, facts: Mapping[str, str]) -> bool:
    """Whether a new fact is the same word as another one of its kind."""
    kind = KIND_OF[name]
    return name not in facts and any(KIND_OF[known] == kind and said == word for known, said in facts.items())
