"""Write the book's clickable recordings: a page for each form of attention, a picture for previews, and the list."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    KVCache,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
)
from course_lib.inputs import dream_big
from course_lib.recorder import Recording, record
from course_lib.recording_page import page_of

from .page_head import address_of, head_of
from .recorded_code import split_and_wrong_view
from .recording_openings import OPENINGS
from .recording_preview import HEIGHT, WIDTH, write_preview, write_thumbnail
from .site_address import read_site
from .theme import HEADING, heading_font

FOLDER = "recordings"
SHARPER = 4
COLUMNS = "repeat(auto-fill,minmax(min(16rem,100%),1fr))"
GRID = f"list-style:none;padding:0;display:grid;gap:1.5rem;grid-template-columns:{COLUMNS}"
WORDS, _, X = dream_big()
INTRO = """\
# Recordings

Each page is one real run of the course's code on "Dream big and work for it". Step through it, choose any number, and
see where it came from and where it goes. What they show in many steps, the [figures](figures.md) show in a few.

"""
RULES = """
Your own code gets such a page too, with `record(module, x).save_page("mine.html")` in a notebook, or in a terminal with
`course picture my_attention.py:MyAttention --args "3, 4, 2"`. A page is a single file that asks no server for anything,
and the address in the browser names the step and the number, so that you can send a moment to somebody.

## What counts as a source

Within one step, a number comes from another one if a change of that one alone can change it. So a value that is
multiplied by a weight of 0 is no source, but the 0 is one, and so is a number that only decides which number is read,
such as an index or a mask. The only score of a row that is not hidden is no source of its weight, which is 1 whatever
it is. Of a maximum or a sort only the selected number is shown as the source, not those that it was compared with.

Along several steps these paths are joined, so a number whose effects cancel is still marked, such as a bias of the
keys: it adds the same to all scores of a row, and softmax takes that away again. Numbers are shown as they were at
their step, and so are their sources, also where code wrote into the same memory later. Where a page can't tell which
numbers an operation reads, it says so. Where a path leads through an order that later steps may undo, as experts do
that put the rows they were given back in their places, it says "at most".
"""


@dataclass(frozen=True)
class Entry:
    """A recording of the book: its file's name, title, a sentence and a few words about it, its lesson, its code.

    The steps with which its page opens, each with a sentence, are `OPENINGS[name]`.
    """

    name: str
    title: str
    about: str
    tag: str
    lesson: str
    make: Callable[[], Recording]

    @property
    def picture(self) -> str:
        return f"{FOLDER}/{self.name}.png"

    @property
    def thumbnail(self) -> str:
        return f"{FOLDER}/{self.name}.svg"

    @property
    def alt(self) -> str:
        return f"{self.title}: numbers of the recorded run"


def sharp(module: nn.Module) -> nn.Module:
    """Return the module with larger weights for queries and keys, so that its attention is not nearly even."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                parameter *= SHARPER
    return module


def decoding() -> Recording:
    """Record the step that reads one more token, when the cache holds the five before it."""
    module, cache = sharp(MultiQueryAttention(3, 4, 2)), KVCache(1, 1, len(WORDS), 2)
    with torch.no_grad():
        module(X[:, :-1], cache=cache)
        return record(module, X[:, -1:], cache=cache)


RECORDINGS = (
    Entry("one_head", "One attention head", "Every token looks at itself and at the tokens before it.",
          "one head", "01_single_head", lambda: record(sharp(SingleHeadAttention(3, 2)), X)),
    Entry("wrapper", "Two heads as a list", "Two small heads run one after the other, and cat joins them.",
          "head, then head", "03_wrapper", lambda: record(sharp(MultiHeadAttentionWrapper(3, 4, 2)), X)),
    Entry("wrong_view", "View and transpose, and the view that scrambles",
          "Both results have the same shape; only in one of them a row belongs to one token.",
          "10 of 12 rows wrong", "04_reshape_and_transpose",
          lambda: record(split_and_wrong_view, torch.arange(24).view(1, 6, 4))),
    Entry("weight_split", "Split weights: one projection for all heads",
          "One matrix gives the queries of both heads; view and transpose take them apart.",
          "two heads, one matrix", "05_weight_split", lambda: record(sharp(MultiHeadAttention(3, 4, 2)), X)),
    Entry("multi_query", "Multi-query attention", "Both heads read the same keys and values.",
          "2 heads read 1 key head", "06_multi_query", lambda: record(sharp(MultiQueryAttention(3, 4, 2)), X)),
    Entry("grouped_query", "Grouped-query attention", "Four heads share two heads of keys and values.",
          "4 heads read 2 key heads", "06_multi_query", lambda: record(sharp(GroupedQueryAttention(3, 8, 4, 2)), X)),
    Entry("decoding_step", "One decoding step with the cache",
          "The last token alone is computed; keys and values of the others come from the cache.",
          "1 new token, 5 cached", "09_llama", decoding),
    Entry("llama", "Llama's attention with rotary positions",
          "Queries and keys are turned by the angle of their position before they meet.",
          "rotary positions", "09_llama", lambda: record(sharp(LlamaAttention(3, 2, num_kv_heads=1, head_dim=2)), X)),
    Entry("latent", "Latent attention", "The cache holds one short vector per token; all keys and values come from it.",
          "one latent per token", "11_latent_and_pages",
          lambda: record(sharp(LatentAttention(3, 2, latent_dim=2, head_dim=2, rotary_dim=2)), X)),
)  # fmt: skip


def write_recordings(root: Path, html: Path) -> None:
    """Write each recording's page and preview picture into the built book."""
    folder = html / FOLDER
    folder.mkdir(exist_ok=True)
    site = read_site(root)
    for entry in RECORDINGS:
        torch.manual_seed(0)
        with torch.no_grad():
            recording = entry.make()
        page = page_of(
            recording,
            words=WORDS,
            title=entry.title,
            opening=OPENINGS[entry.name],
            head=tags(entry, site),
            foot=links(entry),
        )
        (folder / f"{entry.name}.html").write_text(page, encoding="utf-8")
        write_preview(html / entry.picture, recording, entry.title, entry.about)
        write_thumbnail(html / entry.thumbnail, recording, entry.tag)


def tags(entry: Entry, site: str) -> str:
    """Return the tags for previews of the page's address, and the font of the book's headings."""
    page = f"{FOLDER}/{entry.name}"
    style = f"<style>{heading_font()}:root{{--course-heading:{HEADING}}}</style>"
    canonical = f'<link rel="canonical" href="{address_of(site, page)}">'
    return head_of(site, page, entry.title, entry.about, entry.picture, entry.alt) + style + canonical


def links(entry: Entry) -> str:
    """Return the links to the lesson that the run belongs to, and to the other recordings."""
    return (
        f'<p><a href="../notebooks/{entry.lesson}.html">Lesson {entry.lesson[:2]} builds this code</a> · '
        '<a href="../recordings.html">All recordings</a></p>'
    )


def write_list(path: Path) -> None:
    """Write the page that lists the recordings; Sphinx reads it before they are written."""
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    items = "\n".join(
        f'<li><a href="{FOLDER}/{entry.name}.html">'
        f'<img class="dark-light" src="{entry.thumbnail}" alt="{escape(entry.alt)}" {size}>'
        f"{escape(entry.title)}</a><br>{escape(entry.about)}</li>"
        for entry in RECORDINGS
    )
    cards = f'<ul class="recordings" style="{GRID}">\n{items}\n</ul>\n'
    path.write_text(f"{INTRO}{cards}{RULES}", encoding="utf-8")
