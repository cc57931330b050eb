"""Short texts, in the same way for all pictures: numbers and code, and the width of a text in any font."""

import math
import unicodedata

LONGEST_INTEGER = 6  # characters; a longer integer is written with an exponent
USUAL = 0.61  # em, an ordinary Latin letter
NARROW, WIDE = 0.37, 0.92  # em, narrow and wide letters
BOLD = 1.07  # relative to regular
# em, a letter of a script that is wider than Latin, measured in Noto fonts; by the first word of its Unicode name.
SCRIPTS = {
    "ARABIC": 0.92, "ARMENIAN": 0.75, "BENGALI": 0.75, "CYRILLIC": 0.69, "DEVANAGARI": 0.7, "ETHIOPIC": 0.85,
    "GEORGIAN": 0.7, "GUJARATI": 0.75, "KANNADA": 0.9, "KHMER": 0.75, "LAO": 0.7, "MALAYALAM": 1.0, "MYANMAR": 0.95,
    "ORIYA": 0.9, "SINHALA": 1.05, "TAMIL": 1.3, "TELUGU": 0.9,
}  # fmt: skip
WIDE_CYRILLIC, WIDEST = "ЖМФШЩЫЮжмфшщыю", 1.1
EMOJI_STYLE = "\ufe0f"  # makes an emoji, 1.4 em wide, of the character before it
FLAG_PARTS = "".join(map(chr, range(0x1F1E6, 0x1F200)))  # two of them are a flag
SKIN_TONES = "".join(map(chr, range(0x1F3FB, 0x1F400)))
JOINER = "\u200d"  # makes one emoji of two


def number_text(number: float | int | bool, *, decimals: bool = False) -> str:
    """Write a number in about five characters: 14, 0.72, -1.50, 23.4, 357, 3e-5, T.

    With decimals=True, write it as in a table of floats: 2.00 instead of 2, and 0.00 instead of 3e-5.
    """
    if isinstance(number, bool):
        return "T" if number else "F"
    if not math.isfinite(number):
        return str(number)
    if not decimals and number == int(number) and len(str(int(number))) <= LONGEST_INTEGER:
        return str(int(number))
    size = abs(number)
    if size >= 9999.5 or (size < 0.005 and not decimals):
        mantissa, exponent = f"{number:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    text = f"{number:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def minus(text: str) -> str:
    """Write a sum with real minus signs, which are as wide as a plus, instead of hyphens."""
    return text.replace("+ -", "− ").replace("-", "−")


def fold_code(code: str, width: int) -> list[str]:
    """Break a line of code after commas into pieces of at most width characters, if commas allow."""
    lines = [""]
    for part in code.replace(", ", ",\n").split("\n"):
        if lines[-1] and width_in_characters(lines[-1]) + 1 + width_in_characters(part) > width:
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]} {part}".lstrip()
    return [line for line in lines if line]


def width_in_characters(text: str) -> float:
    """Return the width in ordinary Latin characters: a Chinese one is wider, a combining accent has no width."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def text_width(text: str, size: float = 12, *, bold: bool = False, mono: bool = False) -> float:
    """Return the most pixels that a text needs in any of the usual system fonts."""
    if mono:
        return width_in_characters(text) * size * USUAL
    narrow = sum(character in "iljtfrI.,:;|!'()[] " for character in text)
    wide = sum(character in "mwMW@%" for character in text)
    units = (width_in_characters(text) - narrow - wide) * USUAL + narrow * NARROW + wide * WIDE
    return units * size * (BOLD if bold else 1.0)


def is_within_letter(text: str, index: int) -> bool:
    """Return whether a cut at this place would separate a letter from its signs, or the parts of an emoji."""
    if not 0 < index < len(text):
        return False
    before, after = text[index - 1], text[index]
    flags = len(text[:index]) - len(text[:index].rstrip(FLAG_PARTS))
    joined = unicodedata.category(after) in ("Mn", "Me", "Mc") or JOINER in (before, after)
    return joined or SKIN_TONES[0] <= after <= SKIN_TONES[-1] or (after in FLAG_PARTS and flags % 2 == 1)


def _character_width(character: str) -> float:
    if character == EMOJI_STYLE:
        return (1.4 - USUAL) / USUAL
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # combined with the previous character, or invisible
        return 0
    if unicodedata.east_asian_width(character) in ("W", "F"):  # squares of 1 em, and emoji of up to 1.4 em
        return (1.0 if ord(character) < 0x1F000 else 1.4) / USUAL
    if unicodedata.category(character)[0] in "LM" and not character.isascii():
        script = unicodedata.name(character, "").split(" ")[0]
        return (WIDEST if character in WIDE_CYRILLIC else SCRIPTS.get(script, USUAL)) / USUAL
    return 1
