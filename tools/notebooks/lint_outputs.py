"""Reject outputs with errors, warnings, paths, addresses of objects, widgets, or pictures without alt text."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .compare import without_pixels
from .outputs import all_texts

MAX_WIDTH = 88  # characters of a line: on a page 1280 pixels wide the book and JupyterLab cut off what is beyond
_WARNING = re.compile(r"\b\w*Warning\b|\bwarnings\.warn\b")
_FOLDERS = "home|root|tmp|usr|var|opt|mnt|srv|Users|private"
_PATH = re.compile(rf"(?<![\w./:])/(?:{_FOLDERS})/[\w.-]+|\b[A-Z]:\\+\w|site-packages")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_IMG = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
# Where scripts don't run, a figure that moves is the picture before its script.
_FIGURE = r'(<div class="live-figure"><div class="still"><figure>.*)'
_FIGURE_SCRIPT = re.compile(_FIGURE + r"<script>.*</script></div>\Z", re.DOTALL)
_STRIPPED = re.compile(r"<(script|style|svg|iframe)\b", re.IGNORECASE)
_ALT = re.compile(r"""\balt\s*=\s*("\s*[^"\s]|'\s*[^'\s])""", re.IGNORECASE)
_FETCHING_TAG = r"<(?:img|script|iframe|link|source|video)\b"
REMOTE = re.compile(_FETCHING_TAG + r"[^>]*(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//", re.IGNORECASE)
REMOTE_STYLE = re.compile(r"url\(\s*[\"']?(?:https?:)?//", re.IGNORECASE)


def failed(cell: Any) -> Iterator[str]:
    """Report errors, text on stderr and warnings."""
    for kind, text in all_texts(cell.outputs):
        line = (text.strip().splitlines() or [""])[-1][:80]
        if kind in ("error", "stderr"):
            yield f"stores {'an error' if kind == 'error' else 'stderr'}: {line}"
        elif match := _WARNING.search(_readable(kind, text)):
            yield f"shows a warning: {match[0]}."


def addresses(cell: Any) -> Iterator[str]:
    """Report addresses of objects, which differ from run to run."""
    for kind, text in all_texts(cell.outputs):
        if match := _ADDRESS.search(_readable(kind, text)):
            yield f"shows the address of an object, {match[0]}, which differs from run to run."


def viewers(cell: Any) -> Iterator[str]:
    """Report widgets, which need a kernel, and anything that a viewer or an untrusted notebook removes."""
    for kind, text in all_texts(cell.outputs):
        if "widget" in kind:
            yield f"stores a widget ({kind}), which shows nothing without a kernel."
        elif kind == "application/javascript":
            yield "stores a script, which a notebook viewer does not run."
        elif kind == "text/html" and (match := _STRIPPED.search(_FIGURE_SCRIPT.sub(r"\1", text))):
            yield f"shows a <{match[1].lower()}> in HTML, which a notebook viewer strips; an <img> stays."


def pictures(cell: Any) -> Iterator[str]:
    """Report pictures that are not an `<img>` with its data and alt text."""
    for kind, text in all_texts(cell.outputs):
        if kind.startswith("image/"):
            yield f"stores a bare {kind}, which has no alt text; show a course_lib.pictures.Picture instead."
        elif kind == "text/html":
            yield from ("shows a picture without alt text." for tag in _IMG.findall(text) if not _ALT.search(tag))
            if REMOTE.search(text) or REMOTE_STYLE.search(_readable(kind, text)):
                yield "shows something that is fetched from the network."


def wide(cell: Any) -> Iterator[str]:
    """Report lines of text that are cut off; what is shown as HTML, with the text in its place, folds by itself."""
    for output in cell.outputs:
        data = output.get("data", {})
        text = output.get("text") or ("" if set(data) - {"text/plain"} else data.get("text/plain", ""))
        yield from (f"prints {fault}" for fault in wide_lines(text))


def wide_lines(text: str) -> Iterator[str]:
    """Describe the lines of code or text that are wider than a code cell or its output is on a laptop."""
    for line in text.splitlines():
        if len(line) > MAX_WIDTH:
            yield f"a line of {len(line)} characters, of which a laptop shows {MAX_WIDTH}: {line.strip()}"


def paths(code: list[Any], root: Path | None) -> Iterator[str]:
    """Report paths of the machine on which the lesson ran."""
    here = [str(folder) for folder in (root, sys.prefix) if folder and len(str(folder)) > 3]
    for number, cell in enumerate(code, start=1):
        for kind, text in all_texts(cell.outputs):
            readable = _readable(kind, text)
            match = _PATH.search(readable)
            shown = match[0] if match else next((folder for folder in here if folder in readable), None)
            if shown:
                yield f"code cell {number} shows a path of the machine it ran on: {shown}"


def _readable(kind: str, text: str) -> str:
    """Return the text without base64, with every SVG decoded."""
    return "" if kind.startswith("image/") and kind != "image/svg+xml" else without_pixels(text)


CHECKS: tuple[Callable[[Any], Iterator[str]], ...] = (failed, addresses, viewers, pictures, wide)
