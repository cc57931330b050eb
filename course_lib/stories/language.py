"""Stories of which every fact is known."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from course_lib.attention import check_at_least

from .plots import PLOTS, SENTENCES
from .vocabulary import ANIMALS, COLOURS, FEELINGS, GIRLS, HOMES, LANDMARKS, NAMES, THINGS

SLOT = re.compile(r"\{([^}]*)\}")
TOKEN = re.compile(r"[A-Za-z]+|[^\sA-Za-z]")
KINDS: Mapping[str, tuple[str, ...]] = {
    "name": ("hero", "friend"),
    "order": ("first", "second"),
    "animal": ("animal", "other animal"),
    "thing": ("thing", "other thing"),
    "colour": ("colour", "other colour"),
    "home": ("home",),
    "place": ("place", "new place"),
    "feeling": ("feeling",),
    "pronoun": ("she", "her", "hers", "herself", "other she", "other hers"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
CHOICES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("hero", "friend", "first", "second"), NAMES),
    **dict.fromkeys(KINDS["animal"], ANIMALS),
    **dict.fromkeys(KINDS["thing"], THINGS),
    **dict.fromkeys(KINDS["colour"], COLOURS),
    "home": HOMES,
    **dict.fromkeys(KINDS["place"], LANDMARKS),
    "feeling": FEELINGS,
}
OTHER = {"first": "second", "second": "first"}
PRONOUNS: Mapping[str, tuple[str, str]] = {  # of a girl, of a boy
    "she": ("she", "he"),
    "her": ("her", "him"),
    "hers": ("her", "his"),
    "herself": ("herself", "himself"),
}


class Fact(NamedTuple):
    """A fact of a story.

    Attributes:
        kind: One of `KINDS`, such as "colour".
        word: The word that says it.
        sentence: The number of the sentence that sets it, counted from 0.
        repeats: The positions among the story's tokens at which it is said again.
    """

    kind: str
    word: str
    sentence: int
    repeats: tuple[int, ...]


class Story(NamedTuple):
    """A story and its facts."""

    text: str
    facts: tuple[Fact, ...]


class Slot(NamedTuple):
    """What stands in braces: a fact's name, whether an article precedes it, and whether it begins a sentence."""

    name: str
    article: bool
    capital: bool


def parse_slot(written: str) -> Slot:
    """Read what stands in braces, such as "an other animal" or "She"."""
    article = written.startswith(("a ", "an "))
    name = written.partition(" ")[2] if article else written
    return Slot(name[0].lower() + name[1:], article, name[0].isupper())


def choices_of(slot: Slot) -> list[str]:
    """The words that may stand in a slot."""
    choices = CHOICES.get(slot.name) or PRONOUNS[slot.name.rpartition(" ")[2]]
    return [word.capitalize() if slot.capital else word for word in choices]


def pronoun(name: str, facts: Mapping[str, str]) -> str:
    """The pronoun of the hero, or of the friend ("other she")."""
    other, _, form = name.rpartition(" ")
    return PRONOUNS[form][facts["friend" if other else "hero"] not in GIRLS]


def words(text: str) -> list[str]:
    """Split a text into tokens: its words and punctuation marks."""
    return TOKEN.findall(text)


def joined(tokens: Sequence[str]) -> str:
    """Join tokens into a text, as it is written; the inverse of `words` for every story."""
    text, quoted = "", False
    for token in tokens:
        opens = token == '"' and not quoted
        quoted ^= token == '"'
        attached = token in ".,!?:" or (token == '"' and not opens) or text.endswith(' "') or text in ("", '"')
        text += token if attached else f" {token}"
    return text


def stories(count: int, *, seed: int = 0) -> list[Story]:
    """Tell stories.

    Args:
        count: How many.
        seed: Another seed tells other stories.

    Raises:
        ValueError: count or seed is negative.
        TypeError: count or seed is not an integer.
    """
    check_at_least(0, count=count, seed=seed)
    rng = random.Random(seed)
    return [_story(rng) for _ in range(count)]


def _story(rng: random.Random) -> Story:
    """Tell one story, in which each kind of fact that it sets is said again."""
    while True:
        facts, beats = _facts(rng), PLOTS[rng.choice(list(PLOTS))]
        templates = [template for beat in beats if (template := rng.choice(beat))]
        story = _written(templates, facts)
        repeated = {fact.kind for fact in story.facts if fact.repeats}
        if repeated == {fact.kind for fact in story.facts}:
            return story


def _facts(rng: random.Random) -> dict[str, str]:
    """Draw who and what a story is about; no word stands for two facts of a kind."""
    facts: dict[str, str] = {}
    for kind, names in KINDS.items():
        if kind not in ("order", "pronoun"):
            facts |= dict(zip(names, rng.sample(CHOICES[names[0]], len(names)), strict=True))
    facts["first"], facts["second"] = rng.sample([facts["hero"], facts["friend"]], 2)
    return facts


def _pieces(template: str, facts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pieces of a sentence, each with the name of the fact that it says, or ""."""
    pieces: list[tuple[str, str]] = []
    for index, part in enumerate(SLOT.split(template)):
        if index % 2 == 0:
            pieces.append((part, ""))
            continue
        name, article, capital = parse_slot(part)
        word = facts[name] if name in facts else pronoun(name, facts)
        if article:
            pieces.append(("an " if word[0] in "aeiou" else "a ", ""))
        pieces.append((word.capitalize() if capital else word, name))
    return pieces


def _written(templates: Sequence[str], facts: Mapping[str, str]) -> Story:
    sentences: list[str] = []
    set_by: dict[str, tuple[str, int]] = {}
    repeats: dict[str, list[int]] = {}
    position = 0
    for number, template in enumerate(templates):
        pieces = _pieces(template, facts)
        sentences.append("".join(text for text, _ in pieces))
        for text, name in pieces:
            if name and (name in set_by or KIND_OF[name] == "pronoun" or OTHER.get(name) in set_by):
                # a pronoun says again who the hero is, and of two people the one is known by the other
                set_by.setdefault(name, (text.lower(), number))
                repeats.setdefault(name, []).append(position)
            elif name:
                set_by[name] = text, number
            position += len(words(text))
    found = (Fact(KIND_OF[name], *said, tuple(repeats.get(name, ()))) for name, said in set_by.items())
    return Story(" ".join(sentences), tuple(found))


def _vocabulary() -> tuple[str, ...]:
    """Every word that a story may have, sorted."""
    found = {"a", "an"}
    for sentence in SENTENCES:
        parts = SLOT.split(sentence)
        found |= {word for text in parts[::2] for word in words(text)}
        found |= {word for written in parts[1::2] for word in choices_of(parse_slot(written))}
    return tuple(sorted(found))


VOCABULARY = _vocabulary()
