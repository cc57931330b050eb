"""A text stays that text wherever the library puts it into HTML, whatever its letters mean there."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from course_lib.diagnosis import Finding, Report
from course_lib.exercises.lesson_progress import Progress
from course_lib.exercises.overview import Overview
from course_lib.exercises.review import Review
from course_lib.exercises.verdict import not_passed
from course_lib.markup import backticks_to_code
from course_lib.pictures import Picture
from course_lib.recorder import name, record
from course_lib.recording_page import page_of
from course_lib.scan import Outcome, ScanReport
from course_lib.scan.compare import Submodule

TEXT = """<bos> & 'one' "two" x="y" &lt;b></script></title><b>"""


def picture(steps=()):
    return Picture(svg="<svg/>", description=TEXT, caption=TEXT, steps=steps)


def recording():
    """One step, whose name is the text, and an error that says it."""

    def run(x):
        name(x + 1, TEXT)
        raise ValueError(TEXT)

    with pytest.raises(ValueError) as error:
        record(run, torch.zeros(2))
    return error.value.recording


EXERCISE: Any = SimpleNamespace(lesson="01", title=TEXT, name=TEXT)
WRONG = Outcome("", "wrong", TEXT, submodule=Submodule("", "", TEXT), finding=Finding(None, "", None, TEXT))
# What makes the HTML, and how often the text stands in it.
PAGES = {
    "a sentence": (lambda: backticks_to_code(TEXT), 1),
    "code in a sentence": (lambda: backticks_to_code(f"`{TEXT}`, {TEXT}"), 2),
    "a picture": (lambda: picture([picture()])._repr_html_(), 4),
    "a report": (lambda: Report(TEXT, (Finding(None, *4 * [TEXT]),), (TEXT,), (TEXT,))._repr_html_(), 7),
    "a report of a mistake": (lambda: Report("", (Finding(TEXT, "", draw=picture),), (), ())._repr_html_(), 3),
    "a scan": (lambda: ScanReport(TEXT, (Outcome(TEXT, "agrees", TEXT),), note=TEXT)._repr_html_(), 4),
    "a scan with a mistake": (lambda: ScanReport("", (WRONG,))._repr_html_(), 4),
    "a verdict": (lambda: not_passed(TEXT, evidence=(TEXT,), where=TEXT, hint=TEXT).of(TEXT, "01")._repr_html_(), 5),
    "a review": (lambda: Review([TEXT, TEXT], False)._repr_html_(), 2),
    "the progress in a lesson": (
        lambda: Progress([(SimpleNamespace(lesson="", title=TEXT, name=TEXT), "")], TEXT)._repr_html_(),
        3,
    ),
    "the progress in all lessons": (lambda: Overview([], {}, TEXT)._repr_html_(), 1),
    "a recording": (lambda: recording()._repr_html_(), 3),
    "the page of a recording": (lambda: page_of(recording(), title=TEXT, words=[TEXT, "b"]), 10),
}


class Reader(HTMLParser):
    """What a browser shows and knows: texts, values of attributes, and what it takes for markup."""

    def __init__(self, page):
        super().__init__()
        self.said, self.markup = "", set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.markup |= {tag, *(name for name, _ in attributes)}
        self.said += "".join(f"\n{value}\n" for _, value in attributes)

    def handle_data(self, data):
        self.said += data


@pytest.mark.parametrize("page", PAGES)
def test_a_text_is_no_markup(page):
    make, times = PAGES[page]
    reader = Reader(make())
    assert reader.said.replace("\N{NO-BREAK SPACE}", " ").count(TEXT) == times
    assert not [name for name in reader.markup if name in ("bos", "b", "x") or not re.fullmatch("[a-z-]+[0-9]?", name)]
