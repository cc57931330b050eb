"""The book's search leads from what readers type to the page that answers, and shows sentences."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest

from course_lib.mistakes import CATALOGUE

from .search_queries import QUERIES
from .site import HTML, violations

ROOT = Path(__file__).resolve().parents[2]
FURNITURE = re.compile(
    r"Light Dark|System Settings|Copy to clip|Contents|Back to top|Skip to|#$|Previous|By The ", re.MULTILINE
)
FOUND = (
    """all => all.map(one => Search._performSearch(...Search._parseQuery(one)).reverse().map(it => [it[0], it[3]]))"""
)


def searched(open_page, question):
    """The search page with all that it finds, excerpts as well."""
    page, complaints = open_page(f"search.html?q={quote(question)}")
    page.wait_for_function("document.querySelector('#search-results')?.innerText.includes('Search finished')")
    page.wait_for_load_state("networkidle")
    return page, complaints


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("question", "leads_to"),
    [
        ("GQA", {"glossary.html#term-GQA", "notebooks/06_multi_query.html"}),
        ("MQA", {"glossary.html#term-MQA", "notebooks/06_multi_query.html"}),
        ("MHA", {"glossary.html#term-MHA", "notebooks/03_wrapper.html", "notebooks/05_weight_split.html"}),
        ("kv-cache", {"glossary.html#term-KV-cache", "notebooks/06_multi_query.html"}),
        ("flash attention", {"glossary.html#term-FlashAttention", "notebooks/14_fast.html"}),
        ("my loss goes down too fast", {"mistakes/no-causal-mask.html", "mistakes/mask-discarded.html"}),
        ("loss too low", {"mistakes/no-causal-mask.html", "mistakes/mask-inverted.html"}),
        ("nan after softmax", {"mistakes/nan-on-hidden-rows.html"}),
        ("works with batch 1 only", {"mistakes/fixed-batch.html", "mistakes/batch-mixed.html"}),
        ("model sees the future", {"mistakes/no-causal-mask.html"}),
    ],
)
def test_search_finds_short_names_and_symptoms(open_page, question, leads_to):
    page, complaints = searched(open_page, question)
    found = page.evaluate("[...document.querySelectorAll('ul.search > li > a')].map(it => it.getAttribute('href'))")
    assert leads_to <= set(found[: len(leads_to) + 2])
    assert not complaints.found


def test_search_leads_from_all_that_is_noticed_to_its_cause(open_page):
    page, complaints = searched(open_page, "mask")
    for name, mistake in CATALOGUE.items():
        for notice, found in zip(mistake.notices, page.evaluate(FOUND, list(mistake.notices)), strict=True):
            assert [f"mistakes/{name}", notice[:-1].replace("`", "").lower()] in found[:10], notice
    assert not complaints.found


def test_it_leads_from_what_readers_type_to_one_of_the_pages_that_answer(open_page):
    page, _ = searched(open_page, "mask")
    missed = {}
    for (question, answers), found in zip(QUERIES.items(), page.evaluate(FOUND, list(QUERIES)), strict=True):
        first = list(dict.fromkeys(name for name, _ in found))[:3]
        if not {re.sub(r"^(\d\d)_.*", r"\1", name.split("/")[-1]) for name in first} & set(answers.split()):
            missed[question] = first
    assert not missed


def test_a_question_in_many_words_of_which_no_page_has_all_is_answered(open_page):
    page, _ = searched(open_page, "mask")
    questions = [
        "my shiny new kangaroo transformer has a padding mask that kills everything",
        "softmax zebra quagga okapi",
    ]
    assert all(len(found) > 2 for found in page.evaluate(FOUND, questions))
    assert page.evaluate(FOUND, ["kangaroo", "the", "?"]) == [[], [], []]


def test_other_names_are_those_of_pages_that_exist():
    names = tomllib.loads((ROOT / "book" / "search.toml").read_text(encoding="utf-8"))["names"]
    assert [page for page in names if not (HTML / f"{page}.html").exists()] == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("question", ["softmax", "GQA", "why view and then transpose", "install", "nan", "grade"])
def test_excerpts_are_sentences_of_the_article(open_page, question):
    page, complaints = searched(open_page, question)
    shown = page.locator("ul.search p.context").all_inner_texts()
    assert len(shown) >= min(4, page.locator("ul.search > li").count()) > 2 and all(shown)
    assert not [text for text in shown if FURNITURE.search(text)]
    article_end = re.compile(r"[.!?:)…”’✗✓\w]$")
    assert not [text for text in shown if not article_end.search(text) or text.startswith("...")]
    assert not complaints.found


@pytest.mark.parametrize("question", ["mask", "softmax", "cache", "head", "attention"])
def test_no_two_results_look_alike(open_page, question):
    page, _ = open_page("search.html?q=mask")
    found = page.evaluate(
        "one => Search._performSearch(...Search._parseQuery(one)).map(it => [it[1], it[3]])", question
    )
    seen = Counter(map(tuple, found))
    assert len(found) > 10 and not [word for word, times in seen.items() if times > 1]


def test_excerpts_are_read_when_their_results_come_near(open_page):
    page, complaints = searched(open_page, "softmax")
    count = "ul.search > li > p.context"
    first, all_results = page.locator(count).count(), page.locator("ul.search > li").count()
    assert 5 < first < all_results / 2
    page.locator("ul.search > li").last.scroll_into_view_if_needed()
    page.wait_for_function(f"document.querySelectorAll('{count}').length > {first}")
    assert not complaints.found


def test_the_excerpt_of_a_term_is_its_meaning(open_page):
    page, _ = searched(open_page, "softmax")
    assert "softmax: Turns each row of scores into weights" in page.locator("ul.search li").first.inner_text()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_no_letter_of_the_question_is_covered(open_page, width, theme):
    page, _ = open_page("search.html?q=transpose", theme=theme, width=width)
    assert page.locator("main .bd-search").evaluate(COVERED) <= 0
    page, _ = open_page("doctor.html", theme=theme, width=width)
    page.keyboard.press("Control+k")
    assert page.locator("dialog .bd-search").evaluate(COVERED) <= 0


COVERED = """form => {
    const icon = form.querySelector(".icon"), input = form.querySelector("input");
    const text = input.getBoundingClientRect().left + parseFloat(getComputedStyle(input).paddingLeft);
    return icon.getBoundingClientRect().right - text;
}"""


def test_words_are_marked_in_a_result_and_nowhere_else(open_page, home):
    page, complaints = searched(open_page, "transpose")
    page.goto(home + "teach.html")
    page.wait_for_timeout(100)  # the theme marks after 10 ms
    assert page.locator(".highlighted, .highlight-link").count() == 0
    page, _ = searched(open_page, "transpose")
    page.locator("ul.search a", has_text="Reshape and transpose").first.click()
    page.wait_for_selector("article .highlighted")
    page.goto(home + "teach.html")
    page.wait_for_timeout(100)
    assert page.locator(".highlighted, .highlight-link").count() == 0
    assert not complaints.found


def test_a_search_that_finds_nothing_says_what_to_try(open_page):
    said = {}
    for question in ("softmx", "kangaroo"):
        page, complaints = open_page(f"search.html?q={question}")
        page.get_by_role("status").get_by_text("Nothing was found.").wait_for()
        said[question] = page.get_by_role("status").inner_text()
        links = (
            page.get_by_role("status").get_by_role("link").evaluate_all("all => all.map(it => it.getAttribute('href'))")
        )
        assert links[-2:] == ["glossary.html", "mistakes/index.html"]
        assert not violations(page) and not complaints.found
    assert "Did you mean softmax? Or try fewer or other words" in said["softmx"]
    assert "Did you mean" not in said["kangaroo"]
    page, _ = open_page("search.html?q=softmx")
    page.get_by_role("link", name="softmax", exact=True).click()
    page.wait_for_selector("ul.search li")
