"""Every page of the web book in a real browser: nothing fails, nothing overflows, everybody can read and reach it."""

import json
import re

import pytest

from course_lib.pictures.dark import NIGHT, contrast

from .site import HTML, Complaints, color_at, pages, served, violations

WIDTHS = (1400, 768, 320)
WHOLE = {  # of each kind of page one is looked at with the frame that all share, the others without
    "index.html", "search.html", "notebooks/05_weight_split.html", "notebooks/exercises/05_exercises.html",
    "mistakes/split-without-transpose.html", "reference/recorder.html", "grade.html",
}  # fmt: skip
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (WIDTHS[0], WIDTHS[-1])]
PAGES = pages() or ["index.html"]
MISTAKES = [path for path in PAGES if path.startswith("mistakes/")]
# axe-core takes half of a page's time, and the pages of mistakes come from one template: every fifth of them, so that
# each look is among them. What a page alone can get wrong, its pictures' words and its width, is asked of every one.
# Its colours come from one style sheet, so that those of one page of each kind are enough.
LOOKED_AT = {*PAGES} - {*MISTAKES} | {*MISTAKES[::5]} | WHOLE


@pytest.mark.one_in(12)
@pytest.mark.parametrize("path", PAGES)
def test_a_page(open_page, path):
    theme, looked_at = LOOKS[PAGES.index(path) % len(LOOKS)]  # neighbours are of one kind: each kind gets every look
    page, complaints = open_page(path, theme=theme)
    page.wait_for_function("!window.MathJax?.startup?.promise || MathJax.startup.promise.then(() => true)")
    mute = page.evaluate(
        """() => Promise.all([...document.querySelectorAll("img")].map(it => it.decode().then(() => it.alt.trim() &&
            it.naturalWidth ? "" : it.outerHTML.slice(0, 200)))).then(all => all.filter(it => it))"""
    )
    assert not mute, f"pictures without words, or that don't show: {mute}"
    assert len(page.title()) > len(" — ") and page.locator("main h1:visible").count() == 1
    for width in WIDTHS:
        resize(page, width)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels wide on a screen of {width}: {widest(page, width)}"
        if width == looked_at and path in LOOKED_AT:  # the colours of code are looked at below, once for all
            part = None if path in WHOLE else "main"
            found = violations(page, only=part, but=".highlight", colors=path in WHOLE)
            assert not found, f"at {width} pixels, {theme}: {found}"
    assert not complaints.found


def resize(page, width):
    """Change the width and wait for the page's own listener: `resize` is sent just before a frame is drawn."""
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["mistakes/split-without-transpose.html", "notebooks/00_start_here.html"])
def test_code_can_be_read(open_page, path, theme):
    page, _ = open_page(path, theme=theme)
    assert not violations(page, only=".highlight")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_for_a_wrong_address_can_be_read(open_page, theme):
    page, _ = open_page("404.html", theme=theme)  # which has a style of its own
    assert not violations(page)


def test_every_kind_of_page_is_looked_at_whole():
    assert set(PAGES) >= WHOLE
    assert {LOOKS[PAGES.index(path) % len(LOOKS)] for path in MISTAKES[::5]} == set(LOOKS)


def widest(page, width):
    """The outermost elements that stick out on the right."""
    script = """width => [...document.querySelectorAll("main *")].filter(it => it.getBoundingClientRect().right > width
        && !it.closest(".scrolls, pre")).slice(0, 3).map(it => it.outerHTML.slice(0, 120))"""
    return page.evaluate(script, width)


@pytest.mark.parametrize("path", ["notebooks/06_multi_query.html", "real_bugs.html"])
def test_what_scrolls_is_reached_by_keyboard_after_the_window_grew(open_page, path):
    page, _ = open_page(path)
    for width in (1400, 360, 1400):
        resize(page, width)
    page.wait_for_timeout(500)  # the theme moves its sidebar in
    script = """[...document.querySelectorAll(".scrolls")].filter(it => it.scrollWidth > it.clientWidth)
        .map(it => it.tabIndex)"""
    found = page.evaluate(script)
    assert found and set(found) == {0}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", ["index.html", "notebooks/04_reshape_and_transpose.html", "glossary.html"])
def test_it_works_from_a_file(open_page, path):
    page, complaints = open_page(path, at=HTML.as_uri() + "/")
    assert page.locator("article h1").is_visible()
    assert not complaints.found


def test_formulas_are_set(open_page):
    page, _ = open_page("glossary.html")
    page.wait_for_selector("mjx-container")
    assert page.locator("mjx-container").count() >= 10 and not page.locator("mjx-merror").count()
    assert page.locator("mjx-container[display=true]").first.bounding_box()["height"] > 20
    assert "\\frac" not in page.locator("main").inner_text()


