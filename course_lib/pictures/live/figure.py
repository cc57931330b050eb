"""A figure that moves: its script with its data, and the picture that stands for it where no script runs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from course_lib.atomic_file import write_text
from course_lib.pictures.dark import in_the_dark
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import HEADS, PALETTE
from course_lib.pictures.tensors.plane import COLORS as GROUPS

CORE = "core.js"
# A notebook's output is a picture; where its scripts may run, this puts the figure in the picture's place. The frame
# is a page of its own: it can't reach the notebook, and its keys and colours stay within it. It is dark if what is
# behind it is.
HOST = """\
(() => {
  const frame = document.createElement("iframe"), here = document.currentScript.parentElement;
  let behind = here, color = null;
  for (; behind && !color; behind = behind.parentElement) {
    const [red, green, blue, alpha = 1] = getComputedStyle(behind).backgroundColor.match(/[\\d.]+/g).map(Number);
    if (alpha > .5) color = [red, green, blue];
  }
  const theme = color && color[0] + color[1] + color[2] < 384 ? "dark" : "light";
  frame.title = TITLE;
  frame.sandbox = "allow-scripts allow-popups";
  frame.style.cssText = `display:block;width:100%;height:640px;border:0;color-scheme:${theme}`;
  frame.srcdoc = PAGE.replace("<html", `<html data-theme=${theme}`);
  addEventListener("message", ({source, data}) => {
    if (source !== frame.contentWindow || !(data.height > 0)) return;
    frame.style.height = `${Math.ceil(data.height)}px`;
    here.classList.add("moves");
  });
  here.append(Object.assign(document.createElement("style"), {textContent: STYLE}));
  frame.addEventListener("load", () => frame.contentWindow.postMessage("How high?", "*"));
  here.append(frame);
})()"""
HOST_STYLE = (
    "@media screen{.moves>.still{display:none}}@media print{.live-figure>iframe{display:none!important}}"
    ".live-figure{position:relative}.live-figure:not(.moves)>iframe{position:absolute;top:0;opacity:0;pointer-events:none}"
)


@dataclass(frozen=True)
class Figure:
    """A figure that moves.

    In a trusted notebook, and on a page of its own, it moves. Where scripts don't run it is its picture: in a notebook
    that is not trusted, on a page of a repository, in print. In a terminal it is the picture's words.

    Attributes:
        title: the question that it answers.
        scripts: the names of its scripts in this folder, after the core that all figures share.
        data: the numbers that the scripts show.
        picture: the same without motion.
    """

    title: str
    scripts: tuple[str, ...]
    data: Mapping[str, Any]
    picture: Picture

    def __repr__(self) -> str:
        return f"{self.title}\n{self.picture!r}"

    def _repr_html_(self) -> str:
        host = HOST.replace("TITLE", _json(self.title)).replace("STYLE", _json(HOST_STYLE))
        host = host.replace("PAGE", _json(self._page(still="")))
        return (
            f'<div class="live-figure"><div class="still">{self.picture._repr_html_()}</div>'
            f"<script>{host}</script></div>"
        )

    def page(self, *, head: str = "", foot: str = "") -> str:
        """Return a page of its own as HTML, which asks nothing of the network.

        Args:
            head, foot: HTML for the page's head, such as tags for previews, and for its end, such as links.
        """
        return self._page(still=self.picture._repr_html_(), head=head, foot=foot)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file, which opens without a server, and return its path.

        Raises:
            ValueError: If the path doesn't end in .html, or its folder does not exist.
        """
        file = Path(path)
        if file.suffix != ".html":
            raise ValueError(f"path must end in .html, got {str(path)!r}: a browser opens such a file.")
        if not file.parent.is_dir():
            raise ValueError(f"path is in the folder {str(file.parent)!r}, which does not exist: make it first.")
        write_text(file, self.page())
        return file

    def _page(self, *, still: str, head: str = "", foot: str = "") -> str:
        script = f'"use strict";\n{"".join(map(read, (CORE, *self.scripts)))}'
        return (
            "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
            f'<title>{escape(self.title)}</title>{head}<link rel=icon href="data:,">'
            f"<style>{_colors()}{read('core.css')}</style></head>"
            f"<body><main><h1>{escape(self.title)}</h1><div id=figure></div>"
            f'<div class="still">{still}</div></main><footer>{foot}</footer>'
            f"<script type=application/json id=data>{_json(self.data)}</script><script>{script}</script></body></html>"
        )


def read(name: str) -> str:
    """Return the text of a file of this folder."""
    return files("course_lib.pictures.live").joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """Return JSON that may stand in a script: nothing in it ends the script."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _policy(script: str) -> str:
    """Allow this script and nothing from the network."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; font-src data:"


def _colors() -> str:
    """Return the colours of both themes: the one that the page names, else the system's."""
    colors = PALETTE | {f"group-{i}": color for i, color in enumerate(GROUPS)}
    light = "".join(f"--{name}:{color};" for name, color in colors.items())
    dark = "".join(f"--{name}:{in_the_dark(color)};" for name, color in colors.items()) + "color-scheme:dark"
    heads = "".join(f".head{i}{{background:var(--head-{i})}}" for i in range(len(HEADS)))
    return (
        f":root{{{light}color-scheme:light}}@media screen{{:root[data-theme=dark]{{{dark}}}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme]){{{dark}}}}}{heads}"
    )
