"""What a page says of itself to those who show a link to it: description, canonical address and preview picture.

sphinxext-opengraph cuts descriptions within a word, adds the titles of other pages to that of the front page, names it
index.html, and draws a card for each page, of 57 kB, where four of the course's own pictures do.
"""

import re
from html import escape, unescape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from .preview import COURSE, FOLDER, HEIGHT, KINDS, OF_LESSONS, WIDTH, preview_of

SHORTEST, LONGEST = 40, 200  # characters; a search engine shows about 160, a messenger up to 200


def description_of(doctree: nodes.document | None) -> str:
    """Return the first paragraph of a page that is a sentence, cut at a word if it is long; "" without one.

    A last sentence that leads to what follows on the page, with a colon at its end, is left out.
    """
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        text = " ".join(paragraph.astext().split())
        if len(text) >= SHORTEST and text.endswith((".", "!", "?", ":")):
            return shorten(re.sub(r":$", ".", re.sub(r"(?<=[.!?]) [^.!?]*:$", "", text)))
    return ""


def shorten(text: str) -> str:
    """Return as many whole sentences as fit, or else the words that fit and an ellipsis."""
    if len(text) <= LONGEST:
        return text
    sentences = text[: LONGEST + 1].rfind(". ")
    return text[: sentences + 1] if sentences >= SHORTEST else text[:LONGEST].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def kind_of(page: str) -> str:
    """Return which preview a page has."""
    folder, name = page.split("/")[0], page.split("/")[-1]
    if (kind := OF_LESSONS.get(name, name)) in KINDS and folder in ("figures", "notebooks"):
        return kind
    return {"story": "story", "notebooks": "lesson", "mistakes": "mistake", "recordings": "recording"}.get(
        folder, "front"
    )


def head_of(site: str, page: str, title: str, description: str, image: str = "", alt: str = "") -> str:
    """Return the tags for the head of a page.

    Args:
        site: address of the front page, with a slash at its end.
        page: name of the page without its ending, such as `notebooks/01_single_head`.
        title: what a shared link is called.
        description: one or two sentences; "" if the page has none.
        image, alt: a picture of 1200 by 630 pixels and its words; the preview of this kind of page if "".

    Source: https://ogp.me.
    """
    kind = kind_of(page)
    properties = {
        "og:type": "website" if page == "index" else "article",
        "og:url": address_of(site, page),
        "og:title": title,
        "og:description": description,
        "og:image": site + (image or f"_static/{FOLDER}/{kind}.png"),
        "og:image:width": str(WIDTH),
        "og:image:height": str(HEIGHT),
        "og:image:alt": alt or preview_of(kind).alt,
    }
    names = {"description": description, "twitter:card": "summary_large_image"}
    tags = [("name", *pair) for pair in names.items()] + [("property", *pair) for pair in properties.items()]
    return "".join(f'<meta {key}="{name}" content="{escape(text)}">\n' for key, name, text in tags if text)


def address_of(site: str, page: str) -> str:
    """Return the canonical address of a page."""
    return site if page == "index" else f"{site}{page}.html"


def add_head(app: Sphinx, page: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Write the tags into the context of a page, as Sphinx asks its extensions to when it makes the page."""
    site, title = app.config.html_baseurl, unescape(re.sub("<[^>]*>", "", context.get("title") or ""))
    context["pageurl"] = address_of(site, page)
    description = COURSE if page == "index" else description_of(doctree)
    context["metatags"] = context.get("metatags", "") + head_of(site, page, title, description)
