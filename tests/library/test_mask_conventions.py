"""The mask picture: both senses, and an effect that was measured."""

import pytest
import torch
from picture_checks import check_picture, texts_of

from course_lib.attention import causal_keep
from course_lib.pictures import mask_conventions

WORDS = ("Dream", "big", "and", "work", "hard")


def test_a_causal_mask_in_both_senses():
    picture = mask_conventions(causal_keep(5), WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    assert shown.count("T") == 15 + 10 and shown.count("F") == 10 + 15
    assert shown.count("✓") == 15
    assert "and looks at Dream, big, and;" in picture.words
    assert "puts 100% of its weight on hidden tokens, and 1 of 5 rows are nan" in picture.caption


def test_a_row_that_sees_nothing_is_said():
    keep = causal_keep(4)
    keep[:, 0] = False  # padding on the left
    picture = mask_conventions(keep, WORDS[:4])
    assert picture.words.startswith("Dream looks at nothing; big looks at big;")


def test_the_effect_of_a_mix_up_is_measured():
    everything = torch.ones(3, 3, dtype=torch.bool)
    assert "3 of 3 rows are nan" in mask_conventions(everything).caption
    diagonal = torch.eye(3, dtype=torch.bool)
    assert mask_conventions(diagonal).caption.endswith("puts 100% of its weight on hidden tokens.")


def test_it_leaves_the_random_numbers_alone():
    state = torch.get_rng_state()
    assert mask_conventions(causal_keep(4)).svg == mask_conventions(causal_keep(4)).svg
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("keep", "kind", "words"),
    [
        ([[True]], TypeError, "keep must be a bool tensor with True = may attend, got list"),
        (torch.ones(2, 2), TypeError, "got torch.float32"),
        (torch.ones(2, 3, dtype=torch.bool), ValueError, r"got \(2, 3\)"),
        (torch.ones(9, 9, dtype=torch.bool), ValueError, "8 at most"),
    ],
)
def test_what_is_no_mask_is_refused(keep, kind, words):
    with pytest.raises(kind, match=words):
        mask_conventions(keep)
