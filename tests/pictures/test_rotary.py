"""Dials of rotary positions: angles and lengths against complex numbers, wrong rotations seen, bad input refused."""

import cmath
import math
import re

import pytest
import torch

from course_lib.attention import apply_rotary, rotary_table
from course_lib.pictures import draw_rotary
from tools.notebooks.compare import same_text

from .picture_checks import TYPE, VALUE, check_drawing, check_picture, texts_of

WORDS = ("Dream", "big", "and", "work", "for")
TOKENS, PAIRS, THETA = 5, 3, 100.0


def drawn_numbers(dtype=torch.float64):
    return torch.randn(TOKENS, 2 * PAIRS, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def turned_by_complex(table, pairs="halves", sign=1.0, places=range(TOKENS)):
    """Each pair as one complex number times exp(i angle): an independent rotation."""
    result = table.clone()
    for place, row in zip(places, result, strict=True):
        for pair in range(PAIRS):
            first, two = (pair, pair + PAIRS) if pairs == "halves" else (2 * pair, 2 * pair + 1)
            angle = sign * place * THETA ** (-pair / PAIRS)
            turned = complex(row[first], row[two]) * cmath.exp(1j * angle)
            row[first], row[two] = turned.real, turned.imag
    return result


def said_degrees(picture):
    """The angles in words, a row a pair."""
    return [
        [float(angle) for angle in re.findall(r"([\d.]+)°", line)]
        for line in picture.description.splitlines()
        if line.startswith("Pair")
    ]


def hands(svg, look):
    """(x, y upwards) of the hands of one look, as shares of the longest possible one, in order of pairs and tokens."""
    found = re.findall(rf'M ([\d.]+) ([\d.]+) L ([\d.]+) ([\d.]+)" stroke="#\w+" stroke-width="{look}"', svg)
    return [((float(c) - float(a)) / 27, (float(b) - float(d)) / 27) for a, b, c, d in found]


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_angles_are_place_times_speed(pairs):
    before = drawn_numbers()
    picture = draw_rotary(before, turned_by_complex(before, pairs), words=WORDS, pairs=pairs)
    check_picture(picture)
    for pair, row in enumerate(said_degrees(picture)):
        speed = math.degrees(THETA ** (-pair / PAIRS))
        assert row == pytest.approx([place * speed % 360 for place in range(TOKENS)], abs=0.5)
        assert f"by {speed:.1f}° per token" in texts_of(picture.svg)
    assert picture.caption == (
        "Pair 0 rotates by 57.3° from token to token, pair 1 by 12.3°, pair 2 by 2.7°; no arrow changes its length."
    )
    numbers = ("0 and 3", "1 and 4", "2 and 5") if pairs == "halves" else ("0 and 1", "2 and 3", "4 and 5")
    expected = f"Pair 0, elements {numbers[0]}, is rotated: Dream 0°, big 57°, and 115°, work 172°, for 229°."
    assert picture.description.splitlines()[0] == expected
    assert {f"elements {two}" for two in numbers} <= set(texts_of(picture.svg)) and "✗" not in picture.svg


def test_the_library_turns_as_complex_numbers_do():
    before = drawn_numbers()
    after = apply_rotary(before[None, None], *rotary_table(TOKENS, 2 * PAIRS, rope_theta=THETA))[0, 0]
    assert same_text(
        draw_rotary(before, after, words=WORDS).svg, draw_rotary(before, turned_by_complex(before), words=WORDS).svg
    )


def test_hands_point_where_the_numbers_do():
    before = drawn_numbers()
    after = turned_by_complex(before)
    svg = draw_rotary(before, after).svg
    for table, look in ((before, "1.5"), (after, "2.5")):
        drawn = hands(svg, look)
        assert len(drawn) == TOKENS * PAIRS
        for number, (right, up) in enumerate(drawn):
            pair, token = divmod(number, TOKENS)
            x, y = table[token, pair].item(), table[token, pair + PAIRS].item()
            assert math.hypot(right, up) == pytest.approx(1.0, abs=1e-3)
            assert math.atan2(up, right) == pytest.approx(math.atan2(y, x), abs=1e-3)


def test_the_pie_goes_from_the_first_hand_to_the_second_the_long_way_where_needed():
    before = torch.tensor([[1.0, 0.0]]).expand(4, 2)
    angles = torch.tensor([0.0, math.pi / 2, math.pi * 3 / 2, 0.005])
    svg = draw_rotary(before, torch.stack([angles.cos(), angles.sin()], dim=1)).svg
    pies = re.findall(r"M ([\d.]+) ([\d.]+) L ([\d.]+) ([\d.]+) A 16 16 0 (\d) 0 ([\d.]+) ([\d.]+) Z", svg)
    assert len(pies) == 2  # no pie for no turn and for one that can't be seen
    (quarter, three_quarters) = [[float(number) for number in pie] for pie in pies]
    x, y = quarter[:2]
    assert quarter[2:] == pytest.approx([x + 16, y, 0, x, y - 16])
    x, y = three_quarters[:2]
    assert three_quarters[2:] == pytest.approx([x + 16, y, 1, x, y + 16])


def test_a_rotation_drawn_with_the_wrong_pairs_is_seen():
    before = drawn_numbers()
    picture = draw_rotary(before, turned_by_complex(before, "neighbours"), words=WORDS)
    kept = re.search(r"(\d+) of 15 arrows change their length", picture.caption)
    assert int(kept[1]) == 12  # all but those of the word at place 0
    assert f"✗ {kept[0]}: no rotation does that." in texts_of(picture.svg)
    assert picture.caption.startswith("Pair 0 rotates unevenly from token to token, pair 1 unevenly")


def test_a_rotation_the_other_way_is_seen():
    before = drawn_numbers()
    assert draw_rotary(before, turned_by_complex(before, sign=-1.0)).caption.startswith(
        "Pair 0 rotates by 302.7° from token"
    )


def test_places_that_jump_turn_unevenly():
    before = drawn_numbers()
    picture = draw_rotary(before, turned_by_complex(before, places=(0, 1, 2, 3, 5)))
    assert picture.caption.startswith(
        "Pair 0 rotates unevenly from token to token, pair 1 unevenly, pair 2 unevenly; no"
    )
    assert "unevenly" in texts_of(picture.svg)


def test_longer_arrows_are_counted():
    before = drawn_numbers()
    after = before.clone()
    after[2] *= 1.02
    picture = draw_rotary(before, after)
    assert picture.caption.endswith("3 of 15 arrows change their length.")
    assert said_degrees(picture) == [[0.0] * TOKENS] * PAIRS


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_rounding_of_half_precision_is_no_change(dtype):
    before = drawn_numbers(dtype)
    assert "no arrow changes its length" in draw_rotary(before, turned_by_complex(before.double()).to(dtype)).caption
    assert "by 57." in draw_rotary(before, turned_by_complex(before.double()).to(dtype)).caption


def test_an_arrow_without_length_has_no_angle():
    before = drawn_numbers()
    before[1] = 0.0
    before[:, 2] = before[:, 5] = 0.0
    picture = draw_rotary(before, turned_by_complex(before), words=WORDS)
    check_picture(picture)
    assert "Pair 0, elements 0 and 3, is rotated: Dream 0°, big no angle, and 115°" in picture.description
    assert "pair 1 by 12.3°, pair 2 by no angle; no arrow" in picture.caption
    assert "nan" not in picture.svg


@pytest.mark.parametrize("which", ["before", "after"])
def test_an_arrow_that_appears_or_vanishes_is_seen(which):
    tables = {"before": drawn_numbers(), "after": drawn_numbers()}
    tables[which][1] = 0.0
    picture = draw_rotary(**tables)
    assert picture.description.count("token 1 no angle") == PAIRS
    assert picture.caption.endswith("3 of 15 arrows change their length.")


def test_a_rounding_below_a_full_turn_is_no_turn():
    before = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    picture = draw_rotary(before, torch.tensor([[1.0, -1e-6], [1.0, -0.0]]))
    assert picture.description == "Pair 0, elements 0 and 1, is rotated: token 0 0°, token 1 0°."


def test_steps_on_both_sides_of_a_full_turn_are_even():
    after = torch.tensor([[1.0, 0.0], [1.0, 5e-3], [1.0, 0.0]])
    assert "unevenly" not in draw_rotary(torch.tensor([[1.0, 0.0]] * 3), after).caption


def test_a_batch_shows_its_first_sample():
    before = torch.stack([drawn_numbers(), torch.zeros(TOKENS, 2 * PAIRS, dtype=torch.float64)])
    assert draw_rotary(before, before).svg == draw_rotary(before[0], before[0]).svg


def test_the_last_digit_of_a_number_does_not_change_the_comparison_of_two_drawings():
    before = drawn_numbers()
    after = turned_by_complex(before)
    first, second = draw_rotary(before, after), draw_rotary(before, after + 5e-6)
    assert first.svg != second.svg
    assert same_text(first.svg, second.svg) and same_text(first.description, second.description)
    assert not same_text(first.svg, draw_rotary(before, after + 2e-3).svg)


def test_bytes_are_the_same_and_no_random_state_is_touched():
    before = drawn_numbers()
    state = torch.get_rng_state()
    assert draw_rotary(before, turned_by_complex(before)).svg == draw_rotary(before, turned_by_complex(before)).svg
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("num_tokens", [2, 8])
@pytest.mark.parametrize("num_pairs", [1, 6])
@pytest.mark.parametrize("word", ["it", "antidisestablishment"])
def test_no_texts_overlap_and_nothing_is_cut(drawings, num_tokens, num_pairs, word):
    before = torch.randn(num_tokens, 2 * num_pairs)
    picture = draw_rotary(before, 2 * before.roll(1, dims=1), words=[word] * num_tokens, title="A title of my own")
    check_drawing(drawings[0])
    check_picture(picture, largest=26_000)
    assert "A title of my own" in texts_of(picture.svg)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: draw_rotary([[1.0]], torch.ones(2, 2)), TYPE, "before must be a tensor, got list"),
        (lambda: draw_rotary(torch.ones(2, 2), None), TYPE, "after must be a tensor, got NoneType"),
        (lambda: draw_rotary(torch.ones(2), torch.ones(2)), VALUE, r"before must be \(token, head_dim\)"),
        (
            lambda: draw_rotary(torch.ones(2, 3), torch.ones(2, 3)),
            VALUE,
            r"before must be \(token, head_dim\) with 2 to 8 tokens and an even head_dim of at most 12, got \(2, 3\): "
            "give a part of it",
        ),
        (lambda: draw_rotary(torch.ones(1, 2), torch.ones(1, 2)), VALUE, r"2 to 8 tokens .* got \(1, 2\)"),
        (lambda: draw_rotary(torch.ones(9, 2), torch.ones(9, 2)), VALUE, r"2 to 8 tokens .* got \(9, 2\)"),
        (lambda: draw_rotary(torch.ones(2, 14), torch.ones(2, 14)), VALUE, r"of at most 12, got \(2, 14\)"),
        (
            lambda: draw_rotary(torch.ones(2, 4), torch.ones(3, 4)),
            VALUE,
            r"before \(2, 4\) and after \(3, 4\) must have the same shape",
        ),
        (
            lambda: draw_rotary(torch.ones(2, 4), torch.full((2, 4), torch.nan)),
            VALUE,
            "after holds nan or inf, which has no angle: give finite numbers",
        ),
        (
            lambda: draw_rotary(torch.ones(2, 4), torch.ones(2, 4), pairs="thirds"),
            VALUE,
            "pairs must be 'halves' or 'neighbours', got 'thirds'",
        ),
        (
            lambda: draw_rotary(torch.ones(2, 4), torch.ones(2, 4), words=("a",)),
            VALUE,
            "words has 1 labels for 2 tokens",
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
