"""The look of what matplotlib draws, and fonts for labels in any script: its own has no Chinese, Hindi or Thai."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterable, Iterator

import matplotlib
from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager, get_font

from .text_size import letters

STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",  # text stays text: sharp, small, readable by search
    "svg.hashsalt": "attention-course",  # the same bytes at each run
}
FAMILIES = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK TC", "Noto Sans SC", "Noto Sans JP",
    "Noto Sans KR", "Source Han Sans SC", "Source Han Sans", "PingFang SC", "Hiragino Sans", "Hiragino Sans GB",
    "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Meiryo", "Malgun Gothic", "SimHei", "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei", "IPAexGothic", "IPAGothic", "NanumGothic", "Droid Sans Fallback", "Arial Unicode MS",
    "Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Noto Sans Ethiopic",
    "Nirmala UI", "Leelawadee UI", "Kohinoor Devanagari", "Thonburi", "Segoe UI Symbol", "Segoe UI Emoji",
    "Noto Emoji", "Symbola",
)  # fmt: skip
SHOWN = 5  # letters without a font that the warning names


@contextlib.contextmanager
def style_for(*texts: str) -> Iterator[None]:
    """Set the look of all plots, with fonts that have every letter of some texts.

    Where the machine has no such font, matplotlib measures an empty box instead; the drawing keeps its text, which
    whatever shows it sets in a font of its own. One warning says so, instead of one a letter and label.
    """
    families, left = fonts_for(frozenset("".join(texts)))
    if left:
        named = ", ".join(left[:SHOWN]) + (f" and {len(left) - SHOWN} more" if len(left) > SHOWN else "")
        warnings.warn(
            f"matplotlib finds no font with {named}, so it only guesses how wide their labels are: install one, such "
            "as a Noto font (Debian, Ubuntu: apt install fonts-noto-cjk fonts-noto-core), and restart the kernel.",
            stacklevel=4,  # who asked for the picture
        )
    if not (families or left):
        with matplotlib.rc_context(STYLE):
            yield
        return
    log = logging.getLogger("matplotlib.font_manager")  # tells of each font that has no regular weight
    level = log.level
    with matplotlib.rc_context(STYLE | {"font.family": ["sans-serif", *families]}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing", UserWarning)  # said once, above
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


@functools.cache
def fonts_for(texts: frozenset[str]) -> tuple[list[str], list[str]]:
    """Choose fonts for what the usual one lacks.

    Args:
        texts: the letters of all texts together.

    Returns:
        Families of this machine, as few as possible in the order of FAMILIES, and the letters that none of them has.
    """
    usual = findfont(FontProperties(family=[STYLE["font.family"]]))
    left = _without_glyph(usual, sorted(letter for letter in texts if letter.isprintable() and letters(letter)))
    chosen: list[str] = []
    files = _files() if left else {}
    for family in FAMILIES:
        still = _without_glyph(files[family], left) if left and family in files else left
        if len(still) < len(left):
            chosen.append(family)
            left = still
    return chosen, left


@functools.cache
def _files() -> dict[str, str]:
    """The file of each family on this machine; matplotlib's own list doesn't know those installed since it was made."""
    known = {font.fname for font in fontManager.ttflist}
    for path in set(findSystemFonts()) - known:
        with contextlib.suppress(OSError, RuntimeError):  # a font that matplotlib can't read
            fontManager.addfont(path)
    upright = sorted(fontManager.ttflist, key=lambda font: (font.style == "normal", font.weight in (400, "normal")))
    return {
        font.name: font.fname for font in upright
    }  # of a family the last one stays: bold and italic have fewer letters


def _without_glyph(file: str, wanted: Iterable[str]) -> list[str]:
    font = get_font(file)
    return [letter for letter in wanted if not font.get_char_index(ord(letter))]
