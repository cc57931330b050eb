"""A mask's cell is hatched where the code hides, whichever truth value does."""

import re

import pytest
import torch

from course_lib.recorder import record
from course_lib.recording_page import page_of

SCORES = torch.arange(4.0).view(2, 2)
LATER = torch.tensor([[False, True], [False, False]])


def filled(scores):
    return scores.masked_fill(LATER, -torch.inf)


def filled_where_not(scores):
    keep = LATER.logical_not()
    return scores.masked_fill_(~keep, -torch.inf)


def replaced(scores):
    return torch.where(LATER[None], -torch.inf, scores)


def kept(scores):
    return torch.where(~LATER, scores, torch.tensor(-1e9))


def kept_with_padding(scores):
    return scores.masked_fill(~(~LATER & torch.ones(2, 2, dtype=torch.bool)), -torch.inf)


def unread(scores):
    return scores, ~LATER


@pytest.mark.parametrize("code", [filled, filled_where_not, replaced, kept, kept_with_padding])
def test_what_is_hidden_is_hatched(code):
    page = page_of(record(code, SCORES.clone()))
    hatched = [place_of(table) for table in re.findall(r"<tbody>.*?</table>", page) if ">T" in table or ">F" in table]
    assert hatched and all(cells in ([1], []) for cells in hatched), hatched  # [] of a mask that hides nothing
    assert [1] in hatched


def test_a_mask_that_nobody_reads_is_true_where_it_shows():
    page = page_of(record(unread, SCORES.clone()))
    assert [1] in [place_of(table) for table in re.findall(r"<tbody>.*?</table>", page) if ">T" in table]


def place_of(table):
    return [i for i, cell in enumerate(re.findall(r"<td[^>]*>", table)) if "off" in cell]
