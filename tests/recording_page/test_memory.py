"""A number that was written through one view is found when it is read through another."""

import re

import pytest
import torch

from course_lib.recorder import record
from course_lib.recording_page import page_of
from course_lib.recording_page.story import story_of

from .paths import table_of


def copied_into_a_part(x):
    held = torch.zeros(4)
    part = held[1:]
    part.copy_(x)
    return held * 2


def added_to_a_row(x):
    held = torch.zeros(2, 3)
    held[0].add_(x)
    return held + 0


def added_to_a_named_row(x):
    held = torch.zeros(2, 3)
    row = held[1]
    row += x
    return held + 0


def set_within_a_row(x):
    held = torch.zeros(2, 2)
    row = held[0]
    row[1] = x[2]
    return held + 0


def set_in_a_flat_view(x):
    held = torch.zeros(2, 3)
    table = held.view(-1)
    table[1:4] = x
    return held.T * 2


def set_in_a_turned_view(x):
    held = torch.zeros(2, 3)
    held.T[0].add_(x[:2])
    held[0, 0].mul_(3)
    return held + 0


def read_through_a_view_made_before(x):
    held = torch.zeros(3)
    part = held[1:]
    held[:2] = x[1:]
    return part * 2


def read_through_a_view_of_another_view(x):
    held = torch.zeros(2, 3)
    row, column = held[0], held[:, 1]
    row.copy_(x)
    return column + 0


def written_twice(x):
    held = torch.zeros(3)
    part = held[:2]
    part.copy_(x[:2])
    held[1:] = x[:2]
    return part + held[1:]


def as_real_numbers(x):
    held = torch.zeros(2, dtype=torch.complex64)
    torch.view_as_real(held)[0].copy_(x[:2])
    return held * 1


CASES = {
    copied_into_a_part: [[], [0], [1], [2]],
    added_to_a_row: [[0], [1], [2], [], [], []],
    added_to_a_named_row: [[], [], [], [0], [1], [2]],
    set_within_a_row: [[], [2], [], []],
    set_in_a_flat_view: [[], [2], [0], [], [1], []],
    set_in_a_turned_view: [[0], [], [], [1], [], []],
    read_through_a_view_made_before: [[2], []],
    read_through_a_view_of_another_view: [[1], []],
    written_twice: [[0], [0, 1]],
}


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.__name__)
def test_a_write_through_a_view_is_found_by_whoever_reads_it(code):
    assert table_of(story_of(record(code, torch.tensor([1.0, 2.0, 3.0]))), "x") == CASES[code]


def test_a_write_into_half_a_number_is_found():
    assert table_of(story_of(record(as_real_numbers, torch.ones(3))), "x") == [[0, 1], []]


def test_the_step_that_wrote_is_named():
    html = page_of(record(copied_into_a_part, torch.ones(3)))
    (said,) = re.findall(r"<code>mul</code> reads (.*?) and gives", html)
    assert said == "<code>held</code> with what step 2 wrote into its memory"
