"""Store the text of each page without code and pictures, for the excerpts that the search shows."""

import re
from pathlib import Path

FOLDER = "_static/articles"
ARTICLE = re.compile(r"<article\b.*</article>", re.DOTALL)
NOT_READ = re.compile(r"<(pre|svg|style|script|iframe|picture|button)\b.*?</\1>|<img\b[^>]*>|<!--.*?-->", re.DOTALL)


def write_articles(html: Path) -> None:
    """Write the article of each page to a file of its own, which is a tenth of the page.

    The search reads a page for every result that is seen: with their pictures, those of one question are megabytes.
    """
    for page in html.rglob("*.html"):
        if article := ARTICLE.search(page.read_text(encoding="utf-8")):
            target = html / FOLDER / page.relative_to(html).with_suffix(".txt")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(NOT_READ.sub("", article[0]), encoding="utf-8")
