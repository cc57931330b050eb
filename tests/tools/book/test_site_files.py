"""The site has a sitemap, robots.txt, and a page for wrong addresses that works at any depth."""

import re
from xml.etree import ElementTree

from course_lib.pictures import PALETTE, in_the_dark
from tools.book.redirects import MOVED
from tools.book.site_files import write_site_files

SITE = "https://ada.github.io/course/"


def test_the_sitemap_has_every_page_a_reader_looks_for(tmp_path):
    pages = ["index.html", "search.html", "notebooks/a&b.html", f"notebooks/{next(iter(MOVED))}.html", "_static/x.html"]
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text("a page")
    write_site_files(tmp_path, SITE)
    tree = ElementTree.parse(tmp_path / "sitemap.xml")
    found = [place.text for place in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert found == [SITE, f"{SITE}notebooks/a&b.html"]
    assert f"Sitemap: {SITE}sitemap.xml\n" in (tmp_path / "robots.txt").read_text()


def test_all_links_of_the_page_for_wrong_addresses_are_whole(tmp_path):
    write_site_files(tmp_path, SITE)
    page = (tmp_path / "404.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src|action)="([^"]*)"', page)
    assert len(links) > 4 and all(link.startswith((SITE, "data:")) for link in links)
    assert '<meta name="robots" content="noindex">' in page
    links_of_the_site = re.findall(r"--link:(#[0-9A-F]{6})", page)  # in the colours and with the logo of the others
    assert links_of_the_site == [PALETTE["link"], in_the_dark(PALETTE["link"])] and "<svg" in page
