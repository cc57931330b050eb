"""What may not stand in a stored output: errors, warnings, paths, addresses of objects, widgets, mute pictures."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course_lib.lessons.compare import without_pixels
from course_lib.lessons.outputs import texts

_WARNING = re.compile(r"\b\w*Warning\b|\bwarnings\.warn\b")
_FOLDERS = "home|root|tmp|usr|var|opt|mnt|srv|Users|private"
_PATH = re.compile(rf"(?<![\w./:])/(?:{_FOLDERS})/[\w.-]+|\b[A-Z]:\\+\w|site-packages")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_IMG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_STRIPPED = re.compile(r"<(script|style|svg|iframe)\b", re.IGNORECASE)
_ALT = re.compile(r"""\balt\s*=\s*("\s*[^"\s]|'\s*[^'\s])""", re.IGNORECASE)
_FETCHING_TAG = r"<(?:img|script|iframe|link|source|video)\b"
REMOTE = re.compile(_FETCHING_TAG + r"[^>]*(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//", re.IGNORECASE)
REMOTE_STYLE = re.compile(r"url\(\s*[\"']?(?:https?:)?//", re.IGNORECASE)


def failed(cell: Any) -> Iterator[str]:
    """No error, nothing on stderr, no warning."""
    for output in cell.outputs:
        for kind, text in texts(output):
            line = (text.strip().splitlines() or [""])[-1][:80]
            if kind in ("error", "stderr"):
                yield f"stores {'an error' if kind == 'error' else 'stderr'}: {line}"
            elif found := _WARNING.search(_readable(kind, text)):
                yield f"shows a warning: {found[0]}."


def addresses(cell: Any) -> Iterator[str]:
    """No address of an object, which differs from run to run."""
    for kind, text in _all_texts(cell):
        if found := _ADDRESS.search(_readable(kind, text)):
            yield f"shows the address of an object, {found[0]}, which differs from run to run."


def viewers(cell: Any) -> Iterator[str]:
    """No widget, which needs a kernel, and nothing that a viewer or an untrusted notebook strips."""
    for kind, text in _all_texts(cell):
        if "widget" in kind:
            yield f"stores a widget ({kind}), which shows nothing without a kernel."
        elif kind == "application/javascript":
            yield "stores a script, which a notebook viewer does not run."
        elif kind == "text/html" and (found := _STRIPPED.search(text)):
            yield f"shows a <{found[1].lower()}> in HTML, which a notebook viewer strips; an <img> stays."


def pictures(cell: Any) -> Iterator[str]:
    """Every picture is an ``<img>`` with its own data and with words for who cannot see it."""
    for kind, text in _all_texts(cell):
        if kind.startswith("image/"):
            yield f"stores a bare {kind}, which has no alt text; show a course_lib.pictures.Picture instead."
        elif kind == "text/html":
            yield from ("shows a picture without alt text." for tag in _IMG.findall(text) if not _ALT.search(tag))
            if REMOTE.search(text) or REMOTE_STYLE.search(_readable(kind, text)):
                yield "shows something that is fetched from the network."


def paths(code: list[Any], root: Path | None) -> Iterator[str]:
    """No path of the machine on which the lesson ran."""
    here = [str(place) for place in (root, sys.prefix) if place and len(str(place)) > 3]
    for number, cell in enumerate(code, start=1):
        for kind, text in _all_texts(cell):
            readable = _readable(kind, text)
            found = _PATH.search(readable)
            shown = found[0] if found else next((place for place in here if place in readable), None)
            if shown:
                yield f"code cell {number} shows a path of the machine it ran on: {shown}"


def _all_texts(cell: Any) -> Iterator[tuple[str, str]]:
    for output in cell.outputs:
        yield from texts(output)


def _readable(kind: str, text: str) -> str:
    """Return what a person or a parser would read: no base64, drawings decoded."""
    return "" if kind.startswith("image/") and kind != "image/svg+xml" else without_pixels(text)


CHECKS: tuple[Callable[[Any], Iterator[str]], ...] = (failed, addresses, viewers, pictures)
