"""The only visible score of a row changes no number: its weight is 1. What could hide it does."""

import pytest
import torch

from course_lib.recorder import record
from course_lib.recording_page import page_of
from course_lib.recording_page.story import story_of

from .paths import table_of

X = torch.tensor([[1.0, 2.0], [0.5, -1.0]])
KEEP = torch.tensor([[True, False], [True, True]])
HIDING = torch.zeros(2, 2).masked_fill(~KEEP, -torch.inf)


def filled(x, mask):
    return (x @ x.mT).masked_fill(~mask, -torch.inf).softmax(-1)


def cast_and_shifted(x, mask):
    scores = torch.where(mask, x @ x.mT, -torch.inf).double()
    scores = scores.view(1, 2, 2)
    scores -= scores.amax(-1, keepdim=True)
    return torch.softmax(scores, dim=2)[0]


def set_in_place(x, mask):
    scores = x @ x.mT
    scores[~mask] = -torch.inf
    return scores.softmax(1)


def added(x, mask):
    return ((x @ x.mT) / 2 + mask).softmax(-1)


def added_from_truths(x, mask):
    return (x @ x.mT + (1 - mask.float()) * -1e9).softmax(-1)


CASES = {filled: KEEP, cast_and_shifted: KEEP, set_in_place: KEEP, added: HIDING, added_from_truths: KEEP}


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.__name__)
def test_a_lone_weight_comes_from_the_mask_of_its_row_alone(code):
    story = story_of(record(code, X, CASES[code]))
    assert table_of(story, "x") == [[], [], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert table_of(story, "mask") == [[0, 1], [1], [2, 3], [2, 3]]


def in_a_loop(x):
    scores = torch.full((2, 2), -torch.inf)
    for i in range(2):
        for j in range(i + 1):
            scores[i, j] = x[i] @ x[j]
    return scores.softmax(-1)


def one_key(x):
    return (x @ x[:1].mT).softmax(-1) * x


def by_index(x, place):
    return (x @ x.mT).index_fill(1, place, -torch.inf).softmax(-1)


def test_a_score_that_no_mask_hides_is_left_out_without_one():
    assert table_of(story_of(record(in_a_loop, X)), "x") == [[], [], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert table_of(story_of(record(one_key, X)), "x") == [[0], [1], [2], [3]]


def test_an_index_that_could_name_the_score_counts():
    story = story_of(record(by_index, X, torch.tensor([1])))
    assert table_of(story, "x") == [[]] * 4 and table_of(story, "place") == [[0]] * 4


def test_scores_that_differ_much_are_not_hidden():
    story = story_of(record(lambda x: x.softmax(-1), torch.tensor([[0.0, 500.0]])))
    assert table_of(story, "x") == [[0, 1], [0, 1]]


def test_the_page_says_so():
    html = page_of(record(filled, X, KEEP))
    assert html.count("The only score of a row that is not hidden has a weight of 1 whatever it is") == 1
    assert "not hidden has a weight" not in page_of(record(filled, X, torch.ones(2, 2, dtype=torch.bool)))
