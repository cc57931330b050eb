"""What the pages for students and teachers share: one frame, and words of strangers made harmless."""

from __future__ import annotations

import functools
import re
import unicodedata
from datetime import datetime
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

LONGEST = 2000  # characters of one text: a page stays readable whatever a student printed
_JOINERS = "\u200c\u200d"  # invisible, harmless, and part of names and words in many languages
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi overrides, halves of characters, line separators

# The policy is a second lock: even if a tag slipped through, nothing would run and nothing would be asked for.
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{% block title %}{% endblock %}</title>
<style>{{ style }}</style>
</head>
<body>
<main>
{% block main %}{% endblock %}
</main>
<footer>
<p>{{ record.release }}, version {{ record.version }} of the attention course ({{ record.commit }}).</p>
</footer>
</body>
</html>
"""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #4b535d; --paper: #fff; --shade: #f1f3f5; --line: #8a929b;
  --link: #0b57a4; --good: #1e6b24; --bad: #b3261e; --open: #545b63; --look: #7a4a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --quiet: #b6bdc6; --paper: #15181c; --shade: #23282e;
  --line: #79828c; --link: #8ab8ff; --good: #7ddb86; --bad: #ff9d94; --open: #b6bdc6; --look: #f2b866; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main, footer { max-width: 56rem; margin: 0 auto; padding: .5rem 1rem; overflow-wrap: anywhere; }
footer { color: var(--quiet); font-size: .875rem; border-top: 1px solid var(--line); }
h1, h2, h3 { line-height: 1.25; } h1 { font-size: 1.75rem; } h2 { font-size: 1.3rem; margin-top: 2rem; }
h3 { font-size: 1.1rem; }
a { color: var(--link); } :focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.total { font-size: 1.4rem; font-weight: 600; margin: .5rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 1rem 0; }
dt { color: var(--quiet); } dd { margin: 0; min-width: 0; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--quiet); padding: .25rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .5rem; text-align: left; vertical-align: top; }
thead th { background: var(--shade); } tbody th { font-weight: 500; min-width: 7rem; overflow-wrap: anywhere; }
thead th, td { overflow-wrap: normal; } .number { text-align: right; } td.number { white-space: nowrap; }
code { font-family: ui-monospace, monospace; font-size: .9em; background: var(--shade); padding: 0 .2em; }
code, bdi { unicode-bidi: isolate; white-space: pre-wrap; }
.state { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
.look { color: var(--look); }
section.exercise { border-left: 4px solid var(--line); padding-left: 1rem; margin: 1.5rem 0; }
.scrolls { overflow-x: auto; overflow-wrap: normal; }
figure { margin: 1rem 0; } figure img { background: #fff; max-width: none; } figcaption { color: var(--quiet); }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
@media print { :root { color-scheme: light; --ink: #000; --quiet: #333; --paper: #fff; --shade: #eee; --line: #777;
  --link: #000; --good: #1e6b24; --bad: #b3261e; --open: #444; --look: #7a4a00; }
  section.exercise, tr, figure { break-inside: avoid; } h1, h2, h3 { break-after: avoid; }
  .scrolls { overflow: visible; } figure img { max-width: 100%; height: auto; } main, footer { max-width: none; } }
"""


def visible(text: str) -> str:
    """A text of a stranger with everything that hides or turns text written as an escape, and not too long."""
    cut = f"… ({len(text) - LONGEST:,} characters more)" if len(text) > LONGEST else ""
    kept = text[:LONGEST]
    return (kept if kept.isprintable() else "".join(map(_shown, kept))) + cut


def rich(text: str) -> Markup:
    """Words as HTML that is safe to show, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(visible(text)))))


def number(points: float) -> str:
    """Points as a person writes them: 3, 2.5, 0.33."""
    return f"{round(points, 2):.12g}"


def moment(when: str) -> str:
    """A time of ISO 8601 for a person, such as 2026-11-02 23:10 UTC+01:00; another text as it is."""
    try:
        return f"{datetime.fromisoformat(when):%Y-%m-%d %H:%M %Z}".strip()
    except ValueError:
        return when


def place(where: str) -> str:
    """The place of a line for a person: "cell 7:3" is line 3 of cell 7."""
    return re.sub(r"^cell (\d+):(\d+)$", r"line \2 of cell \1", where)


def render(template: str, **values: Any) -> str:
    """Fill a template that extends "page"; every value is made visible and escaped on its way in."""
    return _compiled(template).render(style=Markup(STYLE), **values)


def _shown(character: str) -> str:
    if character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return f"\\u{ord(character):04x}"


@functools.cache  # a class of thousands has one template
def _compiled(template: str) -> Any:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=DictLoader({"page": FRAME}),
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"rich": rich, "number": number, "moment": moment, "place": place}
    return environment.from_string(template)
