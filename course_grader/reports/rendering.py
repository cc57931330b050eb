"""Fill the HTML templates; every value is made visible and escaped first."""

from __future__ import annotations

import functools
import re
import unicodedata
from datetime import datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

MAX_TEXT = 2000  # characters of one text: a page stays readable whatever a student printed
_STRESSED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,80})(?<=\S)\*(?![\w*])")
_JOINERS = "\u200c\u200d"  # invisible, harmless, and part of names and words in many languages
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi overrides, lone surrogates, line separators


def visible(text: str) -> str:
    """Escape everything in an untrusted text that hides or reorders text, and cut the text to `MAX_TEXT` characters."""
    cut = f"… ({len(text) - MAX_TEXT:,} more characters)" if len(text) > MAX_TEXT else ""
    kept = text[:MAX_TEXT]
    return (kept if kept.isprintable() else "".join(map(_escape_hidden, kept))) + cut


def _escape_hidden(character: str) -> str:
    if character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return f"\\u{ord(character):04x}"


def rich(text: str) -> Markup:
    """Return an untrusted text as safe HTML: text between backticks is code, and *text* outside of code is stressed."""
    parts = re.split(r"`([^`]+)`", str(escape(visible(text))))
    parts[1::2] = [f"<code>{code}</code>" for code in parts[1::2]]
    parts[::2] = [_STRESSED.sub(r"<em>\1</em>", part) for part in parts[::2]]
    return Markup("".join(parts))


def number(points: float) -> str:
    """Format points as a person writes them: 3, 2.5, 0.33."""
    return f"{round(points, 2):.12g}"


def moment(time: str) -> str:
    """Format an ISO 8601 time for a person, such as 2026-11-02 23:10 UTC+01:00; any other text is unchanged."""
    try:
        return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M %Z}".strip()
    except ValueError:
        return time


def script(name: str) -> Markup:
    """Return a script of ours, which stands on a page as it is."""
    return Markup(resources.files("course_grader.reports").joinpath("templates", name).read_text(encoding="utf-8"))


def render(template: str, **values: Any) -> str:
    """Fill a template; strings are made visible and escaped, and only `Markup` is taken as HTML."""
    return _environment().get_template(template).render(**values)


@functools.cache  # because thousands of pages use one template
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        loader=PackageLoader("course_grader.reports"),
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"rich": rich, "number": number, "moment": moment}
    return environment