def test_a_picture_in_the_dark_has_no_frame_and_its_caption_stands_below_it_as_plain_as_text(open_page):
    for path in ("notebooks/04_reshape_and_transpose.html", "mistakes/mask-discarded.html"):
        page, _ = open_page(path, theme="dark")
        looks = page.evaluate(
            """() => [...document.querySelectorAll("article :not(.still) > figure")].map(it => [
                getComputedStyle(it.querySelector("img")).padding, getComputedStyle(it.querySelector("img")).filter,
                getComputedStyle(it.querySelector("figcaption")).fontWeight,
                getComputedStyle(it.querySelector("figcaption")).color == getComputedStyle(document.body).color,
                it.querySelector("figcaption").getBoundingClientRect().left == it.getBoundingClientRect().left])"""
        )
        assert looks and set(map(tuple, looks)) == {("0px", "none", "400", True, True)}, path


def test_the_steps_of_a_picture_open_with_the_keyboard(open_page):
    page, _ = open_page("notebooks/04_reshape_and_transpose.html")
    steps = page.locator(":not(.still) > figure details")  # a figure that moves keeps its still picture out of sight
    steps.locator("summary").first.focus()
    picture = steps.locator("img").first
    assert not picture.is_visible()
    page.keyboard.press("Enter")
    picture.wait_for(state="visible")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('figure details summary, .scrolls')")


@pytest.mark.parametrize(("path", "what"), [("notebooks/04_reshape_and_transpose.html", "img")])
def test_what_is_wider_than_a_phone_says_so_and_scrolls_with_the_keyboard(open_page, path, what):
    page, _ = open_page(path, width=390)
    # Pictures of memory stay one row and scroll; the others fold. The first that scrolls is kept by its number, because
    # it has no tabindex any more once there is room.
    page.wait_for_selector(f"article .edges:has({what}) .scrolls[tabindex='0']")
    scrolls = f"it => it.matches(':has({what})') && it.querySelector('.scrolls[tabindex]')"
    number = page.evaluate(f"[...document.querySelectorAll('article .edges')].findIndex({scrolls})")
    edges = page.locator("article .edges").nth(number)
    box = edges.locator(".scrolls")
    assert box.get_attribute("role") == "region"
    assert re.fullmatch(r"(Picture|Table) \d+, wider than the screen", box.get_attribute("aria-label"))
    assert shades(edges) == (False, True)
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.parentElement.matches('.more-left')", arg=box.element_handle())
    assert shades(edges) == (True, True)
    box.evaluate("box => box.scrollLeft = box.scrollWidth")
    page.wait_for_function("box => !box.parentElement.matches('.more-right')", arg=box.element_handle())
    assert shades(edges) == (True, False)
    page.set_viewport_size({"width": 1400, "height": 900})
    page.wait_for_function("box => !box.hasAttribute('tabindex')", arg=box.element_handle())
    assert shades(edges) == (False, False) and box.get_attribute("role") is None


def test_a_menu_opens_by_a_click_and_closes_with_escape_a_click_beside_it_and_when_the_focus_leaves(open_page):
    page, complaints = open_page("notebooks/05_weight_split.html")
    button = page.get_by_role("button", name="Launch interactive content")
    item = page.locator(".dropdown-launch-buttons a", has_text="Colab")
    button.focus()
    page.mouse.move(5, 600)  # the theme opens a menu while the mouse is over it
    for leave in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.mouse.click(5, 600),
        page.locator(".places a").first.focus,
    ):
        page.keyboard.press("Enter")
        item.wait_for(state="visible")
        assert button.get_attribute("aria-expanded") == "true"
        page.keyboard.press("Tab")
        leave()
        item.wait_for(state="hidden")
        assert button.get_attribute("aria-expanded") == "false"
        button.focus()
    assert not complaints.found


def test_names_in_a_table_stay_whole_on_a_phone(open_page):
    script = """() => [...document.querySelectorAll("article td code")].filter(it => /^[\\w.=]+$/.test(it.innerText)
        && it.getClientRects().length > 1).map(it => it.innerText)"""
    for path in ("glossary.html", "exercises.html", "doctor.html", "grade.html"):
        page, _ = open_page(path, width=390)
        assert not page.evaluate(script), path


def test_comments_of_code_are_quieter_than_code_in_both_themes(open_page):
    script = """() => ["c1", "n"].map(it => getComputedStyle(document.querySelector(`.highlight .${it}`)).color)"""
    for theme in ("light", "dark"):
        page, _ = open_page("notebooks/05_weight_split.html", theme=theme)
        comment, code, ground = (*page.evaluate(script), page.evaluate(GROUND))
        comment, code, ground = ("#" + "".join(f"{int(part):02X}" for part in re.findall(r"\d+", color)[:3])
                                 for color in (comment, code, ground))  # fmt: skip
        assert 4.5 <= contrast(comment, ground) < 0.8 * contrast(code, ground)


