"""The book's colours are those of its pictures, in both themes, and its pages load only what they use."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from course_lib.pictures import PALETTE, in_the_dark
from course_lib.pictures.dark import contrast
from tools.book.course_map import PARTS, as_list, course_map
from tools.book.excerpts import FOLDER, write_articles
from tools.book.lesson_table import read_walk
from tools.book.palette import write_palette
from tools.book.unused_assets import lighten, only_used

ROOT = Path(__file__).resolve().parents[3]
CSS = (ROOT / "book" / "_static" / "book.css").read_text(encoding="utf-8")
OTHERS = {"#10161E", "#1a6d30", "#7ee787"}  # the dark page below its cards; added lines of a difference


def test_text_can_be_read_on_every_colour_of_the_book():
    for theme in (lambda color: color, in_the_dark):
        named = {name: theme(color) for name, color in PALETTE.items()}
        for name in [*(f"head-{number}" for number in range(8)), "paper", "plain", "faint"]:
            assert contrast(named["ink"], named[name]) >= 4.5, name
        assert all(contrast(named[name], named["plain"]) >= 4.5 for name in ("link", "quiet", "wrong"))


def test_the_style_sheet_has_no_colours_of_its_own(tmp_path):
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", CSS)) == OTHERS
    write_palette(tmp_path / "static" / "palette.css")
    palette = (tmp_path / "static" / "palette.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--((?:ink|quiet|line|faint|paper|plain|wrong|link|head-\d|weight-\d+))\)", CSS))
    assert used and all(palette.count(f"  --{name}: ") == 2 for name in used)  # in each theme


def test_only_rules_that_can_match_are_kept():
    css = """@charset "utf-8";.used{a:b}.gone{a:b}.gone,.used:hover{c:d}p>a{e:f}@media print{.gone{a:b}}
      @media (min-width:9px){.used .gone{a:b}.used{background:url("data:x,%3c{}';")}}@font-face{font-family:F}
      :is(.gone,.used) b{g:h}.a\\.b{i:j}"""
    kept = only_used(css, {"used"})
    assert kept == (
        '@charset "utf-8";.used{a:b}.used:hover{c:d}p>a{e:f}'
        """@media (min-width:9px){.used{background:url("data:x,%3c{}';")}}"""
        "@font-face{font-family:F}:is(.gone,.used) b{g:h}"
    )


def test_icons_are_drawn_where_they_stand(tmp_path):
    (tmp_path / "_static" / "scripts").mkdir(parents=True)
    (tmp_path / "_static" / "styles").mkdir()
    script = tmp_path / "_static" / "scripts" / "fontawesome.js"
    icons = '{sun:[1,2,[],"f1","M1"],sun:[3,4,["s"],"f1","M2"],"big-sun":[5,6,[],"f2","M3"]}'
    for name in ("pydata-sphinx-theme.css", "sphinx-book-theme.css"):
        (tmp_path / "_static" / "styles" / name).write_text(".fa-sun{a:b}.other{a:b}", encoding="utf-8")
    icon = '<i class="fa-solid fa-NAME" data-mode="light" title="Light"></i>'
    search = '<script src="_static/searchtools.js"></script><script src="searchindex.js"></script>'
    (tmp_path / "search.html").write_text(search, encoding="utf-8")
    heavy = '<link rel="preload" as="script" href="x/bootstrap.js?d=1" />\n<script src="x/bootstrap.js?d=1"></script>'
    page = f'{heavy}{search}<script defer src="x/fontawesome.js?d=1"></script>\n{icon}'
    for name, path in (("sun", "M2"), ("big-sun", "M3"), ("moon", "")):
        script.write_text(icons, encoding="utf-8")
        (tmp_path / "page.html").write_text(page.replace("NAME", name), encoding="utf-8")
        if not path:
            with pytest.raises(ValueError, match=r"draws none of \['solid', 'moon'\]: name an icon that it has"):
                lighten(tmp_path)
            continue
        lighten(tmp_path)
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        drawing = ElementTree.fromstring(text)
        assert drawing.get("class") == f"icon fa-solid fa-{name}" and drawing.get("data-mode") == "light"
        assert drawing[0].get("d") == path and not script.exists()
        assert (tmp_path / "search.html").read_text(encoding="utf-8") == search


def test_the_search_reads_text_without_code_and_pictures(tmp_path):
    (tmp_path / "deep").mkdir()
    kept = '<article id="a"><h1>Heads</h1><p>One <code>view</code>.</p><dt id="b">x</dt>'
    left_out = '<pre><p>code</p></pre><img src="data:1"><svg><p>drawn</p></svg><button>Copy</button><!-- p -->'
    page = f"<nav><p>menu</p></nav>{kept}{left_out}</article><footer></footer>"
    (tmp_path / "deep" / "page.html").write_text(page, encoding="utf-8")
    (tmp_path / "recording.html").write_text("<main></main>", encoding="utf-8")
    write_articles(tmp_path)
    written = [path.relative_to(tmp_path / FOLDER).as_posix() for path in tmp_path.rglob("*.txt")]
    assert written == ["deep/page.txt"]
    assert (tmp_path / FOLDER / "deep" / "page.txt").read_text(encoding="utf-8") == f"{kept}</article>"


def test_the_map_has_every_lesson_once(monkeypatch):
    rows = read_walk(ROOT)
    parts = course_map(rows)
    assert [row for part in parts for row in part.lessons] == rows and all(part.lessons for part in parts)
    text = as_list(parts)
    assert [f'href="notebooks/{row.name}.html"' in text for row in rows] == [True] * len(rows)
    monkeypatch.setitem(PARTS, "77", ("Nowhere", 0))
    with pytest.raises(ValueError, match="A part of the course begins with lesson 77, which does not exist"):
        course_map(rows)


def test_the_font_is_small_and_has_its_licence():
    fonts = ROOT / "book" / "_static" / "fonts"
    assert sum(path.stat().st_size for path in fonts.glob("*.woff2")) < 30_000
    assert "SIL Open Font License, Version 1.1" in (fonts / "OFL.txt").read_text(encoding="utf-8")
    assert re.findall(r'url\("fonts/([^"]+)"\)', CSS) == ["bricolage-grotesque.woff2"]
