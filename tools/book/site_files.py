"""What the published site has besides its pages: a sitemap, robots.txt, and the page for an address that is wrong."""

from html import escape
from pathlib import Path

from .page_head import address_of
from .redirects import MOVED
from .theme import HEADING, STATIC, color_variables, heading_font

NOT_FOUND = "404.html"  # the name that GitHub Pages looks for, at whatever depth the wrong address is
UNLISTED = {NOT_FOUND, "search.html", *(f"notebooks/{old}.html" for old in MOVED)}
OTHER_PAGES = {  # where a reader may go from there
    "index.html": "The front page",
    "notebooks/00_start_here.html": "The first lesson",
    "mistakes/index.html": "The mistakes that no error reports",
    "glossary.html": "The glossary",
}
# The theme that was chosen on the other pages, else the system's.
THEME = """\
let theme; try { theme = localStorage.getItem("theme") } catch {}
theme ||= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.documentElement.dataset.theme = theme\
"""
# All its links are whole addresses, because relative ones would depend on how deep the wrong address was.
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<title>Page not found: the attention course</title>
<style>
{face}
body {{ background: var(--page); color: var(--ink); font: 1.0625rem/1.65 system-ui, sans-serif }}
body {{ max-width: 40rem; margin: 0 auto; padding: 1rem }}
h1, header a {{ font-family: {heading}; font-weight: 650; letter-spacing: -.015em; line-height: 1.15 }}
h1 {{ font-size: clamp(1.9rem, 1.3rem + 2.4vw, 2.75rem); margin: 12vh 0 1rem }}
header a {{ display: flex; align-items: center; gap: .6rem; color: var(--ink); text-decoration: none }}
header svg {{ width: 2.4rem; height: 2.4rem }}
a {{ color: var(--link) }}
input, button {{ font: inherit; color: var(--ink); background: var(--plain); border: 1px solid var(--quiet) }}
input, button {{ border-radius: .4rem; padding: .3em .7em }}
</style>
<script>{theme}</script>
</head>
<body><header><a href="{site}">{logo}Attention, from one head to multi‑query</a></header><main>
<h1>There is no such page</h1>
<p>The address may be mistyped, or the page may have another name by now. Look for it:</p>
<form action="{site}search.html">
<label>Words of the page: <input name="q" type="search"></label> <button>Search</button>
</form>
<p>Or go to one of these:</p>
<ul>
{other_pages}
</ul>
</main></body>
</html>
"""


def write_site_files(html: Path, site: str) -> None:
    """Write `sitemap.xml`, `robots.txt` and `404.html` into the built book, which is published at the address `site`.

    Robots read `robots.txt` at the root of a host only: on GitHub Pages it counts for a book with a domain of its own.
    """
    (html / "sitemap.xml").write_text(sitemap(html, site), encoding="utf-8")
    (html / "robots.txt").write_text(f"User-agent: *\nAllow: /\nSitemap: {site}sitemap.xml\n", encoding="utf-8")
    other_pages = "\n".join(
        f'<li><a href="{escape(site + page)}">{name}</a></li>' for page, name in OTHER_PAGES.items()
    )
    page = PAGE.format(
        site=escape(site),
        other_pages=other_pages,
        face=color_variables() + heading_font(),
        heading=HEADING,
        theme=THEME,
        logo=(STATIC / "logo.svg").read_text(encoding="utf-8"),
    )
    (html / NOT_FOUND).write_text(page, encoding="utf-8")


def sitemap(html: Path, site: str) -> str:
    """Return the list of all pages that a search engine should know, by their canonical addresses.

    sphinx-sitemap lists what Sphinx made: no recording, but the search page, and `index.html` in place of the site.

    Source: https://www.sitemaps.org/protocol.html.
    """
    pages = sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html") if "_static" not in path.parts)
    listed = (address_of(site, page.removesuffix(".html")) for page in pages if page not in UNLISTED)
    urls = "".join(f"<url><loc>{escape(address)}</loc></url>\n" for address in listed)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    return f"{head}{urls}</urlset>\n"
