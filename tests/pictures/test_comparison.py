"""Two patterns and their difference: numbers recomputed, equality said, colours symmetric, bad input refused."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from course_lib.pictures import compare
from course_lib.pictures.weights import pattern_drawing

from .picture_checks import TYPE, VALUE

pytestmark = pytest.mark.one_in(6)

WORDS = ("Dream", "big", "and")
A = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])
B = torch.tensor([[1.0, 0.0, 0.0], [0.37, 0.63, 0.0], [0.2, 0.301, 0.499]])


def texts(picture):
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg)


def fills(svg):
    """The fill of each coloured cell, pattern by pattern."""
    meshes = re.findall(r'<g id="QuadMesh_\d+">(.*?)</g>', svg, flags=re.S)
    return [[fill for fill in re.findall(r"fill: (#\w+|none)", mesh) if fill != "none"] for mesh in meshes]


@pytest.mark.slow
def test_the_drawing_holds_both_patterns_and_signed_differences():
    said = texts(compare(A, B, WORDS, names=("before", "after"), title="One step"))
    weights = ["1.00", "0.25", "0.75", "0.20", "0.30", "0.50", "1.00", "0.37", "0.63", "0.20", "0.30", "0.50"]
    assert [text for text in said if re.fullmatch(r"\d\.\d\d", text)] == weights
    assert [text for text in said if re.fullmatch(r"[+-]\d\.\d\d", text)][:2] == ["-0.12", "+0.12"]
    assert {"before", "after", "before - after", "One step", "weight", "difference", "query", "key"} <= set(said)
    assert [text for text in said if text in WORDS] == [*WORDS, *WORDS, *WORDS, *WORDS, *WORDS]  # no rows in the middle


def test_caption_and_words_say_where_they_differ_most():
    picture = compare(A, B, WORDS, names=("before", "after"), title="One step")
    assert picture.caption == (
        'Before and after differ most where "big" looks at "Dream": 0.25 and 0.37, a difference of -0.12.'
    )
    assert picture.description == (
        f"One step: Attention weights of before and after, 3 queries by 3 keys. {picture.caption} "
        "Before minus after, where two decimals show it: big: Dream -0.12, big +0.12."
    )


@pytest.mark.one_in(1)
def test_the_largest_difference_is_found_for_any_patterns(monkeypatch):
    monkeypatch.setattr(
        pattern_drawing, "figure_svg", lambda *_: "<svg/>"
    )  # the caption is asked for, not twenty drawings
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        a, b = torch.randn(2, 4, 7, generator=generator).softmax(dim=-1)
        place = (a - b).abs().flatten().argmax().item()
        q, k = divmod(place, 7)
        expected = f'"q{q}" looks at "k{k}": {a[q, k]:.2f} and {b[q, k]:.2f}, a difference of {a[q, k] - b[q, k]:+.2f}'
        caption = compare(a, b, [f"q{i}" for i in range(4)], key_words=[f"k{i}" for i in range(7)]).caption
        assert expected in caption


def test_of_equal_differences_the_first_is_named_however_they_are_rounded():
    for noise in (-1e-8, 0.0, 1e-8):
        b = B.double() + noise * torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 0, 0]])
        assert '"big" looks at "Dream": 0.25 and 0.37' in compare(A.double(), b, WORDS).caption


def test_the_scale_is_as_long_up_as_down():
    fill = fills(compare(A, B, WORDS).svg)[2]  # of -0.12 and 0.12: the two ends of the scale
    mirrored = fills(compare(B, A, WORDS).svg)[2]
    assert fill[1] != fill[2]
    assert (fill[1], fill[2]) == (mirrored[2], mirrored[1])
    assert texts(compare(A, B))[-4:] == ["-0.12", "0", "+0.12", "difference"]


def test_equal_patterns_are_said_to_be_equal_and_have_no_colour():
    picture = compare(A, A + 4e-7 * (A > 0), WORDS)
    assert picture.caption == "A and b are equal: no weight differs by a millionth."
    assert picture.description.endswith(picture.caption)
    assert len(set(fills(picture.svg)[2])) == 1
    assert "difference" not in texts(picture)
    assert texts(picture).count("0") == 6
    assert not [text for text in texts(picture) if text[0] in "+-"]


@pytest.mark.slow
def test_a_small_difference_is_never_called_zero():
    picture = compare(A, A + 4e-4 * torch.tensor([[0.0, 0, 0], [1, -1, 0], [0, 0, 0]]), WORDS)
    assert picture.caption.endswith('where "big" looks at "Dream": 0.25 and 0.25, a difference of -0.0004.')
    assert "minus" not in picture.description
    assert texts(picture)[-4:] == ["-0.0004", "0", "+0.0004", "difference"]


def test_only_what_is_hidden_in_both_is_hatched():
    def strips(picture):
        return [len(re.findall(r"fill: url\(", axes)) for axes in picture.svg.split('<g id="axes_')[1:4]]

    assert strips(compare(A, B)) == [2, 2, 2]
    assert strips(compare(A, torch.full((3, 3), 1 / 3))) == [0, 0, 0]
    assert "-0.33" in texts(compare(A, torch.full((3, 3), 1 / 3)))


def test_large_patterns_are_drawn_without_indices():
    a, b = torch.randn(2, 20, 20, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    picture = compare(a, b)
    assert "minus" not in picture.description and picture.caption in picture.description
    assert len(picture.description) < 300 and len(picture.svg) < 60_000
    assert all(axes.count("<image") == 1 for axes in picture.svg.split('<g id="axes_')[1:4])


def test_leading_axes_of_one_dtypes_and_gradients():
    picture = compare(A, B, WORDS)
    other = compare(A[None, None].double().requires_grad_(), B[None].double(), WORDS)
    assert picture.caption == other.caption
    assert "a difference of +0.12." in compare(A.bfloat16(), B.bfloat16(), WORDS).caption  # 0.63 is rounded there


def test_the_same_bytes_again_and_not_too_wide():
    first, second = compare(A, B, WORDS), compare(A, B, WORDS)
    assert first.svg == second.svg
    assert ElementTree.fromstring(first.svg).tag.endswith("svg")
    for size in (6, 40):
        svg = compare(torch.eye(size), torch.full((size, size), 1 / size), title="t").svg
        assert int(re.search(r'width="(\d+)"', svg)[1]) <= 910
        assert len(svg) < 90_000


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: compare(A, B[:2]), VALUE, r"a \(3, 3\) and b \(2, 3\) differ in shape: compare weights of the"),
        (lambda: compare([[1.0]], B), TYPE, "^a must be a floating-point tensor, got list"),
        (lambda: compare(A, B.long()), TYPE, "^b must be a floating-point tensor, got torch.int64"),
        (lambda: compare(A, B[None].expand(2, 3, 3)), VALUE, r"^b must be \(query, key\).*\(2, 3, 3\)"),
        (lambda: compare(A, B - 3), VALUE, "^b must lie between 0 and 1, got -3 to -2"),
        (lambda: compare(A, B, ("x",)), VALUE, "words has 1 labels for 3 tokens"),
        (lambda: compare(A, B, key_words=("x",)), VALUE, "key_words has 1 labels for 3 tokens"),
        (lambda: compare(A, B, names=("x",)), VALUE, r"names must be two, for a and b, got \('x',\)"),
        (lambda: compare(A, B, names="ab"), VALUE, "names must be two, for a and b, got 'ab'"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