GROUND = "getComputedStyle(document.querySelector('div.cell:not(.tag_hide-input) div.cell_input')).backgroundColor"


def test_the_front_page_shows_itself_without_scripts(browser, home):
    with browser.new_context(java_script_enabled=False, viewport={"width": 1400, "height": 900}) as profile:
        page = profile.new_page()
        page.goto(home + "index.html")
        assert page.locator("article h1").is_visible() and page.locator("article figure.hero iframe").is_visible()
        assert page.locator("header svg.icon, .bd-header-article svg.icon").count() > 3


@pytest.mark.parametrize("path", ["notebooks/04_reshape_and_transpose.html", "notebooks/exercises/04_exercises.html"])
def test_the_map_says_where_one_is(open_page, path):
    page, _ = open_page(path)
    lessons = page.get_by_role("navigation", name="Lessons of the course").get_by_role("link")
    assert lessons.count() == 18
    here = page.locator(".course-map [aria-current]")
    assert here.count() == 1 and here.get_attribute("aria-label") == "04 Reshape and transpose"


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_picture_has_the_colours_of_its_page_whatever_the_system_prefers(browser, home, system):
    with browser.new_context(color_scheme=system, viewport={"width": 1400, "height": 900}) as profile:
        page, colors = profile.new_page(), {}
        page.goto(home + "notebooks/04_reshape_and_transpose.html")
        for theme in ("light", "dark"):
            page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
            colors[theme] = color_at(page.locator("article :not(.still) > figure img").first, 60, 12)
        assert colors == {"light": [255, 255, 255], "dark": list(bytes.fromhex(NIGHT[1:]))}


def shades(edges):
    """Whether a shade is drawn at the left and at the right."""
    script = """it => ["::before", "::after"].map(end => getComputedStyle(it, end).backgroundImage != "none")"""
    return tuple(edges.evaluate(script))


