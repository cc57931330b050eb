"""Trim the theme: pages load only the icons and style rules that they use."""

import re
from pathlib import Path

ICON = re.compile(r'<(i|span) class="([^"]*\bfa-[^"]*)"([^>]*)></\1>')
DRAWN = r'[{{,]"?{name}"?:\[(\d+),(\d+),\[[^\]]*\],"[^"]*","([^"]+)"\]'
UNLOADED = ("fontawesome.js", "bootstrap.js")  # icons are drawn below, and book.js opens the few menus
_NAMES = "|".join(map(re.escape, UNLOADED))
UNLOADED_SCRIPT = re.compile(rf"<(?:script|link)[^>]*/(?:{_NAMES})[^>]*>(?:</script>)?\n?")
SEARCH_SCRIPT = re.compile(r"<script[^>]*/?(searchtools|language_data|searchindex)\.js[^>]*></script>\n?")
STYLES = ("styles/*.css", "basic.css", "pygments.css", "mystnb.*.css")
CLASSES = re.compile(r'class="([^"]*)"')
CLASS_IN_SELECTOR = re.compile(r"\.((?:[\w-]|\\.)+)")
WORD = re.compile(r"[\w-]+")
NESTING = ("@media", "@supports", "@layer", "@container")


def lighten(html: Path) -> None:
    """Draw each icon where it stands, and delete what is not used: scripts, styles and, on most pages, the search."""
    scripts = html / "_static" / "scripts"
    icons = Icons((scripts / "fontawesome.js").read_text(encoding="utf-8"))
    for name in UNLOADED:
        (scripts / name).unlink(missing_ok=True)
    used: set[str] = set()
    for page in html.rglob("*.html"):
        before = page.read_text(encoding="utf-8")
        text = UNLOADED_SCRIPT.sub("", ICON.sub(icons.draw, before))
        if page.name != "search.html":  # the theme loads the index everywhere, to search while one types
            text = SEARCH_SCRIPT.sub("", text)
        if text != before:
            page.write_text(text, encoding="utf-8")
        used.update(name for names in CLASSES.findall(text) for name in names.split())
    for script in (*(html / "_static").glob("*.js"), *scripts.glob("*.js")):
        used.update(WORD.findall(script.read_text(encoding="utf-8")))
    for style in (file for pattern in STYLES for file in (html / "_static").glob(pattern)):
        style.write_text(only_used(style.read_text(encoding="utf-8"), used), encoding="utf-8")


class Icons:
    """The drawings of an icon font's script, found by name."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._known: dict[str, tuple[str, ...] | None] = {}

    def draw(self, match: re.Match[str]) -> str:
        """Return an icon's element as a drawing that has the element's classes and attributes.

        Raises:
            ValueError: The script holds no icon of that name.
        """
        _, classes, others = match.groups()
        names = [name.removeprefix("fa-") for name in classes.split() if name.startswith("fa-")]
        width, height, path = next((icon for name in names if (icon := self._find(name))), (None,) * 3)
        if path is None:
            raise ValueError(f"The theme's script draws none of {names}: name an icon that it has.")
        return (
            f'<svg class="icon {classes}"{re.sub(r" title=.[^>]*?.(?= |$)", "", others)} aria-hidden="true" '
            f'viewBox="0 0 {width} {height}"><path fill="currentColor" d="{path}"/></svg>'
        )

    def _find(self, name: str) -> tuple[str, ...] | None:
        if name not in self._known:
            drawn = re.findall(DRAWN.format(name=re.escape(name)), self._script)
            self._known[name] = drawn[-1] if drawn else None  # the outlined form comes before the solid one
        return self._known[name]


def only_used(css: str, used: set[str]) -> str:
    """Return a style sheet without the rules whose every selector has a class that nothing uses."""
    kept = []
    for head, body in _rules(css):
        if body is None:
            kept.append(head)
        elif head.startswith(NESTING):
            inner = only_used(body, used)
            kept.append(f"{head}{{{inner}}}" if inner else "")
        elif head.startswith("@"):
            kept.append(f"{head}{{{body}}}")
        else:
            selectors = [selector for selector in _split(head) if _may_match(selector, used)]
            kept.append(f"{','.join(selectors)}{{{body}}}" if selectors else "")
    return "".join(kept)


def _may_match(selector: str, used: set[str]) -> bool:
    needed = re.sub(r":(not|is|where|has)\((?:[^()]|\([^()]*\))*\)", "", selector)
    return all(name.replace("\\", "") in used for name in CLASS_IN_SELECTOR.findall(needed))


def _split(head: str) -> list[str]:
    """Split at the commas that stand outside of brackets."""
    return re.split(r",(?![^(\[]*[)\]])", head)


def _rules(css: str) -> list[tuple[str, str | None]]:
    """Return each rule's head and body; a statement such as `@import` has no body."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    rules: list[tuple[str, str | None]] = []
    start = depth = opened = 0
    for match in re.finditer(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|url\((?!["'])[^)]*\)|[{};]""", css):
        sign = match[0]
        if sign == "{":
            depth += 1
            opened = match.start() if depth == 1 else opened
        elif sign == "}":
            depth -= 1
            if depth == 0:
                rules.append((css[start:opened].strip(), css[opened + 1 : match.start()]))
                start = match.end()
        elif sign == ";" and depth == 0:
            rules.append((css[start : match.end()].strip(), None))
            start = match.end()
    return rules
