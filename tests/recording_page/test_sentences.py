"""What a page says: where the code raised, and what a step reads by the name in its line."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.recorder import record
from course_lib.recording_page import page_of
from course_lib.recording_page.page import RULE
from course_lib.recording_page.sentences import of_stage
from course_lib.recording_page.story import story_of

from .paths import table_of


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
    line = f"{Path(__file__).name}:{marked[0][0]}"
    assert f"line {line}, <code>return values @ values  # fails</code>, raised RuntimeError" in html


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
    q, k, v = (tensor.unflatten(-1, (2, 3)) for tensor in (q, k, v))
    scores = torch.einsum("bqhd, bkhd -> bhqk", q, k)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def test_the_axes_of_einsum_are_those_of_its_letters():
    html = page_of(record(by_einsum, torch.randn(2, 5, 6)))
    assert "(2, 2, 5, 5) (batch, head, query, key)" in html and "mixed" not in html
    assert "(2, 5, 2, 3) (batch, token, head, feature)" in html


def read_by(code, x, **more):
    """Return what each step of some code reads, as the page says it."""
    html = page_of(record(code, x, **more))
    return [
        re.sub("</?code>", "`", said)
        for said in re.findall(r"</code> reads (.*?) and (?:gives|writes)|</code> makes", html)
    ]


def other_names(x):
    other = x
    double = other * x.sum(0)
    x = double.view_as(other)
    return torch.relu(x), x.mean(1), other - double, x - double.clone()


def test_a_name_of_the_line_is_said_of_the_tensor_that_has_it():
    assert read_by(other_names, torch.ones(2, 3)) == [
        "`x`",
        "`other` (the tensor `x`) and `.sum(0)`",
        "`double`, and no number of `x`,",
        "`x`",
        "`x`",
        "`other` (the tensor `x`) and `double`",
        "`double`",
        "`x` and `.clone()`",
    ]


def in_place(x):
    total = x * 0
    total += x.abs() * 2
    total *= x.exp().neg()
    return total


def test_what_is_added_in_place_has_not_the_name_of_the_sum():
    assert read_by(in_place, torch.ones(2, 3))[1:] == [
        "`x`",
        "`.abs()`",
        "`total` and `x.abs() * 2`",
        "`x`",
        "`.exp()`",
        "`total` and `.neg()`",
    ]


def test_an_inner_step_of_a_module_reads_no_name_of_the_line():
    layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(x):
        y = x
        return layers(y)

    assert read_by(forward, torch.ones(2, 3))[0].startswith("`y` (the tensor `x`), ")
    assert read_by(forward, torch.ones(2, 3))[1] == "`linear`"


def test_joined_axes_are_named_and_explained():
    html = page_of(record(lambda x: x.reshape(-1, 4) + 1, torch.ones(2, 3, 4)))
    assert "(6, 4) (batch and token, feature)" in html and "mixed" not in html.split("<div id=stage>")[1]
    assert "each place along it is one token of one batch." in html


def test_a_failed_run_has_no_unread_results_where_the_failing_call_read_them(html):
    assert "Nothing reads" not in html and "The call that raised the error read it." in html


def test_a_failed_run_says_that_it_ended_before_a_result_was_read():
    def forward(x):
        y = x + 1
        raise KeyError(y.shape)

    with pytest.raises(KeyError) as raised:
        record(forward, torch.ones(2))
    assert "No step reads the result before the error ends the run." in page_of(raised.value.recording)


def masked(x):
    scores = x @ x.T + torch.full((2, 2), -torch.inf).triu(1)
    return scores.softmax(-1) @ x, scores.max(-1).values


def test_a_step_whose_rule_leaves_numbers_out_says_so():
    html = page_of(record(masked, torch.rand(2, 2) + 1))
    assert html.count("the score is no source") == html.count("A weight of exactly 0 comes from its own score") == 1
    assert html.count("Where a factor is 0") == html.count("A number comes from the one that was selected,") == 1
    html = page_of(record(lambda x: x.index_add(0, torch.tensor([0]), torch.ones(1, 2)), torch.ones(2, 2)))
    assert "Each index that could have named the place of a number counts as one of its sources." in html
    plain = page_of(record(lambda x: (x @ x.T).softmax(-1) @ x, torch.rand(2, 2) + 1))
    assert not re.search("is no source|of exactly 0|factor is 0|was selected,", plain.split("<div id=stage>")[1])


def test_what_only_takes_a_shape_reads_no_number():
    assert read_by(lambda x: (x.new_full((2,), 0.5), torch.zeros_like(x)), torch.ones(2)) == ["no number of `x`"] * 2


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 3))

    def forward(self, x):
        self.cache[1] = x[0]
        parts = {"a": torch.zeros(3), "b": x.clone()}
        parts["a"][:2] = x[1, 1:]
        parts["b"][0] *= 2
        row = x[1]
        row[0] = 1.0
        row[1:].add_(2)
        return self.cache + parts["a"] + parts["b"] + row


def written_by(code, x):
    html = page_of(record(code, x))
    return [re.sub("</?code>", "`", said) for said in re.findall(r"writes into <code>(.*?)</code>\.", html)]


def test_a_step_that_writes_says_into_what():
    assert written_by(Kept(), torch.ones(2, 3)) == [
        "cache",
        "parts[&quot;a&quot;]",
        "[0]",  # of what the line calls parts["b"]
        "parts[&quot;b&quot;]",
        "row",
        "row[1:]",
    ]


def test_what_was_written_into_keeps_its_name():
    with torch.no_grad():
        recording = record(Kept(), torch.ones(2, 3))
    assert recording["cache"].op == recording["row"].op == "setitem" and recording["row"].code == "row[0] = 1.0"
    assert "`cache` (as step 1 left it)" in read_by(Kept(), torch.ones(2, 3))[-3]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda x, y: x.type_as(y), "`type_as` reads `x`, and no number of `y`, and gives"),
        (lambda x, y: x.type_as(y), "Nothing changes: the result is the tensor that went in."),
        (lambda x, y: x.view_as(y), "This is a view: no number moves"),
        (lambda x, y: x.view(torch.int32), "This is a view: no number moves"),
    ],
)
def test_a_tensor_that_only_gives_shape_or_type_is_not_said_to_be_read(run, words):
    assert words in of_stage(story_of(record(run, torch.ones(2), torch.ones(2, 1))).stages[-1])


def with_biased_keys(x, bias):
    return (x @ (x + bias).mT).softmax(-1)


def test_a_page_says_that_effects_may_cancel_along_several_steps():
    x, bias = torch.randn(3, 2), torch.randn(2)
    recording = record(with_biased_keys, x, bias)
    torch.testing.assert_close(with_biased_keys(x, bias), with_biased_keys(x, bias + 1))
    assert table_of(story_of(recording), "bias") == [[0, 1]] * 9
    assert "Within one step, a number comes from another one if a change of that one alone can change it" in RULE
    assert "a number whose effects cancel is still marked, such as a bias of the keys" in RULE


@pytest.mark.slow
def test_many_writes_have_a_name():
    def counted(x):
        held = [torch.zeros(2)]
        for i in range(1500):
            held[0][i % 2] = x[0]
        return held[0]

    assert record(counted, torch.ones(2)).steps[-1].title == "held[0]"


def test_what_was_written_into_has_its_name_and_the_step_that_wrote():
    def fill(x):
        keys = torch.zeros(2, 3)
        keys[1] = x[1] * 2
        return keys[1] + keys[0]

    names = read_by(fill, torch.randn(2, 3))
    assert [name for name in names if "left it" in name] == ["`keys` (as step 3 left it)"] * 2
