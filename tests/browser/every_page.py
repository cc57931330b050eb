"""Every page of the book in both themes and three widths, looked at whole by axe-core.

Too long for each change, which test_book.py looks at with one theme and width a page: `course test --every-page`.
"""

import pytest

from .site import pages, violations
from .test_book import resize

WIDTHS = (1400, 768, 360)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", pages())
def test_a_page(open_page, path, theme):
    page, _ = open_page(path, theme=theme)
    page.wait_for_function("!window.MathJax?.startup?.promise || MathJax.startup.promise.then(() => true)")
    found = {}
    for width in WIDTHS:
        resize(page, width)
        page.wait_for_timeout(300)  # the theme moves its sidebar in
        found[width] = violations(page)
    assert not any(found.values()), found
