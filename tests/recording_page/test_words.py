"""What a page says: where the code raised, and what a step reads by the name in its line."""

import re

import pytest
import torch
from torch import nn

from course_lib.recorder import record
from course_lib.recording_page import page_of


class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.v_proj = nn.Linear(4, 6)

    def forward(self, x):
        source = x
        values = self.v_proj(source)
        return values @ values  # fails


@pytest.fixture(scope="module")
def html():
    with pytest.raises(RuntimeError) as raised:
        record(Projected(), torch.randn(2, 3, 4))
    return page_of(raised.value.recording)


def test_the_line_that_raised_is_marked_and_named(html):
    marked = re.findall(r"<span [^>]*class=failed><i>(\d+)</i>(.*)", html)
    assert [text.strip() for _, text in marked] == ["return values @ values  # fails  ✗ raised the error"]
    assert (
        f"line test_words.py:{marked[0][0]}, <code>return values @ values  # fails</code>, raised RuntimeError" in html
    )


def test_a_run_that_succeeds_marks_no_line():
    html = page_of(record(lambda x: x + 1, torch.ones(2, 3)))
    assert "class=failed" not in html and "raised" not in html


def test_an_input_has_the_name_in_the_line(html):
    assert "reads <code>source</code> (the tensor <code>x</code>), <code>v_proj.weight</code> and" in html


def test_tables_of_heads_have_the_heads_colour():
    html = page_of(record(lambda x: x.view(1, 3, 2, 2).transpose(1, 2), torch.randn(1, 3, 4)))
    assert html.count("style=--h:var(--head0)") == html.count("style=--h:var(--head1)") == 1


def by_einsum(x):
    q, k, v = (x * number for number in (1.0, 2.0, 3.0))
    q, k, v = (one.unflatten(-1, (2, 3)) for one in (q, k, v))
    scores = torch.einsum("bqhd, bkhd -> bhqk", q, k)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def test_the_axes_of_einsum_are_those_of_its_letters():
    html = page_of(record(by_einsum, torch.randn(2, 5, 6)))
    assert "(2, 2, 5, 5) (batch, head, query, key)" in html and "mixed" not in html
    assert "(2, 5, 2, 3) (batch, token, head, feature)" in html
