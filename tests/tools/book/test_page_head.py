"""A shared link says what it leads to."""

from html.parser import HTMLParser

import pytest
from docutils.core import publish_doctree

from tools.book.page_head import LONGEST, description_of, head_of, shorten
from tools.book.preview import preview_of

SITE = "https://ada.github.io/course/"


class Tags(HTMLParser):
    """The meta tags of a text."""

    def __init__(self, text):
        super().__init__()
        self.found = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        of = dict(attrs)
        assert tag == "meta"
        self.found[of.get("property") or of["name"]] = of["content"]


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("notebooks/05_weight_split", "05_weight_split"),
        ("story", "story"),
        ("notebooks/07_order", "turn"),
        ("figures/devices", "devices"),
        ("notebooks/exercises/05_exercises", "lesson"),
        ("mistakes/mask-rank", "mistake"),
        ("recordings/weight_split", "recording"),
        ("teach", "front"),
    ],
)
def test_the_head_of_a_page(page, kind):
    tags = Tags(head_of(SITE, page, 'Say "no" & go', "One <b> of two.")).found
    assert tags == {
        "description": "One <b> of two.",
        "twitter:card": "summary_large_image",
        "og:type": "article",
        "og:url": f"{SITE}{page}.html",
        "og:title": 'Say "no" & go',
        "og:description": "One <b> of two.",
        "og:image": f"{SITE}_static/previews/{kind}.png",
        "og:image:width": "1200",
        "og:image:height": "630",
        "og:image:alt": preview_of(kind).alt,
    }


def test_the_front_page_is_the_site_itself():
    tags = Tags(head_of(SITE, "index", "The course", "")).found
    assert (tags["og:type"], tags["og:url"]) == ("website", SITE)
    assert "description" not in tags and "og:description" not in tags  # nothing is said rather than an empty text


def test_a_description_is_the_first_paragraph_that_is_a_sentence():
    page = "Title\n=====\n\n``mask-rank``\n\nA line without an end\n\nThis is what the page is about, it says.\n\nMore."
    assert description_of(publish_doctree(page)) == "This is what the page is about, it says."
    assert description_of(publish_doctree("Title\n=====\n")) == description_of(None) == ""


@pytest.mark.slow
def test_a_description_does_not_end_with_the_colon_of_what_follows():
    page = "Title\n=====\n\nThis is what the page is about. Type this line:\n\nMore."
    assert description_of(publish_doctree(page)) == "This is what the page is about."
    page = "Title\n=====\n\nThis is the only sentence of the page so far:\n\nMore."
    assert description_of(publish_doctree(page)) == "This is the only sentence of the page so far."


def test_a_long_description_ends_with_a_sentence_or_a_word():
    sentence = "This sentence has sixty characters, counted with its end. "
    assert shorten(sentence * 9) == (sentence * 3).strip()
    words = shorten("word " * 90)
    assert words.endswith("word…") and len(words) <= LONGEST + 1
