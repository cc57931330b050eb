"""Assemble a page: a single file with its style, script and data, which needs no server."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from course_lib.markup import backticks_to_code
from course_lib.pictures import head_color, in_the_dark
from course_lib.wording import counted

from .joined_axes import parts_of
from .listing import line_id, listing
from .sentences import of_stage, of_story, of_tensor
from .shown_tensor import ShownTensor
from .story import Stage, Story
from .tables import HEADS, memory, tables

HOW = (
    "Step with the buttons or the arrow keys. Choose a number, by a click or by Enter, to see where it came from and "
    "where it goes; until then a mouse shows the path while it points."
)
RULE = (
    "In a table the arrow keys move from number to number; Escape lets the chosen one go, and a second Escape leads "
    "back to the buttons. Within one step, a number "
    "comes from another one if a change of that one alone can change it; one that only decides which number is read, "
    "such as an index or a mask, counts too, but of a maximum or a sort only the number that was selected. Along "
    "several steps these paths are joined, so a number whose effects cancel is still marked, such as a bias of the "
    "keys before softmax."
)

# Before the first paint, so that nothing moves after it.
LOADING = 'document.documentElement.className="js loading"+(self===top?"":" framed")'


def page(
    story: Story, *, title: str, words: Sequence[str], whys: Mapping[int, str], head: str = "", foot: str = ""
) -> str:
    """Return a page as HTML; `head` holds further tags, such as those for previews, and `foot` further links.

    It opens with the steps in `whys` alone, each with its sentence.
    """
    failed = story.error is not None
    stages = "".join(_stage(stage, words, whys.get(stage.step.number, ""), failed=failed) for stage in story.stages)
    leaves = "".join(_leaf(tensor, words) for tensor in story.leaves)
    ending = "".join(f"<p>{backticks_to_code(text)}</p>" for text in of_story(story))
    description = f"{title}: {counted(len(story.stages), 'step')} of a recorded run, number by number."
    code = listing(story.stages, story.error_line)
    package = files("course_lib.recording_page")
    return (
        f'<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f'<title>{escape(title)}</title><meta name=description content="{escape(description)}">{head}'
        f'<link rel=icon href="data:,"><style>{_read(package, "page.css")}{_colors()}</style>'
        f"<script>{LOADING}</script></head><body>"
        f'<main><h1>{escape(title)}</h1><p class="how" hidden>{HOW}</p>'
        f'<details class="how" hidden><summary>Keys, and what counts</summary><p>{RULE}</p></details>{ending}'
        f'<nav id=controls aria-label="Steps" hidden></nav>'
        f"<div id=said role=status aria-live=polite></div>"
        f'<div id=columns><section id=code aria-label="Code"><h2>The code</h2>{code}</section>'
        f"<div id=stage>{stages}</div>"
        f'<section id=leaves aria-label="What goes in"><h2>What goes in</h2>{leaves}</section></div>'
        f"{foot}</main>"
        f"<script type=application/json id=data>{_data(story, words)}</script>"
        f"<script>{_read(package, 'page.js')}</script></body></html>"
    )


def _colors() -> str:
    light = "".join(f"--head{i}:{head_color(i)};" for i in range(HEADS))
    dark = "".join(f"--head{i}:{in_the_dark(head_color(i))};" for i in range(HEADS))
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}"
        + "".join(f"td.h{i},li.h{i}{{background:var(--head{i})}}" for i in range(HEADS))
    )


def _stage(stage: Stage, words: Sequence[str], why: str, *, failed: bool) -> str:
    step, result = stage.step, stage.result
    heading = f"Step {step.number}: <code>{escape(result.title)}</code>"
    code = f"<p class=line><code>{escape(step.source or step.code or step.op)}</code></p>"
    return (
        f'<section class=step id="step-{step.number}" data-line="{escape(line_id(step))}">'
        f"<h2>{heading} <span class={step.effect}>{step.effect}</span></h2>{code}"
        f"{f'<p class=why>{backticks_to_code(why)}</p>' if why else ''}"
        f"<p class=words>{backticks_to_code(of_stage(stage, failed=failed))}</p>"
        f'<div class=before></div><div class=result data-t="{result.key}"><h3><code>{escape(result.title)}</code></h3>'
        f"{tables(result, words)}{_memory(result, f'Memory {result.storage}')}</div></section>"
    )


def _leaf(tensor: ShownTensor, words: Sequence[str]) -> str:
    return (
        f'<div class=tensor data-t="{tensor.key}"><h3><code>{escape(tensor.title)}</code></h3>'
        f"<p class=words>{escape(of_tensor(tensor))}</p>{tables(tensor, words)}</div>"
    )


def _memory(tensor: ShownTensor, name: str) -> str:
    slots = memory(tensor)
    return f"<div class=slots><h4>{name}, slot by slot</h4>{slots}</div>" if slots else ""


def _data(story: Story, words: Sequence[str]) -> str:
    """Return what the script reads: each tensor, and for each step the sources of its numbers."""
    tensors = {tensor.key: _tensor(tensor) for tensor in (*story.leaves, *(stage.result for stage in story.stages))}
    steps = [
        {
            "t": stage.result.key,
            "in": [tensor.key for tensor in stage.reads],
            "from": stage.sources,
            "orders": stage.ordering,
        }
        for stage in story.stages
    ]
    text = json.dumps({"tensors": tensors, "steps": steps, "words": words}, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")  # a title may hold </script>


def _tensor(tensor: ShownTensor) -> dict:
    return {
        "name": tensor.title,
        "shape": tensor.sizes,  # of the shown part
        "size": tensor.shape,
        "axes": [
            parts_of(name, size) if " and " in name else name
            for name, size in zip(tensor.axes, tensor.shape, strict=True)
        ],
        "stride": tensor.stride,
        "offset": tensor.offset,
        "whole": tensor.is_whole,
        "memory": tensor.storage,
        "overwritten": tensor.overwritten,  # by this step
    }


def _read(folder, name: str) -> str:
    return folder.joinpath(name).read_text(encoding="utf-8")
