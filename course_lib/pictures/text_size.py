"""How wide a text gets in a font that nobody knows yet: the reader's."""

from __future__ import annotations

import unicodedata

USUAL = 0.61  # em, a letter


def letters(text: str) -> float:
    """How many usual letters a text is as wide as: a Chinese or Korean one is wider, an accent alone has no width."""
    return len(text) if text.isascii() else sum(map(_in_letters, text))


def text_width(text: str, size: float = 12, *, bold: bool = False, mono: bool = False) -> float:
    """Pixels that a text needs at most, in any of the usual system fonts."""
    if mono:
        return letters(text) * size * USUAL
    narrow = sum(letter in "iljtfrI.,:;|!'()[] " for letter in text)
    wide = sum(letter in "mwMW@%" for letter in text)
    units = (letters(text) - narrow - wide) * USUAL + narrow * 0.37 + wide * 0.92
    return units * size * (1.07 if bold else 1.0)


def _in_letters(letter: str) -> float:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):  # drawn upon their neighbours, or not at all
        return 0
    if unicodedata.east_asian_width(letter) in ("W", "F"):  # squares of 1 em, and emoji of up to 1.4
        return (1.0 if ord(letter) < 0x1F000 else 1.4) / USUAL
    return 1
