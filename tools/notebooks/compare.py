"""Compare outputs up to the last digits of their decimal numbers.

Two machines agree on shapes, words and integers, but not on the last digit of a float. So a text is split at its
decimal literals (`0.1234`, `-1.5e-07`): these are compared as numbers, and the text between them exactly, except for
its white space.
"""

import base64
import binascii
import html
import math
import re
from urllib.parse import unquote_to_bytes

MAX_UNITS = 1.5  # units of the last digit that the coarser number prints
RELATIVE = 1e-5
FEWEST_DIGITS = 3  # with fewer decimals only equal numbers agree: 0.1 is not 0.2, and a value rarely lies between two

# A sign, digits, a point or an exponent; not a part of a version such as 3.11.7 or of a name such as conv1.5
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE][-+]?\d))(?:[eE][-+]?\d+)?(?!\d|\.\d)")
_DATA_URI = re.compile(r"data:image/([\w.+-]+)((?:;[\w=-]+)*),([^\"'\s)>]*)")
_BY_MATPLOTLIB = re.compile(r"matplotlib|id=\"figure_\d+\"", re.IGNORECASE)


def same_output(old: str, new: str) -> bool:
    """Return whether two outputs are equal up to the last digits of their decimals; pixels are not compared."""
    return same_text(without_pixels(old), without_pixels(new))


def same_text(old: str, new: str) -> bool:
    """Return whether two texts are equal up to the last digits of their decimals and the amount of white space."""
    between, between_new = ([" ".join(part.split()) for part in _NUMBER.split(text)] for text in (old, new))
    if between != between_new:
        return False
    return all(map(same_number, _NUMBER.findall(old), _NUMBER.findall(new)))


def same_number(old: str, new: str) -> bool:
    """Return whether two printed decimals may be the same value, printed on two machines.

    They may be if they differ by at most 1.5 units of the last digit of the coarser decimal (from three decimals on),
    or relatively by 1e-5. `-0.0000` equals `0.0000`; `1.` and `2.` are as different as 1 and 2.
    """
    a, b = float(old), float(new)
    if math.isclose(a, b, rel_tol=RELATIVE):
        return True
    (old_digits, old_exponent), (new_digits, new_exponent) = _digits(old), _digits(new)
    if min(old_digits, new_digits) < FEWEST_DIGITS:
        return False
    unit = float(f"1e{max(old_exponent - old_digits, new_exponent - new_digits)}")
    return abs(a - b) <= MAX_UNITS * unit * (1 + 1e-9)


def without_pixels(text: str) -> str:
    """Replace each embedded picture by what can be compared: the text of its SVG, or only that there is one.

    PNG and matplotlib's own SVG differ from machine to machine; any other SVG is decoded and kept as text.
    """
    if text.lstrip().startswith(("<?xml", "<svg")) and _BY_MATPLOTLIB.search(text):
        return "(a figure drawn by matplotlib)"
    return _DATA_URI.sub(_comparable, text)


def _comparable(match: re.Match[str]) -> str:
    kind, options, payload = match.groups()
    if kind != "svg+xml":
        return f"(a picture: {kind})"
    try:
        raw = base64.b64decode(payload, validate=True) if ";base64" in options else unquote_to_bytes(payload)
        drawing = raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        return f"(an unreadable picture: {payload})"
    if _BY_MATPLOTLIB.search(drawing):
        return "(a figure drawn by matplotlib)"
    return html.escape(drawing)


def _digits(number: str) -> tuple[int, int]:
    """Return the number of decimals of a literal, and its exponent."""
    mantissa, _, exponent = number.lower().partition("e")
    return len(mantissa.partition(".")[2]), int(exponent or 0)


class CloseText(str):
    """A text that equals another if `same_output` holds; nbval compares texts of this class."""

    def __new__(cls, text: str) -> "CloseText":
        return super().__new__(cls, without_pixels(text))  # so that a failure prints no base64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same_text(self, without_pixels(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__
