"""Save a storyteller as one page in which it writes."""

import base64
import json
import re
from copy import deepcopy
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from course_lib.about import book_address
from course_lib.atomic_file import html_path, write_text

from .described import described, in_course_form
from .kept import DISTINCT, SENTENCE_END, facts_kept_by, mentions, sentence_patterns
from .language import GIRLS, KIND_OF, PRONOUNS, TOKEN, words
from .plots import PLOTS
from .storyteller import END, Storyteller, check_storyteller

LARGEST = 1_000_000  # bytes of a page
FILES = ("page.html", "page.css", "storyteller.js", "page.js")


def save_page(
    model: Storyteller, path: str | PathLike[str], *, beginning: str = "Once there was", title: str = "A storyteller"
) -> Path:
    """Write a page in which the model tells stories, and shows for each word where its heads looked.

    The file asks nothing of the network, so it can be sent to anybody. The weights in it are rounded to half precision;
    apart from that, the page computes what PyTorch does.

    Args:
        model: A storyteller whose attention is of one of the course's forms, or of a class that computes the same.
        path: Of the file to write, ending in .html; its folder must exist.
        beginning: What the first story begins with.
        title: The heading of the page.

    Returns:
        The path of the file.

    Raises:
        ValueError: An attention that computes something else, of which the message says what the doctor finds; a word
            in the beginning that the model doesn't know; weights that aren't finite; more than 1 MB; a path that is
            none of a page.
        TypeError: A model that is no Storyteller, or a title that is not a text.

    Example:
        >>> save_page(load_storyteller("llama"), "mine.html", title="The story machine")
    """
    check_storyteller(model)
    if not isinstance(title, str):
        raise TypeError(f"title must be a text, got {type(title).__name__}: give the heading of the page")
    file = html_path(path)
    rounded = deepcopy(model).cpu().float().eval()
    for weight in rounded.parameters():  # and no buffer, such as a table of cosines, which the page computes itself
        weight.data = weight.half().float()
    if not all(weight.isfinite().all() for weight in rounded.parameters()):
        raise ValueError("model has weights that aren't finite in half precision: train it again, at a lower rate")
    weights: list[Tensor] = []
    data = {"model": _without_tensors(described(in_course_form(rounded)), weights), **_language(rounded)}
    text = _html(rounded, data, weights, beginning, title)
    if len(text.encode()) > LARGEST:
        count = sum(weight.numel() for weight in rounded.parameters())
        raise ValueError(
            f"the page would have {len(text.encode()):,} bytes, and {LARGEST:,} is the limit: {count:,} parameters are "
            "too many, so make the model narrower, or give it fewer blocks"
        )
    write_text(file, text)
    return file


def _without_tensors(data: Any, weights: list[Tensor]) -> Any:
    """The same data, where for each tensor stands which part of all the weights it is."""
    if isinstance(data, dict):
        return {name: _without_tensors(value, weights) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_tensors(value, weights) for value in data]
    if not isinstance(data, Tensor):
        return data
    start = sum(map(len, weights))
    weights.append(data.detach().flatten())
    return {"from": start, "to": start + data.numel()}


def _language(model: Storyteller) -> dict[str, Any]:
    """What the page must know of the language to split it into words and to read its facts."""
    choices: dict[str, int] = {}  # the words of which a pattern has one, and where they stand in the page's list

    def shortened(pattern: str) -> str:
        numbered = re.sub(r"\(([\w|]+)\)", lambda group: f"({choices.setdefault(group[1], len(choices))})", pattern)
        return numbered.replace("\\ ", " ")

    patterns = [(shortened(one.pattern), names) for one, names in sentence_patterns()]
    return {
        "vocabulary": model.vocabulary,
        "end": END,
        "token": TOKEN.pattern,
        "patterns": patterns,
        "choices": list(choices),
        "sentence_end": SENTENCE_END.pattern,
        "kinds": KIND_OF,
        "distinct": sorted(DISTINCT),
        "pronouns": PRONOUNS,
        "girls": [name.lower() for name in GIRLS],
    }


def _html(model: Storyteller, data: dict[str, Any], weights: list[Tensor], beginning: str, title: str) -> str:
    folder = files("course_lib.stories")
    layout, style, *scripts = (folder.joinpath(name).read_text(encoding="utf-8") for name in FILES)
    story = model.write(beginning, temperature=0.0)
    starts = dict.fromkeys(text.partition("{")[0].strip() for plot in PLOTS.values() for text in plot[0])
    offered = [text for text in starts if all(word in model.numbers for word in words(text))]
    return Template(layout).substitute(
        title=escape(title),
        count=f"{sum(weight.numel() for weight in model.parameters()):,}",
        style=f"{_colors()}{style}",
        beginning=escape(beginning),
        beginnings="".join(f"<button type=button>{escape(text)}</button>" for text in offered),
        story=_marked(story),
        facts=_facts(story),
        made=f'Made in <a href="{escape(book)}">a course on attention</a>.' if (book := book_address()) else "",
        data=json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
        weights=_digits(torch.cat(weights)),
        scripts="".join(f"<script>{script}</script>" for script in scripts),
    )


def _digits(weights: Tensor) -> str:
    """Two numbers of half precision in five characters, of which none can end the script."""
    halves = weights.numpy().astype(">f2").tobytes() + b"\0\0" * (len(weights) % 2)
    return base64.a85encode(halves).decode().replace("z", 5 * "!").replace("<", "v")


def _colors() -> str:
    """The colours of the course's pictures, light and dark."""
    from course_lib.pictures import PALETTE, in_the_dark  # not above: it takes long

    light = "".join(f"--{name}:{color};" for name, color in PALETTE.items())
    dark = "".join(f"--{name}:{in_the_dark(color)};" for name, color in PALETTE.items())
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _marked(text: str) -> str:
    """A story in which the words that say facts are marked."""
    parts, at = [], 0
    for each in mentions(text)[0]:
        kind = "wrong" if not each.right else "right" if each.again else "first"
        word = escape(text[each.start : each.end])
        parts += [escape(text[at : each.start]), f"<span class={kind}>{word}</span>"]
        at = each.end
    return "".join([*parts, escape(text[at:])])


def _facts(text: str) -> str:
    """What a story says of each kind of fact, and whether it keeps it."""
    said: dict[str, dict[str, None]] = {}
    for each in mentions(text)[0]:
        said.setdefault(KIND_OF[each.name], {})[each.word] = None
    return "".join(
        f"<div><dt>{kind}</dt><dd>{', '.join(said[kind])}: {'kept' if kept else 'not kept'}</dd></div>"
        for kind, kept in facts_kept_by(text).items()
        if kind in said
    )
