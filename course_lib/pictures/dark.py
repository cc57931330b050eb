"""A second set of colours for each drawing, which holds wherever the page or the system around it is dark."""

import colorsys
import re
from functools import cache

from .style import INK

NIGHT = "#161D27"  # what white becomes
COLOR = re.compile(r"#(?:[0-9A-Fa-f]{6}|[0-9A-Fa-f]{3})\b")
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_PAINT = re.compile(r'\b(fill|stroke)="(#[0-9A-Fa-f]{3,6})"')
_INLINE = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})")  # as matplotlib writes it
_MATPLOTLIB = "#figure_1"  # the outermost group
_DARK = "@media (prefers-color-scheme:dark)"


def with_dark_colors(svg: str) -> str:
    """Return the drawing with a rule for each of its colours for dark surroundings.

    A browser asks the element that shows the drawing for its `color-scheme`, and otherwise the system. An image, such
    as the many cells of a large heatmap, gets about these colours. A drawing that has such rules stays as it is.
    """
    if _DARK in svg:
        return svg
    rules = []
    for selector, declarations in _RULE.findall("".join(_STYLE.findall(svg))):
        colored = ";".join(declaration for declaration in declarations.split(";") if COLOR.search(declaration))
        if colored:
            rules.append(f"{selector}{{{COLOR.sub(lambda match: in_the_dark(match[0]), colored)}}}")
    for kind, color in sorted(set(_PAINT.findall(svg))):
        rules.append(f'[{kind}="{color}"]{{{kind}:{in_the_dark(color)}}}')
    if f'id="{_MATPLOTLIB[1:]}"' in svg:
        for kind, color in sorted(set(_INLINE.findall(svg))):
            rules.append(f'[style*="{kind}: {color}"]{{{kind}:{in_the_dark(color)}!important}}')
        rules.append(f'{_MATPLOTLIB} text:not([style*="fill:"]){{fill:{in_the_dark(INK)}}}')
        rules.append(f"{_MATPLOTLIB} image{{filter:invert(.91) hue-rotate(180deg)}}")  # white becomes about NIGHT
    return f"<style>{_DARK}{{{''.join(rules)}}}</style>".join(svg.rsplit("</svg>", 1)) + "</svg>"


def luminance(color: str) -> float:
    """Return the relative luminance of WCAG 2.2, from 0 (black) to 1 (white)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _parts(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(color: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2.2 defines it, from 1 to 21."""
    low, high = sorted((luminance(color), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@cache
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
