"""Read the catalogue from its folders, one for each mistake."""

import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from .mistake import FOLDER, LOST_KEYS, MEASURED, Effect, ExceptionalCase, Family, Mistake, Origin, Step, Symptom

ENTRY = "mistake.toml"
EFFECTS: dict[str, tuple[Effect, ...]] = {
    **{kind.name: (kind,) for kind in (*Step, *Symptom)},
    "MEASURED": MEASURED,
    "LOST_KEYS": LOST_KEYS,
}
Choice = TypeVar("Choice", bound=Enum)


class Table:
    """A table of a file, whose keys are taken one by one; each error names the file and the key."""

    def __init__(self, data: Mapping[str, Any], place: str) -> None:
        self.left, self.place = dict(data), place

    def text(self, key: str) -> str:
        """Take a text; the lines that it was broken into are joined."""
        value = self._take(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"must be a text, got {value!r}")
        return " ".join(value.split())

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a list of texts."""
        value = self._take(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of texts, got {value!r}")
        return tuple(value)

    def choice(self, key: str, choices: type[Choice]) -> Choice:
        """Take the name of one of an enum's members."""
        value, names = self._take(key), list(choices.__members__)
        if value not in names:
            raise self.error(key, f"must be one of {', '.join(names)}, got {value!r}")
        return choices[value]

    def tables(self, key: str) -> "Iterator[Table]":
        """Take the tables `[[key]]`, which may be missing, and see that each was read to its end."""
        value = self.left.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, f"must be tables [[{key}]], got {value!r}")
        for item in value:
            table = Table(item, f"{self.place}, [[{key}]]")
            yield table
            table.close()

    def close(self) -> None:
        """See that no key is left."""
        for key in self.left:
            raise self.error(key, "is no key that is read here: correct its name or take it out")

    def error(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self.place}: `{key}` {problem}.")

    def _take(self, key: str) -> Any:
        if key not in self.left:
            raise self.error(key, "is missing: add it")
        return self.left.pop(key)


def read_mistake(file: Path) -> Mistake:
    """Read one mistake.

    Raises:
        ValueError: a key is missing, unknown, or holds what it may not.
    """
    try:
        table = Table(tomllib.loads(file.read_text(encoding="utf-8")), str(file))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file} is no TOML: {error}.") from None
    mistake = Mistake(
        id=file.parent.name,
        **{key: table.text(key) for key in ("title", "explanation", "shows", "seen", "hint", "lesson")},
        notices=table.texts("notices"),
        search=table.texts("search") if "search" in table.left else (),
        family=table.choice("family", Family),
        section=table.text("section") if "section" in table.left else None,
        origin=Origin(table.choice("step", Step), table.choice("symptom", Symptom), dict(_effects(table))),
        exceptions=tuple(map(_exception, table.tables("exceptions"))),
    )
    table.close()
    return mistake


def _effects(table: Table) -> Iterator[tuple[Effect, str]]:
    for row in table.tables("effects"):
        because = row.text("because")
        for name in row.texts("of"):
            if name.isupper() and name not in EFFECTS:
                raise row.error("of", f"must hold ids or some of {', '.join(EFFECTS)}, got {name!r}")
            yield from ((effect, because) for effect in EFFECTS.get(name, (name,)))


def _exception(row: Table) -> ExceptionalCase:
    said = tuple(name or None for name in row.texts("said")) if "said" in row.left else None
    return ExceptionalCase(row.text("case"), said, row.text("because"))


def read_catalogue(folder: Path = FOLDER) -> dict[str, Mistake]:
    """Read all mistakes: family by family, and in each by the step at which they are made.

    Raises:
        ValueError: a file is not as it should be, or an effect is no mistake.
    """
    mistakes = [read_mistake(file) for file in folder.glob(f"*/{ENTRY}")]
    ids, families = {mistake.id for mistake in mistakes}, list(Family)
    for mistake in mistakes:
        for effect in mistake.origin.effects:
            if isinstance(effect, str) and effect not in ids - {mistake.id}:
                place = folder / mistake.id / ENTRY
                raise ValueError(f"{place}, [[effects]]: `of` must hold ids of other mistakes, got {effect!r}.")
    mistakes.sort(key=lambda mistake: (families.index(mistake.family), mistake.origin.step, mistake.id))
    return {mistake.id: mistake for mistake in mistakes}


class Catalogue(Mapping[str, Mistake]):
    """All mistakes by their ids. The folders are read at the first look at one: whoever only imports need not wait."""

    @cached_property
    def _mistakes(self) -> dict[str, Mistake]:
        return read_catalogue()

    def __getitem__(self, name: str) -> Mistake:
        return self._mistakes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mistakes)

    def __len__(self) -> int:
        return len(self._mistakes)


CATALOGUE = Catalogue()