def test_it_prints(open_page):
    page, _ = open_page("notebooks/05_weight_split.html")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1047})  # A4 without its margins, at 96 dots an inch
    assert not page.locator(".bd-sidebar-primary").is_visible()
    sticking = page.evaluate(
        """[...document.querySelectorAll("article img, article pre, article table")].filter(it => it.offsetParent
            && (it.getBoundingClientRect().right > 719 || it.scrollWidth > it.clientWidth + 1))
            .map(it => it.outerHTML.slice(0, 100))"""
    )
    assert not sticking
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) >= 5


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", ["doctor.html", "index.html", "notebooks/04_reshape_and_transpose.html"])
def test_it_prints_dark_on_white_whatever_the_theme(open_page, path):
    page, _ = open_page(path, theme="dark")
    page.evaluate("addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    page.pdf()
    assert page.evaluate("[printed, document.documentElement.dataset.theme]") == ["light", "dark"]
    page.emulate_media(media="print")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    colors = page.evaluate(PRINTED)
    assert len(colors) > 3 and [color for color in colors if contrast(color, "#FFFFFF") < 4.5] == []
    page.emulate_media(media="screen")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")


# The colours of all texts: backgrounds are seldom printed.
PRINTED = """() => {
    const colors = new Set(), article = document.querySelector("article");
    const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (texts.currentNode.data.trim() && element.checkVisibility()) colors.add(getComputedStyle(element).color);
    }
    const two = part => (+part).toString(16).padStart(2, "0");
    return [...colors].map(color => "#" + color.match(/[0-9]+/g).slice(0, 3).map(two).join(""));
}"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("theme", "width"), LOOKS)
@pytest.mark.parametrize("path", ["notebooks/05_weight_split.html", "search.html"])
def test_whatever_has_the_focus_shows_it(open_page, path, theme, width):
    page, _ = open_page(path, theme=theme, width=width)
    page.keyboard.press("Tab")  # from then on a browser shows what has the focus
    reached, unseen = page.evaluate(UNSEEN)
    assert reached > 6 and unseen == []


UNSEEN = """() => {
    const all = [...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")].filter(it =>
        it.checkVisibility({visibilityProperty: true}) && it.getBoundingClientRect().width);
    const looks = it => [it, it.parentElement, ...it.querySelectorAll("*")].map(one => {
        const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(one);
        return [outlineStyle === "none" ? "0px" : outlineWidth, boxShadow].join();
    }).join();
    const unseen = all.filter(it => {
        document.activeElement.blur();
        const before = looks(it);
        it.focus({preventScroll: true});
        return looks(it) === before;
    });
    return [all.length, unseen.map(it => it.outerHTML.slice(0, 120))];
}"""


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (820, 1180), (390, 844)])
def test_the_front_page_says_above_the_fold_what_it_is_and_where_to_begin(open_page, width, height):
    page, _ = open_page("index.html", width=width)
    page.set_viewport_size({"width": width, "height": height})
    for element in (
        page.get_by_text("Attention, from one head to multi-query: a course"),
        page.locator("a.button.first"),
    ):
        box = element.bounding_box()
        assert box["y"] + box["height"] < height
    frame = page.locator("figure.hero iframe")
    frame.scroll_into_view_if_needed()
    last = page.frame_locator("figure.hero iframe").locator(".memory .cell").last
    last.wait_for()
    cell, shown = last.bounding_box(), frame.bounding_box()
    assert cell["y"] + cell["height"] < shown["y"] + shown["height"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.parametrize("path", ["index.html", "doctor.html", "glossary.html"])
def test_no_word_of_a_neighbour_s_title_is_broken(open_page, path, width):
    page, _ = open_page(path, width=width)
    assert page.locator(".prev-next-title").count() and page.evaluate(BROKEN) == []


BROKEN = """() => {
    const broken = [], range = document.createRange();
    for (const title of document.querySelectorAll(".prev-next-title")) {
        const texts = document.createTreeWalker(title, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/[a-z]+/gi)) {
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                if (range.getClientRects().length > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_marked_line_is_marked_to_its_end(open_page, theme):
    page, _ = open_page("mistakes/mask-discarded.html", theme=theme, width=390)
    code = page.locator("pre:has(.hll)").first
    marks = []
    for scrolled, x in (("0", 18), ("box.scrollWidth", 353)):  # its first letter, and the edge of the box
        code.evaluate(f"box => box.scrollLeft = {scrolled}")
        y = code.locator(".hll").bounding_box()["y"] - code.bounding_box()["y"]
        marks.append(color_at(code, x, round(y + 2)))
    assert marks[0] == marks[1]


def test_the_list_of_recordings_shows_each_in_the_colours_of_the_page(open_page):
    for theme, color in (("light", [255, 255, 255]), ("dark", list(bytes.fromhex(NIGHT[1:])))):
        page, _ = open_page("recordings.html", theme=theme)
        pictures = page.locator("ul.recordings img")
        words = pictures.evaluate_all("all => all.map(it => it.alt)")
        assert len(set(words)) == len(words) == 9
        assert color_at(pictures.first, 8, 8) == color


def test_launch_and_download_buttons_lead_to_this_notebook(open_page, home):
    page, _ = open_page("notebooks/exercises/01_exercises.html")
    links = page.evaluate("[...document.querySelectorAll('header a, .article-header-buttons a')].map(it => it.href)")
    mine = [it for it in links if it.endswith("notebooks/exercises/01_exercises.ipynb")]
    assert any(it.startswith("https://colab.research.google.com/github/") for it in mine)
    assert any(it.startswith("https://mybinder.org/v2/gh/") for it in mine)
    download = next(it for it in mine if it.startswith(home))
    notebook = json.loads(page.request.get(download).body())
    assert "setup" in notebook["cells"][1]["metadata"]["tags"]


def test_the_checks_can_fail(browser, tmp_path):
    bad = """<!doctype html><html lang="en"><title>Bad</title><main><h1>Bad</h1><img src="gone.png">
      <p style="width: 900px; color: #ccc; background: #fff">pale and wide</p>
      <script src="http://127.0.0.1:9/other.js"></script><script>missing()</script></main></html>"""
    (tmp_path / "bad.html").write_text(bad, encoding="utf-8")
    with served(tmp_path) as home, browser.new_context(viewport={"width": 360, "height": 700}) as context:
        page, complaints = context.new_page(), Complaints(home)
        complaints.watch(page)
        page.goto(home + "bad.html")
        assert {rule for rule, _, _ in violations(page)} >= {"image-alt", "color-contrast"}
        assert page.evaluate("document.documentElement.scrollWidth") > 360 and widest(page, 360)
    said = "\n".join(complaints.found)
    for part in ("404: ", "leaves the site: http://127.0.0.1:9/other.js", "error: missing is not defined"):
        assert part in said


@pytest.mark.parametrize("lesson", ["02_masks_and_dropout", "09_llama", "15_debugging_attention", "17_capstone"])
def test_no_line_of_a_lesson_is_cut_off_on_a_laptop(browser, home, lesson):
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{home}notebooks/{lesson}.html")
        page.evaluate("document.querySelectorAll('.bd-article details').forEach(one => one.open = true)")
        boxes = page.locator(":is(.cell_input, .cell_output, .bd-article details) .highlight").filter(visible=True)
        scrolls = "one => [one, ...one.querySelectorAll('pre')].some(box => box.scrollWidth > box.clientWidth + 1)"
        cut = boxes.evaluate_all(f"all => all.filter({scrolls}).map(one => one.innerText)")
        assert boxes.count() > 30 and not cut, cut
