"""The built book behind a server of its own, and what a browser has to say of a page."""

import base64
import functools
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from tools.book.redirects import MOVED

OF_COLORS = ("color-contrast", "link-in-text-block")  # take longer than all other rules of axe-core
LEFT = "net::ERR_ABORTED"  # the reader went on to another page before the file had come, which is no fault of the book
HTML = Path(__file__).resolve().parents[2] / "build" / "book" / "html"


def pages(html: Path = HTML) -> list[str]:
    """Every page of the book, by its path; an empty list if it has not been built."""
    found = (path for path in html.rglob("*.html") if path.stem not in MOVED)  # those open another page at once
    return sorted(path.relative_to(html).as_posix() for path in found)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def served(html: Path):
    """Serve a folder on this machine alone; gives its address."""
    handler = functools.partial(QuietHandler, directory=str(html))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@dataclass
class Complaints:
    """What went wrong while a page was open: its console's errors, failed requests, requests to other servers."""

    home: str
    found: list[str] = field(default_factory=list)

    def watch(self, page) -> None:
        """Listen to a page from now on."""
        for event, listener in self._listeners().items():
            page.on(event, listener)

    def leave(self, page) -> None:
        """Listen no more."""
        for event, listener in self._listeners().items():
            page.remove_listener(event, listener)

    def _listeners(self) -> dict:
        return {
            "console": self._said,
            "pageerror": self._error,
            "requestfailed": self._failed,
            "response": self._answered,
            "request": self._request,
        }

    def _said(self, said) -> None:
        if said.type in ("error", "warning"):
            self.found.append(f"console: {said.text}")

    def _error(self, error) -> None:
        self.found.append(f"error: {error}")

    def _failed(self, request) -> None:
        if request.failure != LEFT:
            self.found.append(f"failed: {request.url} ({request.failure})")

    def _answered(self, answer) -> None:
        if answer.status >= 400:
            self.found.append(f"{answer.status}: {answer.url}")

    def _request(self, request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.found.append(f"leaves the site: {request.url}")


def violations(page, *, only=None, but=None, colors=True):
    """What axe-core finds, as (rule, impact, where): in all of the page, in one part only, or in all but one part.

    Without `colors` it does not compare the colours of texts and grounds.
    """
    part = {key: [[selector]] for key, selector in (("include", only), ("exclude", but)) if selector}
    options = {
        "resultTypes": ["violations"],
        "preload": False,
        "rules": {rule: {"enabled": colors} for rule in OF_COLORS},
    }
    found = Axe().run(page, context=part or None, options=options).response["violations"]
    return [(rule["id"], rule["impact"], node["target"]) for rule in found for node in rule["nodes"]]


def color_at(locator, x, y):
    """The red, green and blue that an element shows at a pixel."""
    shot = base64.b64encode(locator.screenshot(type="png")).decode()
    return locator.page.evaluate(AT, [shot, x, y])


AT = """async ([png, x, y]) => {
    const image = new Image();
    image.src = "data:image/png;base64," + png;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), {width: image.width, height: image.height});
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
}"""
