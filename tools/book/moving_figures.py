"""Write the book's figures that move: a page for each, and the page that shows them all."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from course_lib.pictures import live

from .page_head import address_of, head_of
from .site_address import read_site
from .theme import HEADING, heading_font

FOLDER = "figures"
ON_FRONT, FRONT = "why_transpose", "figures/front.html"  # the figure of the front page, and its page there
INTRO = """\
# Figures that move

Each answers one question. Press the buttons or the arrow keys, choose a number, or write a line of your own. To follow
every number of a run, open one of the [recordings](recordings.md).
"""
SECTION = """
## {title}

{about}

<iframe class="moving-figure" loading="lazy" src="{page}" title="{title}"></iframe>

<p><a href="{page}">On a page of its own</a> · <a href="notebooks/{lesson}.html">Lesson {number}</a></p>
"""


@dataclass(frozen=True)
class Entry:
    """A figure of the book: its file's name, a sentence about it, its lesson, what makes it, and a recording of it."""

    name: str
    about: str
    lesson: str
    make: Callable[[], live.Figure]
    recording: str = "wrong_view"


FIGURES = (
    Entry(
        "why_transpose",
        "Twenty-four numbers, three calls, and one row of memory that never moves.",
        "04_reshape_and_transpose",
        live.why_transpose,
    ),
    Entry(
        "paste_your_split",
        "Write the line that splits the heads or joins them, and see whose numbers each row holds. The address in the "
        "browser keeps your line, so that you can send it to somebody.",
        "04_reshape_and_transpose",
        live.paste_your_split,
    ),
    Entry(
        "drag_the_query",
        "Drag a query among six keys: the scores, the attention weights and the context answer. A slider shows what "
        "another divisor would do, and random vectors of 2 to 256 numbers show why there is one.",
        "01_single_head",
        live.drag_the_query,
        "one_head",
    ),
    Entry(
        "own_words",
        "Type words of your own, and see from each of them where a trained head looks: from a colour at a thing that "
        "has one, from “was” at a name.",
        "01_single_head",
        live.own_words,
        "one_head",
    ),
    Entry(
        "who_may_look",
        "Paint a mask, see which word looks ahead and which is left with nothing, and read the same table in the other "
        "convention.",
        "02_masks_and_dropout",
        live.who_may_look,
        "one_head",
    ),
    Entry(
        "decode",
        "A text, token by token, in a cache that keeps all, forgets, keeps a sink, or is cut into pages; and the bytes "
        "of published models.",
        "09_llama",
        live.decode,
        "decoding_step",
    ),
    Entry(
        "share_keys_and_values",
        "From a kv head for each query head to one for all: the bytes kept and read, and the facts that "
        "remain in three trainings.",
        "06_multi_query",
        live.share_keys_and_values,
        "grouped_query",
    ),
    Entry(
        "turn",
        "A query and a key at positions of your choice: four dials, and the score that stays when both move.",
        "07_order",
        live.turn,
        "llama",
    ),
    Entry(
        "roofline",
        "Your batch, your length and your machine: when attention waits for memory, when for arithmetic, and what a "
        "weight matrix does meanwhile.",
        "14_fast",
        live.roofline,
        "decoding_step",
    ),
    Entry(
        "tiles",
        "Twelve scores in tiles: a largest score, a sum and a context are corrected as they pass, and three ways to "
        "forget that.",
        "14_fast",
        live.tiles,
        "one_head",
    ),
    Entry(
        "devices",
        "A decoding step on 4 to 64 GPUs: set the latencies, the bandwidths and the texts, and see which number of "
        "devices is fastest.",
        "16_many_devices",
        live.devices,
        "decoding_step",
    ),
)


def write_figures(root: Path, html: Path) -> None:
    """Write the page of each figure into the built book."""
    folder, site = html / FOLDER, read_site(root)
    folder.mkdir(exist_ok=True)
    for entry in FIGURES:
        figure, page = entry.make(), f"{FOLDER}/{entry.name}"
        head = head_of(site, page, figure.title, entry.about)
        head += f"<style>{heading_font()}:root{{--heading:{HEADING}}}</style>"
        head += f'<link rel="canonical" href="{address_of(site, page)}">'
        foot = (
            f'<p><a href="../notebooks/{entry.lesson}.html">Lesson {entry.lesson[:2]}</a> · '
            '<a href="../figures.html">All figures</a> · '
            f'<a href="../recordings/{entry.recording}.html">The same as a recorded run, number by number</a></p>'
        )
        (folder / f"{entry.name}.html").write_text(figure.page(head=head, foot=foot), encoding="utf-8")
        if entry.name == ON_FRONT:  # in a frame the heading is hidden, and so the page needs no font for it
            light = figure.page(head=f'<link rel="canonical" href="{address_of(site, page)}">', foot=foot)
            (html / FRONT).write_text(light, encoding="utf-8")


def write_figure_list(path: Path) -> None:
    """Write the page that shows all figures; Sphinx reads it before their pages are written."""
    sections = [
        SECTION.format(
            title=entry.make().title,
            about=entry.about,
            page=f"{FOLDER}/{entry.name}.html",
            number=entry.lesson[:2],
            lesson=entry.lesson,
        )
        for entry in FIGURES
    ]
    path.write_text(INTRO + "".join(sections), encoding="utf-8")
