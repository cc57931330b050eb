"""The book is light: bytes of the front page, text without scripts, and nothing that moves while it loads."""

import pytest

KINDS = [
    "index.html",
    "notebooks/04_reshape_and_transpose.html",
    "mistakes/split-without-transpose.html",
    "reference/recorder.html",
    "glossary.html",
    "doctor.html",
]
SHIFT = """() => new Promise(done => { let sum = 0;
    new PerformanceObserver(list => list.getEntries().forEach(it => sum += it.value))
        .observe({type: "layout-shift", buffered: true});
    setTimeout(() => done(sum), 300); })"""
LIMITS = {  # bytes that a browser without a cache loads, not compressed, all but MathJax
    "index.html": 400_000,  # with the recording in its frame
    "notebooks/05_weight_split.html": 700_000,  # the lesson with the most pictures that has formulas
    "notebooks/13_what_heads_learn.html": 950_000,  # the largest
    "mistakes/split-without-transpose.html": 320_000,
    "recordings.html": 320_000,
    "recordings/weight_split.html": 300_000,
    "search.html?q=mask": 750_000,  # with the index, and the text of the pages whose results are seen
}


@pytest.mark.parametrize(("path", "limit"), LIMITS.items())
def test_a_page_is_light(browser, home, path, limit):
    finished = []
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        page = context.new_page()
        page.on("requestfinished", lambda request: finished.append(request))
        page.goto(home + path, wait_until="networkidle")
        sizes = {request.url: len(request.response().body()) for request in finished}
    ours = {url: size for url, size in sizes.items() if "/mathjax/" not in url}
    assert home + path in ours and len(ours) > 3 * ("recordings/" not in path)
    assert sum(ours.values()) < limit, (sum(ours.values()), sorted(ours.items(), key=lambda pair: -pair[1])[:5])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", KINDS)
def test_the_text_is_there_without_scripts(browser, home, path):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(home + path)
        assert page.locator("article h1").is_visible()
        assert len(page.locator("article").inner_text()) > 800
        assert page.locator("nav a").count() > 10


def test_a_recording_is_there_without_scripts(browser, home):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(home + "recordings/weight_split.html")
        assert page.locator("h1").is_visible() and len(page.locator("body").inner_text()) > 10_000


@pytest.mark.one_in(7)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("path", [*KINDS, "search.html?q=mask", "recordings/weight_split.html"])
def test_nothing_moves_while_a_page_loads(browser, home, path, width):
    with browser.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})  # a telephone's speed
        page.goto(home + path, wait_until="networkidle")
        assert page.evaluate(SHIFT) < 0.1  # what Lighthouse calls good
