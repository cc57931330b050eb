"""A recording as a table, in a terminal and in a notebook."""

import re
from html.parser import HTMLParser

import pytest
import torch

from course_lib.recorder import record

X = torch.arange(24.0).view(1, 6, 4)


def forward(x):
    heads = x.view(1, 6, 2, 2).transpose(1, 2)
    heads < 3  # noqa: B015 - a result that nobody reads
    first, second = heads.chunk(2, dim=1)
    return (first @ second.mT).reshape(6, 6)


def test_the_columns_line_up():
    lines = str(record(forward, X)).splitlines()
    assert lines[0].split() == ["step", "operation", "result", "shape", "stride", "memory", "effect", "where", "code"]
    shape, code = lines[0].index("shape"), lines[0].index("code")
    for line in lines[1:8]:
        assert line[shape] == "(" and line[shape - 1] == " " and line[code - 1] == " "
    assert lines[2].split()[:3] == ["1", "transpose", "heads"]
    assert [line.split()[1:3] for line in lines[4:6]] == [["chunk", "1/2"], ["chunk", "2/2"]]
    assert "compute, never used" in lines[3]
    assert lines[-1] == "Step 2, heads < 3: its result is never used."


def test_long_code_is_cut_and_an_empty_table_says_so():
    recording = record(lambda x: torch.cat([x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x], dim=0), X)
    assert "..." in str(recording) and max(map(len, str(recording).splitlines())) < 200
    assert str(recording.unused()).endswith("No steps.")


def test_the_expanded_table_shows_what_ran_below():
    lines = str(record(lambda x: x.mT.reshape(24), X).expand()).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["0", "mT"], ["-", "transpose"], ["1", "reshape"], ["-", "clone"], ["-", "_unsafe_view"],
    ]  # fmt: skip
    assert "96 bytes" in lines[4]


@pytest.mark.parametrize("part", ["unused", "layout"])
def test_a_part_of_an_expanded_recording_is_expanded(part):
    recording = record(forward, X)
    expanded = str(getattr(recording, part)().expand())
    assert str(getattr(recording.expand(), part)()) == expanded != str(getattr(recording, part)())


def test_an_error_stands_below():
    with pytest.raises(RuntimeError) as caught:
        record(lambda x: (x * 2).view(7), X)
    assert "Then the code raised RuntimeError: shape '[7]'" in str(caught.value.recording)
    assert "<p>Then the code raised RuntimeError: shape &#x27;[7]&#x27;" in caught.value.recording._repr_html_()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.open = set(), []

    def handle_starttag(self, tag, attributes):
        self.seen.add((tag, tuple(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_html_is_well_formed_escaped_and_plain():
    html = record(forward, X)._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert {tag for tag, _ in tags.seen} == {"table", "thead", "tbody", "tr", "th", "td", "code", "p"}
    assert {attributes for tag, attributes in tags.seen if tag == "th"} == {(("scope", "col"),)}
    assert "<code>heads &lt; 3</code>" in html and "heads < 3" not in html
    assert "(1,\N{NO-BREAK SPACE}2,\N{NO-BREAK SPACE}6,\N{NO-BREAK SPACE}2)" in html
    assert len(re.findall("<tr>", html)) == 1 + len(record(forward, X))


def test_names_in_other_scripts_keep_the_columns_straight():
    def code(x):
        查询 = x + 1
        été = 查询 * 2  # an accent of its own, which Python joins to its letter
        return été

    lines = str(record(code, torch.ones(2))).splitlines()
    cells = [sum(2 if letter in "查询" else 1 for letter in line.partition("(2,)")[0]) for line in lines[1:]]
    assert len(cells) == 2 and len(set(cells)) == 1
