"""Every page of the book in both themes and three widths, looked at whole by axe-core.

Too long for each change, which test_book.py looks at with one theme and width a page: `course test --every-page`. What
moves while a page loads depends on the machine's speed, so this is asked here only, on an idle machine.
"""

import pytest

from .site import pages, violations
from .test_book import resize
from .test_budget import KINDS

WIDTHS = (1400, 768, 360)
SHIFT = """() => new Promise(done => { let sum = 0;
    new PerformanceObserver(list => list.getEntries().forEach(it => sum += it.value))
        .observe({type: "layout-shift", buffered: true});
    setTimeout(() => done(sum), 300); })"""


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


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("path", [*KINDS, "search.html?q=mask", "recordings/weight_split.html"])
def test_nothing_moves_while_a_page_loads(browser, home, path, width):
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.goto(home + path, wait_until="networkidle")
        assert page.evaluate(SHIFT) < 0.1  # what Lighthouse calls good
