"""The book shows each figure on one page for all and on a page of its own, which lead to each other."""

import re
from pathlib import Path

import pytest

from tools.book.links import Page
from tools.book.moving_figures import FIGURES, FOLDER, write_figure_list, write_figures
from tools.book.theme import heading_font

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    html = tmp_path_factory.mktemp("html")
    write_figures(ROOT, html)
    write_figure_list(html / "figures.md")
    return html


def test_the_list_shows_each_figure_and_leads_to_its_page(html):
    text = (html / "figures.md").read_text(encoding="utf-8")
    framed = re.findall(r'<iframe class="moving-figure" loading="lazy" src="([^"]+)" title="[^"]+"></iframe>', text)
    assert framed == [f"{FOLDER}/{entry.name}.html" for entry in FIGURES]
    assert all((html / page).exists() and f'<a href="{page}">' in text for page in framed)


@pytest.mark.parametrize("entry", FIGURES, ids=lambda entry: entry.name)
def test_a_page_has_the_books_face_and_leads_to_its_lesson(html, entry):
    page = html / FOLDER / f"{entry.name}.html"
    links = Page(page).links
    assert f"../notebooks/{entry.lesson}.html" in links and "../figures.html" in links
    assert (ROOT / "notebooks" / f"{entry.lesson}.ipynb").exists()
    text = page.read_text(encoding="utf-8")
    assert heading_font() in text and "font-src data:" in text
    assert f'<meta name="description" content="{entry.about}">' in text
