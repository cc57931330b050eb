"""Every link of the built book that leads to the book itself: is the page there, and the place on it?"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LEADS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}


class Page(HTMLParser):
    """What a page links to, and the places on it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links.append(found.get(LEADS.get(tag, "")) or "")
        self.places.add(found.get("id") or "")


def broken_links(html: Path) -> list[str]:
    """Return a line for each link that leads nowhere; links to other servers are not followed."""
    pages = {path: Page(path) for path in sorted(html.rglob("*.html"))}
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
            elif target.fragment and there in pages and unquote(target.fragment) not in pages[there].places:
                broken.append(f"{path.relative_to(html)}: {link}: there is no such place on that page")
    return broken
