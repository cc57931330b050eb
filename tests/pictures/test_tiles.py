"""Tiles of a mask: each kind against a loop over single scores, words and drawing agree, bad input refused."""

import re

import pytest
import torch

from course_lib.attention import causal_keep
from course_lib.pictures import draw_tiles
from course_lib.pictures.style import HEADS, HIDDEN

from .picture_checks import TYPE, VALUE, cells_of, check_drawing

WINDOW = causal_keep(10) & ~causal_keep(10).tril(-4)  # each query sees itself and three before it


def counted(keep, size):
    """(whole, masked, skipped), score by score."""
    found = {"whole": 0, "mask": 0, "skip": 0}
    for first in range(0, keep.shape[0], size):
        for start in range(0, keep.shape[1], size):
            tile = [
                bool(keep[q, k])
                for q in range(first, min(first + size, keep.shape[0]))
                for k in range(start, min(start + size, keep.shape[1]))
            ]
            found["whole" if all(tile) else "mask" if any(tile) else "skip"] += 1
    return tuple(found.values())


@pytest.mark.parametrize(
    ("keep", "size"), [(causal_keep(6), 2), (causal_keep(7), 3), (WINDOW, 3), (causal_keep(5, 8), 2)]
)
def test_words_and_colours_are_those_of_a_loop(keep, size):
    whole, masked, skipped = counted(keep, size)
    picture = draw_tiles(keep, size)
    queries, keys = keep.shape
    assert picture.description.startswith(
        f"The scores of {queries} queries and {keys} keys, in tiles of {size} by {size}."
    )
    numbers = [int(number) for number in re.findall(r"(\d+) (?:tiles? )?(?:is|are)", picture.description)]
    assert numbers == [whole, masked, skipped] and all(numbers)
    assert cells_of(picture.svg, HEADS[1]) == whole
    assert cells_of(picture.svg, HEADS[0]) == masked
    assert cells_of(picture.svg, HIDDEN) == skipped


def test_the_drawing_names_each_tile(drawings):
    svg = draw_tiles(causal_keep(6), 2, title="Six tokens").svg
    check_drawing(drawings[0])
    assert [len(re.findall(f">{kind}<", svg)) for kind in ("whole", "mask", "skip")] == [3, 3, 3]
    assert "queries from 4" in svg and "Six tokens" in svg


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ((torch.ones(4, 4), 2), TYPE, "keep must be a bool tensor with True = may attend, got torch.float32."),
        ((causal_keep(4)[None], 2), VALUE, "keep must be (query, key), got (1, 4, 4): give the mask of one head."),
        ((causal_keep(4), 2.0), TYPE, "size must be an integer, got 2.0."),
        ((causal_keep(4), 0), VALUE, "size must make 1 to 8 tiles a side of 4 tokens, got 0."),
        ((causal_keep(20), 2), VALUE, "size must make 1 to 8 tiles a side of 20 tokens, got 2."),
    ],
)
def test_bad_input_is_refused(given, error, said):
    with pytest.raises(error, match=f"^{re.escape(said)}$"):
        draw_tiles(*given)
