"""A number is shown as it was at its step, and so are its sources, whatever the run wrote into its memory later."""

import re

import pytest
import torch
from torch.nn import functional as F

from course_lib.recorder import record, snapshots
from course_lib.recording_page import page_of
from course_lib.recording_page.story import story_of

from .paths import table_of


def scratch(x, y):
    held = torch.zeros(2)
    held.copy_(x)
    first = held * y
    held.zero_()
    return first


def product(x, y):
    held = x.clone()
    result = held @ y[:, None]
    held.zero_()
    return result


def mask(x, y):
    keep = torch.tensor([True, False])
    result = torch.where(keep, x, y)
    keep.fill_(True)
    return result


def index(x, y):
    place = torch.tensor([1, 0])
    result = x[place] + y
    place[0] = 0
    return result


def into(x, y):
    place = torch.tensor([1, 0])
    result = x.scatter(0, place, y)
    place.zero_()
    return result


def fused(x, y):
    hide = torch.tensor([[0.0, 0.0], [0.0, -torch.inf]])
    result = F.scaled_dot_product_attention(x[:, None], x[:, None], y[:, None], hide)
    hide[0, 1], hide[1, 0] = -torch.inf, -torch.inf
    return result


def out(x, y):
    total = torch.ones(2)
    torch.mul(x, y, out=total)
    later = total.sum()[None]
    torch.zeros(2, out=total)
    return later


def weights(x, y):
    found = (x * torch.tensor([1.0, 2.0])).softmax(-1)
    result = found * y
    found.zero_()
    return result


CASES = {
    scratch: ([[0], [1]], [[0], [1]]),
    product: ([[0, 1]], [[0, 1]]),
    mask: ([[0], []], [[], [1]]),
    index: ([[1], [0]], [[0], [1]]),
    into: ([[], []], [[1], [0]]),
    fused: ([[0, 1], []], [[0, 1], [0]]),
    out: ([[0, 1]], [[0, 1]]),
    weights: ([[0, 1], [0, 1]], [[0], [1]]),
}


def told(code):
    recording = record(code, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    story = story_of(recording)
    last = next(stage for stage in story.stages[::-1] if stage.step.tensor is recording.output)
    return [table_of(story, name, last.result) for name in "xy"]


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.__name__)
def test_what_was_written_later_changes_no_path(code):
    assert told(code) == list(CASES[code])


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.__name__)
def test_without_copies_no_source_is_missing(monkeypatch, code):
    monkeypatch.setattr(snapshots, "MOST_BYTES", 0)
    for found, expected in zip(told(code), CASES[code], strict=True):
        assert all(set(some) <= set(all_) for some, all_ in zip(expected, found, strict=True))


def twice(x):
    total = x + 0
    total += 1
    view = total[1:]
    view *= 10
    return total


def test_a_number_is_shown_as_it_was_at_its_step():
    story = story_of(record(twice, torch.tensor([1.0, 2.0])))
    assert [stage.result.texts for stage in story.stages] == [["1", "2"], ["2", "3"], ["3"], ["30"]]
    assert "later wrote" not in page_of(record(twice, torch.tensor([1.0, 2.0])))


def test_large_memory_is_not_copied_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(snapshots, "MOST_BYTES", 4)
    html = page_of(record(twice, torch.tensor([1.0, 2.0])))
    assert re.findall(r"Step (\d) later wrote into this memory: the numbers shown are those after", html) == ["3"] * 3


def test_a_leaf_is_shown_as_it_was_when_it_was_read():
    held = torch.zeros(2)

    def step(x):
        first = held + x
        held.copy_(x)
        return first

    story = story_of(record(step, torch.ones(2)))
    assert {leaf.title: leaf.texts for leaf in story.leaves}["tensor from outside"] == ["0", "0"]
