"""The style of matplotlib drawings, and fonts for labels in any script: its own has no Chinese, Hindi or Thai."""

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterable, Iterator

import matplotlib
from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager, get_font

from course_lib.wording import first_of

from .drawing_width import is_narrow
from .text import EMOJI_STYLE, width_in_characters

FAMILIES = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK TC", "Noto Sans SC", "Noto Sans JP",
    "Noto Sans KR", "Source Han Sans SC", "Source Han Sans", "PingFang SC", "Hiragino Sans", "Hiragino Sans GB",
    "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Meiryo", "Malgun Gothic", "SimHei", "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei", "IPAexGothic", "IPAGothic", "NanumGothic", "Droid Sans Fallback", "Arial Unicode MS",
    "Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Noto Sans Ethiopic",
    "Nirmala UI", "Leelawadee UI", "Kohinoor Devanagari", "Thonburi", "Segoe UI Symbol", "Segoe UI Emoji",
    "Noto Emoji", "Symbola",
)  # fmt: skip
USUAL = "sans-serif"  # matplotlib's default, which has the Latin, Greek and Cyrillic alphabets
SHOWN = 5  # characters without a font that the warning lists


@contextlib.contextmanager
def figure_style(text: str) -> Iterator[None]:
    """Set the style of all figures, with fonts that have every character of a text.

    If the machine has no such font, matplotlib measures an empty box instead; the drawing keeps its text, and the
    viewer shows it in a font of its own. One warning replaces matplotlib's warnings for each character and label.
    """
    families, missing = fonts_for(frozenset(text))
    if missing and not is_narrow():  # said once, for the wide drawing
        named = first_of(missing, SHOWN, len(missing))
        warnings.warn(
            f"matplotlib finds no font with {named}, so it only guesses how wide their labels are: install one, such "
            "as a Noto font (Debian, Ubuntu: apt install fonts-noto-cjk fonts-noto-core), and restart the kernel.",
            stacklevel=6,  # the line that called for the picture
        )
    look = matplotlib.rc_context(
        {
            "font.family": [USUAL, *families],
            "font.size": 10,
            "svg.fonttype": "none",  # text stays text, so that it is sharp, small and searchable
            "svg.hashsalt": "attention-course",  # the same bytes on every run
        }
    )
    log = logging.getLogger("matplotlib.font_manager")  # logs each font that has no regular weight
    level = log.level
    with look, warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing", UserWarning)  # one warning above replaces these
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


@functools.cache
def fonts_for(characters: frozenset[str]) -> tuple[list[str], list[str]]:
    """Choose fonts for those characters of all texts that the usual font lacks.

    Return families of this machine, as few as possible in the order of FAMILIES, and the characters that none has.
    """
    usual = findfont(FontProperties(family=[USUAL]))
    printable = filter(str.isprintable, characters - {EMOJI_STYLE})
    seen = sorted(character for character in printable if width_in_characters(character))
    missing = _without_glyph(usual, seen)
    chosen: list[str] = []
    files = _files() if missing else {}
    for family in FAMILIES:
        still = _without_glyph(files[family], missing) if missing and family in files else missing
        if len(still) < len(missing):
            chosen.append(family)
            missing = still
    return chosen, missing


@functools.cache
def _files() -> dict[str, str]:
    """Return the file of each family on this machine, even if installed since matplotlib made its own list."""
    known = {font.fname for font in fontManager.ttflist}
    for path in set(findSystemFonts()) - known:
        with contextlib.suppress(OSError, RuntimeError):  # matplotlib cannot read every font
            fontManager.addfont(path)
    upright = sorted(fontManager.ttflist, key=lambda font: (font.style == "normal", font.weight in (400, "normal")))
    return {font.name: font.fname for font in upright}  # the last of a family: bold and italic have fewer characters


def _without_glyph(file: str, wanted: Iterable[str]) -> list[str]:
    font = get_font(file)
    return [character for character in wanted if not font.get_char_index(ord(character))]
