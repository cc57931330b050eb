"""A text whose words are coloured by the attention that they get."""

import pytest
import torch

from course_lib.pictures import draw_attended_words
from course_lib.pictures.style import weight_color

from .picture_checks import TYPE, VALUE, cells_of, check_picture

WORDS = ("In", "a", "valley", "lived", "Zoe", ".")
WEIGHTS = torch.tensor([0.02, 0.01, 0.04, 0.03, 0.70, 0.20])


def test_the_words_and_the_weights_are_said_and_drawn():
    picture = draw_attended_words(WORDS, WEIGHTS, title="Who?")
    assert picture.caption == "Most goes to “Zoe”: 0.70."
    assert picture.description == (
        "Who?: In a valley lived Zoe .\nAttention weights: “Zoe” 0.70, “.” 0.20; less to each other word."
    )
    assert picture.svg.count("0.70") == picture.svg.count("0.20") == 1 and "0.04" not in picture.svg
    assert [cells_of(picture.svg, weight_color(weight)) for weight in WEIGHTS.tolist()] == [1] * 6
    check_picture(picture)


def test_a_flat_row_still_names_a_word():
    picture = draw_attended_words(list("abcdefghijklmnopqrstuvwxyz"), torch.full((26,), 1 / 26))
    assert picture.caption == "Most goes to “a”: 0.04."


@pytest.mark.parametrize(
    ("words", "weights", "error", "said"),
    [
        (WORDS, WEIGHTS[None], VALUE, r"weights must be one row \(key\), got \(1, 6\)"),
        (WORDS[:5], WEIGHTS, VALUE, "words has 5 labels for 6 tokens"),
        (WORDS, 10 * WEIGHTS, VALUE, "weights has 0.10 to 7.00: attention weights are from 0 to 1"),
        (WORDS, WEIGHTS.tolist(), TYPE, "weights must be a tensor, got list"),
        (["a"] * 401, torch.zeros(401), VALUE, "weights has 401 keys, and 400 can be drawn"),
    ],
)
def test_bad_input_is_refused(words, weights, error, said):
    with pytest.raises(error, match=said):
        draw_attended_words(words, weights)
