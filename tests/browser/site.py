"""The built book behind a server of its own, and what a browser has to say of a page."""

import functools
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HTML = Path(__file__).resolve().parents[2] / "build" / "book" / "html"


def pages(html: Path = HTML) -> list[str]:
    """Every page of the book, by its path; an empty list if it has not been built."""
    return sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html"))


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
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self.found.append(f"console: {said.text}")
        )
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("requestfailed", lambda request: self.found.append(f"failed: {request.url}"))
        page.on("response", lambda answer: answer.status >= 400 and self.found.append(f"{answer.status}: {answer.url}"))
        page.on("request", self._request)

    def _request(self, request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.found.append(f"leaves the site: {request.url}")
