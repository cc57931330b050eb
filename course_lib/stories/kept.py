"""Whether a text keeps the facts that it sets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from .language import CHOICES, GIRLS, KIND_OF, PRONOUNS, SLOT, parse_slot
from .plots import PLOTS

Reading = tuple[tuple[str, str], ...]  # the facts that a sentence says, by name, in its order
DISTINCT = {"name", "thing", "place"}  # one word for two of these: nobody knows which is meant (two owls may well meet)
SENTENCE_END = re.compile(r'[.!?]"? ')


def facts_kept(text: str) -> dict[str, bool]:
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
    facts: dict[str, str] = {}
    repeats: Counter[str] = Counter()
    lost: set[str] = set()
    is_language, start = True, 0
    while start < len(text):
        readings = list(_readings(text, start))
        if not readings:
            end = SENTENCE_END.search(text, start)
            is_language, start = False, end.end() if end else len(text)
            continue
        reading, start = min(readings, key=lambda one: _disagreement(one[0], facts))
        for name, word in reading:
            kind = KIND_OF[name]
            lost |= {kind} if _differs(name, word, facts) else set()
            if name in facts or kind == "pronoun":
                repeats[kind] += 1
            else:
                facts[name] = word
    kinds = dict.fromkeys([*map(KIND_OF.__getitem__, facts), *repeats])
    return {"sentence": is_language, **{kind: kind not in lost and repeats[kind] > 0 for kind in kinds}}


@cache
def _patterns() -> list[tuple[re.Pattern[str], list[str]]]:
    """For each sentence of the language a pattern, and the names of the facts that its groups say."""
    templates = dict.fromkeys(template for beats in PLOTS.values() for beat in beats for template in beat if template)
    found = []
    for template in templates:
        parts = SLOT.split(template)
        slots = [parse_slot(written) for written in parts[1::2]]
        pattern = re.escape(parts[0])
        for slot, text in zip(slots, parts[2::2], strict=True):
            choices = CHOICES.get(slot.name) or PRONOUNS[slot.name.rpartition(" ")[2]]
            written = "|".join(word.capitalize() if slot.capital else word for word in choices)
            pattern += f"{'an? ' if slot.article else ''}({written}){re.escape(text)}"
        found.append((re.compile(rf"{pattern}(?: |$)"), [slot.name for slot in slots]))
    return found


def _readings(text: str, start: int) -> Iterator[tuple[Reading, int]]:
    """All ways to read the sentence that begins at an offset, each with the offset at which it ends."""
    for pattern, names in _patterns():
        if match := pattern.match(text, start):
            yield tuple(zip(names, map(str.lower, match.groups()), strict=True)), match.end()


def _disagreement(reading: Reading, facts: Mapping[str, str]) -> tuple[int, int]:
    """How much of a reading differs from what the text said before, and how much it says for the first time."""
    differing = sum(_differs(*fact, facts) or _coincides(*fact, facts) for fact in reading)
    return differing, sum(name not in facts for name, _ in reading)


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
