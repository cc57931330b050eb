"""Check whether the links within the built book lead to a page and an anchor that exist.

Sphinx's linkcheck asks other servers and reads the sources: it sees no link in HTML, no anchor of a page, no picture,
no page that is made after Sphinx, and no page that nothing leads to.
"""

from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}


class Page(HTMLParser):
    """The links of a page, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.links.append(attributes.get(LINKS.get(tag, "")) or "")
        self.anchors.add(attributes.get("id") or "")


def read_pages(html: Path) -> dict[Path, Page]:
    """Read each page of a built book, once for both of the checks below."""
    return {path: Page(path) for path in sorted(html.rglob("*.html"))}


def unreached_pages(html: Path, pages: Mapping[Path, Page], beside: Iterable[str] = ()) -> list[str]:
    """Return a line for each page to which no way of links leads from the front page, except for those of `beside`."""
    ways = {path.resolve(): page.links for path, page in pages.items() if "_static" not in path.parts}
    to_visit, reached = [(html / "index.html").resolve()], set[Path]()
    while to_visit:
        page = to_visit.pop()
        if page in ways and page not in reached:
            reached.add(page)
            links = (urlsplit(link) for link in {*ways[page]} if not link.startswith("data:"))
            to_visit += [
                (page.parent / unquote(link.path)).resolve() for link in links if not link.netloc and link.path
            ]
    unreached = {page.relative_to(html.resolve()).as_posix() for page in {*ways} - reached} - {*beside}
    return [f"{page}: no way of links leads here from the front page" for page in sorted(unreached)]


def broken_links(html: Path, pages: Mapping[Path, Page]) -> list[str]:
    """Return a line for each link that leads nowhere; links to other servers are not followed."""
    broken = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            target = urlsplit(link if not link.startswith("data:") else "")
            if target.scheme or target.netloc or not (target.path or target.fragment):
                continue
            there = (path.parent / unquote(target.path)).resolve() if target.path else path
            if there.is_dir():
                there /= "index.html"
            if not there.exists():
                broken.append(f"{path.relative_to(html)}: {link}: there is no such file")
            elif target.fragment and there in pages and unquote(target.fragment) not in pages[there].anchors:
                broken.append(f"{path.relative_to(html)}: {link}: there is no such anchor on that page")
    return broken
