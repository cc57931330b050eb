"""Vectors in the plane: places and angles against plain numbers, labels apart, bad input refused in words."""

import math
import re

import pytest
import torch

from course_lib.pictures import draw_vectors
from course_lib.pictures.tensors.plane import convex_hull

from .picture_checks import TYPE, VALUE, check_drawing, check_picture, texts_of

WORDS = ("Dream", "big", "and", "work")
KEYS = torch.tensor([[-1.0, 0.25], [-0.5, -0.5], [0.0, 0.75], [1.5, -1.0]])
QUERY = torch.tensor([0.5, 2.0])


def tips(svg):
    """(x, y) in pixels of the tips of the arrows, in order."""
    heads = re.findall(r"M ([\d.]+) ([\d.]+) L [\d.]+ [\d.]+ L [\d.]+ [\d.]+ Z", svg)
    return [(float(x), float(y)) for x, y in heads]


def dots(svg):
    return [(float(x), float(y)) for x, y in re.findall(r"M ([\d.]+) ([\d.]+) h 0", svg)]


def test_arrows_end_where_the_numbers_say():
    svg = draw_vectors({"key": KEYS, "query": QUERY}, words=WORDS).svg
    origins = re.findall(r"M ([\d.]+) ([\d.]+) L [\d.]+ [\d.]+\" stroke=\"#\w+\" stroke-width=\"([\d.]+)\"", svg)
    assert len({origin[:2] for origin in origins}) == 1 and [origin[2] for origin in origins] == ["1.6"] * 4 + ["3.0"]
    x, y = (float(number) for number in origins[0][:2])
    scale = (tips(svg)[4][0] - x) / 0.5
    assert scale > 20
    for (right, up), (at_x, at_y) in zip([*KEYS.tolist(), QUERY.tolist()], tips(svg), strict=True):
        assert at_x == pytest.approx(x + scale * right, abs=0.01) and at_y == pytest.approx(y - scale * up, abs=0.01)


def test_points_lie_where_the_numbers_say():
    svg = draw_vectors({"value": KEYS}, words=WORDS, points=True).svg
    (x, y), (other_x, other_y) = dots(svg)[0], dots(svg)[3]
    assert not tips(svg) and len(dots(svg)) == 4
    assert (other_x - x) / (other_y - y) == pytest.approx(2.5 / 1.25, abs=1e-3), "both axes have one scale"


def test_the_caption_measures_angles():
    picture = draw_vectors({"key": KEYS, "query of 'work'": QUERY}, words=WORDS)
    expected = []
    for word, (x, y) in zip(WORDS, KEYS.tolist(), strict=True):
        angle = abs(math.degrees(math.atan2(2.0, 0.5) - math.atan2(y, x)))
        expected.append(f"{word} {min(angle, 360 - angle):.0f}°")
    said = f"Angle between the query of 'work' and each key: {', '.join(expected)}. The smallest: \"and\"."
    assert picture.caption == said
    assert picture.description.splitlines() == [
        "Arrows from the origin: key and query of 'work'. Number 0 of each vector counts to the right, number 1 "
        "upwards; both axes have the same scale.",
        "key: Dream (−1.00, 0.25), big (−0.50, −0.50), and (0.00, 0.75), work (1.50, −1.00).",
        "query of 'work': (0.50, 2.00).",
    ]
    assert {*WORDS, "query of 'work'", "key, one per token"} <= set(texts_of(picture.svg))


def test_the_caption_of_points_measures_distances():
    picture = draw_vectors({"context": torch.tensor([0.5, 0.75]), "value": KEYS}, words=WORDS, points=True)
    assert picture.caption == 'The context is nearest to the value "and", 0.50 away.'
    assert picture.description.startswith("Points: context and value.")


def test_without_a_single_vector_the_caption_says_how_to_read_it():
    for vectors in ({"key": KEYS}, {"key": KEYS, "query": KEYS}, {"query": QUERY}):
        assert draw_vectors(vectors).caption.startswith("Number 0 of each vector counts to the right")


def test_a_vector_of_zeros_is_a_point():
    svg = draw_vectors({"key": torch.tensor([[0.0, 0.0], [1.0, 0.0]])}).svg
    assert len(tips(svg)) == 1 and len(dots(svg)) == 1


@pytest.mark.parametrize("points", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_no_labels_overlap(drawings, points, seed):
    tables = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (seed - 4)
    vectors = {"key": tables[0], "query": tables[1], "query of 'work'": tables[2, 0]}
    picture = draw_vectors(vectors, words=("Dream", "big", "and", "work", "for", "it"), points=points)
    check_drawing(drawings[0])
    check_picture(picture)


def test_the_same_bytes_whatever_the_dtype():
    vectors = {"key": KEYS, "query": QUERY}
    doubles = {name: table.double() for name, table in vectors.items()}
    assert draw_vectors(vectors).svg == draw_vectors(doubles).svg


@pytest.mark.parametrize(
    ("vectors", "error", "words"),
    [
        (KEYS, TYPE, "vectors must be a mapping, name -> tensor, got Tensor"),
        ({"key": [1.0, 2.0]}, TYPE, r"vectors\['key'\] must be a tensor, got list"),
        ({}, VALUE, "vectors has 0 names and 0 vectors: draw 1 to 3 names and 14 vectors at most"),
        ({"key": torch.ones(15, 2)}, VALUE, "1 names and 15 vectors"),
        (dict.fromkeys("abcd", QUERY), VALUE, "4 names and 4 vectors"),
        ({"key": torch.ones(4, 3)}, VALUE, r"must be \(token, 2\) or \(2,\), got \(4, 3\): only a plane"),
        ({"key": torch.ones(1, 4, 2)}, VALUE, r"got \(1, 4, 2\)"),
        ({"key": torch.tensor([1.0, torch.nan])}, VALUE, "holds nan or inf"),
        ({"key": torch.zeros(4, 2)}, VALUE, "nothing but zeros, which have no direction"),
    ],
)
def test_bad_input_is_refused_in_words(vectors, error, words):
    with pytest.raises(error, match=words):
        draw_vectors(vectors)


def test_words_must_fit():
    with pytest.raises(ValueError, match="words has 1 labels for 4 tokens"):
        draw_vectors({"key": KEYS, "query": QUERY}, words=("a",))


def test_points_around_a_single_vector_have_their_hull():
    vectors = {"value": KEYS, "context": torch.tensor([0.5, 0.25])}
    picture = draw_vectors(vectors, words=WORDS, points=True)
    ((path,),) = [re.findall(r'<path d="([^"]+)"[^>]*stroke-dasharray="4 3"', picture.svg)]
    assert path.count("M") == 4 and "the convex hull of the value points" in picture.description
    assert convex_hull([(0, 0), (2, 0), (1, 0.5), (1, 1), (1, 0)]) == [(0, 0), (2, 0), (1, 1)]
    assert convex_hull([(0, 0), (1, 1), (2, 2)]) == []
    for others in ({"value": KEYS}, vectors | {"value": KEYS[:2]}):
        assert 'dasharray="4 3"' not in draw_vectors(others, points=True).svg
    assert "hull" not in draw_vectors(vectors, words=WORDS).description
