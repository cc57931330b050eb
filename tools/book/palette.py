"""The book's colours: those of the pictures, and for the dark theme colours with the same contrasts."""

import colorsys
import re
from pathlib import Path

from matplotlib import colormaps

from course_lib.pictures import PALETTE

LINK = "#0B4F96"  # the blue of the links, between the dark end of the heatmaps' map and the blue of head 1
NIGHT = "#161D27"  # what white becomes in the dark theme
COLOR = re.compile(r"#(?:[0-9A-Fa-f]{6}|[0-9A-Fa-f]{3})\b")


def luminance(color: str) -> float:
    """Return the relative luminance of WCAG 2.2, from 0 (black) to 1 (white)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _parts(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2.2 defines it, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def in_the_dark(color: str) -> str:
    """Return the colour of the same hue whose contrast with NIGHT is the contrast of `color` with white.

    What is light becomes dark and the reverse: (Y' + 0.05) (Y + 0.05) = 1.05 (Y_night + 0.05), so any two colours
    keep their contrast, up to the colours that would have to be lighter than white.
    """
    wanted = min(1.0, 1.05 * (luminance(NIGHT) + 0.05) / (luminance(color) + 0.05) - 0.05)
    hue, lightness, saturation = colorsys.rgb_to_hls(*_parts(color))
    if lightness == 1.0:
        return NIGHT
    low, high = 0.0, 1.0
    for _ in range(24):  # luminance grows with lightness
        middle = (low + high) / 2
        low, high = (middle, high) if luminance(_hex(hue, middle, saturation * 0.8)) < wanted else (low, middle)
    return _hex(hue, high, saturation * 0.8)


def _parts(color: str) -> tuple[float, float, float]:
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    red, green, blue = (int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4))
    return red, green, blue


def _hex(hue: float, lightness: float, saturation: float) -> str:
    return "#" + "".join(f"{round(255 * part):02X}" for part in colorsys.hls_to_rgb(hue, lightness, saturation))


def colors() -> dict[str, str]:
    """Return the book's colours in the light theme: name -> colour."""
    return {**PALETTE, "link": LINK}


def weights() -> dict[str, str]:
    """Return the ends of the colour map of the heatmaps, which both themes share."""
    scale = colormaps["cividis"]
    return {f"weight-{round(100 * at)}": _rgb(scale(at)[:3]) for at in (0.0, 0.5, 1.0)}


def _rgb(parts: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * part):02X}" for part in parts)


def write_palette(file: Path) -> None:
    """Write the colours of both themes as CSS variables."""
    light = "".join(f"  --{name}: {color};\n" for name, color in {**colors(), **weights()}.items())
    dark = "".join(f"  --{name}: {in_the_dark(color)};\n" for name, color in colors().items())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f':root {{\n{light}}}\nhtml[data-theme="dark"] {{\n{dark}}}\n', encoding="utf-8")
