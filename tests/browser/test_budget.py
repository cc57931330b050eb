"""The book is light: bytes of the front page, text without scripts, and nothing that moves while it loads."""

import pytest

KINDS = [
    "index.html",
    "notebooks/04_reshape_and_transpose.html",
    "mistakes/split-without-transpose.html",
    "reference/recorder.html",
]
SHIFT = """() => new Promise(done => { let sum = 0;
    new PerformanceObserver(list => list.getEntries().forEach(it => sum += it.value))
        .observe({type: "layout-shift", buffered: true});
    setTimeout(() => done(sum), 300); })"""


def test_the_front_page_has_less_than_400_kilobytes(browser, home):
    sizes = {}
    with browser.new_context() as context:
        page = context.new_page()
        page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
        page.goto(home, wait_until="networkidle")
    ours = {url: size for url, size in sizes.items() if "/mathjax/" not in url and "/recordings/" not in url}
    assert len(ours) > 3
    assert sum(ours.values()) < 400_000, sorted(ours.items(), key=lambda one: -one[1])[:5]


@pytest.mark.parametrize("path", KINDS)
def test_the_text_is_there_without_scripts(browser, home, path):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(home + path)
        assert page.locator("article h1").is_visible()
        assert len(page.locator("article").inner_text()) > 800
        assert page.locator("nav a").count() > 10


@pytest.mark.parametrize("path", KINDS)
def test_nothing_moves_while_a_page_loads(browser, home, path):
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(home + path, wait_until="load")
        assert page.evaluate(SHIFT) < 0.1  # what Lighthouse calls good
