"""A student's page says all that was found, keeps a stranger's words harmless, and has a file of its own."""

import re
import unicodedata
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from course_grader import Release
from course_grader.manifest import ReleasedExercise
from course_grader.marks import file_stem
from course_grader.reports import feedback_page
from course_grader.reports.rendering import MAX_TEXT, visible
from course_lib.exercises import NEEDS_REVIEW, Verdict, not_passed, not_written, passed
from tests.grader.synthetic_class import student_result

RELEASE = Release(
    "week1",
    "0.1.0",
    "abc1234",
    (
        ReleasedExercise("causal_mask", "02", "The causal mask", 1),
        ReleasedExercise("split_heads", "04", "Cut the heads", 2),
        ReleasedExercise("merge_heads", "04", "Put the heads back", 2),
        ReleasedExercise("to_split", "05", "From the wrapper", 3),
    ),
)
VERDICTS = (
    passed("All inputs agree.", ("Seen: `1e-9` at most.",)),
    not_passed(
        "Tokens are mixed.",
        "mask-discarded",
        evidence=("Output 0 moved by 0.31.",),
        where="line 12 of the cell of `causal_mask`: `x = y`",
    ),
    not_written(),
    Verdict(NEEDS_REVIEW, "It asks for the course's files."),
)
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "footer",
    "section",
    "h1",
    "h2",
    "p",
    "span",
    "strong",
}
TAGS |= {"code", "bdi", "ul", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "a"}


def student(name="Jane Doe", verdicts=VERDICTS, **more):
    return student_result(name, verdicts, RELEASE, **{"submitted_at": "2026-11-02T23:10:00+01:00", **more})


class Reader(HTMLParser):
    """Collects the tags, the attributes and the words of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        if tag == "dt":
            self.words.append(" ")

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def test_it_says_all_that_was_found():
    page = feedback_page(student(late=True, remarks=("A cell was left out: `causal_mask`.",)), RELEASE)
    text = Reader(page).text
    for said in (
        "Feedback on week1 for Jane Doe",
        "1 of 8 points",
        "2026-11-02 23:10 UTC+01:00",
        "no, it came late",
        "version 0.1.0",
        "A cell was left out: causal_mask.",
        "✓ passed, 1 of 1 points.",
        "✗ not passed yet, 0 of 2 points. Tokens are mixed. Output 0 moved by 0.31.",
        "mask-discarded: The mask is computed and then thrown away.",
        "Where line 12 of the cell of causal_mask: x = y",
        "Ask yourself Which line makes the masked scores, and which line reads them?",
        "Read again lesson 02",
        "… not written yet",
        "? needs a teacher's look",
        "Your teacher will look at it. The points can still change.",
    ):
        assert said in text, said
    assert "<li>Seen: <code>1e-9</code> at most.</li>" in page
    assert text.count("Your teacher") == 1 and text.count("Read again") == 2


def test_its_bones_are_in_order():
    page = feedback_page(student(), RELEASE)
    reader = Reader(page)
    assert (
        page.startswith('<!doctype html>\n<html lang="en">') and "<title>week1: feedback for Jane Doe</title>" in page
    )
    assert reader.tags.count("h1") == reader.tags.count("main") == reader.tags.count("caption") == 1
    headings = [int(tag[1]) for tag in reader.tags if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in pairwise(headings))
    assert "script" not in reader.tags and not re.search(r"https?:|url\(", page)
    places = [value[1:] for name, value in reader.attributes if name == "href"]
    assert len(places) == 4 and set(places) <= {value for name, value in reader.attributes if name == "id"}


def test_without_a_time_and_without_a_name_for_the_mistake():
    odd = Verdict("not passed yet", "Wrong.", mistake="never-heard-of")
    text = Reader(feedback_page(student(verdicts=(odd,) * 4, submitted_at=None), RELEASE)).text
    assert "nothing that could be read" in text and "In time" not in text
    assert "This mistake is called never-heard-of Read again" in text
    assert "yesterday" in Reader(feedback_page(student(submitted_at="yesterday"), RELEASE)).text


@pytest.mark.parametrize(
    "words",
    [
        "</title><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "`<b>` `</code><script>`",
        "{{ 7 * 7 }} {% raw %}",
        "</style></p></main><iframe>",
        "<!-- <![CDATA[ &lt;b&gt;",
    ],
)
def test_a_strangers_words_stay_words(words):
    odd = Verdict("not passed yet", words, mistake=words, evidence=(words,), where=words, hint=words)
    page = feedback_page(student(words, (odd,) * 4, remarks=(words,), submitted_at=words), RELEASE)
    reader = Reader(page)
    assert set(reader.tags) <= TAGS
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name == "src"]
    assert reader.text.replace("`", "").count(" ".join(words.replace("`", "").split())) >= 24


def test_what_hides_or_turns_text_is_written_out():
    tricks = "a\u202eb\u2066c\u200fd\x00e\x1b[31mf\x7fg\udc80h\ufeffi"
    page = feedback_page(student(tricks, (not_passed(tricks, evidence=(f"`{tricks}`",)),) * 4), RELEASE)
    page.encode("utf-8")
    assert "a\\u202eb\\u2066c\\u200fd\\u0000e\\u001b[31mf\\u007fg\\udc80h\\ufeffi" in page
    hidden = {char for char in page if unicodedata.category(char) in ("Cc", "Cf", "Cs")}
    assert hidden == {"\n"}


def test_names_of_all_languages_are_left_alone():
    for name in ("Zoë Ångström", "李小龍", "محمد", "می‌خواهم", "O'Brien", "👩‍🔬"):
        assert visible(name) == name
    assert "O&#39;Brien" in feedback_page(student("O'Brien"), RELEASE)


def test_a_flood_is_cut():
    page = feedback_page(student(verdicts=(not_passed("x" * 50_000_000),) * 4), RELEASE)
    assert len(page) < 20_000 + 4 * MAX_TEXT and "(49,998,000 more characters)" in page


def test_file_names_are_safe_readable_and_of_one_student():
    names = [
        "Doe, Jane",
        "doe jane",
        "Doe_Jane",
        "../../etc/passwd",
        "CON",
        "李",
        "王",
        "",
        "a" * 300,
        "x\x00y",
        "\udc80",
    ]
    made = [file_stem(name) for name in names]
    assert made[0].startswith("doe-jane-") and file_stem("Ångström").startswith("angstrom-")
    assert len({name.lower() for name in made}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,56}", name) and len(name) < 60 for name in made)
    assert file_stem("Zoe\u0308") == file_stem("Zo\u00eb")
    assert file_stem.__doc__.count(file_stem("Doe, Jane")) == 1
