"""`show` prints labelled tables that are the same on every device."""

import pytest
import torch

from course_lib.show import show

WORDS = ("a", "bb")


def printed(capsys, *arguments, **options):
    show(*arguments, **options)
    return capsys.readouterr().out


def test_a_matrix_with_words_on_both_axes(capsys):
    keep = torch.tensor([[True, False], [True, True]])
    lines = printed(capsys, "keep", keep, "query key", WORDS).splitlines()
    assert lines == ["keep: query 2, key 2", "        a     bb", "a    True  False", "bb   True   True"]


def test_leading_axes_are_named_and_those_of_size_one_left_out(capsys):
    text = printed(capsys, "w", torch.arange(8).view(1, 2, 2, 2), "batch head query key", WORDS)
    assert text.splitlines() == [
        "w: batch 1, head 2, query 2, key 2",
        *("head 0", "     a  bb", "a    0   1", "bb   2   3"),
        *("head 1", "     a  bb", "a    4   5", "bb   6   7"),
    ]


def test_a_leading_axis_of_tokens_is_labelled_with_words(capsys):
    text = printed(capsys, "split", torch.zeros(2, 1, 1), "token head width", WORDS)
    assert "token a\n" in text and "token bb\n" in text


def test_a_vector_is_one_row(capsys):
    assert printed(capsys, "v", torch.tensor([0.5, -0.25]), "key", WORDS, digits=2) == (
        "v: key 2\n      a     bb\n   0.50  -0.25\n"
    )


def test_words_that_do_not_fit_are_not_used(capsys):
    assert "  0  1  2\n" in printed(capsys, "v", torch.arange(3), "token", WORDS)


def test_neither_gradient_nor_device_is_printed(capsys):
    text = printed(capsys, "g", torch.ones(1, 1, requires_grad=True) * 2, "query key")
    assert "grad" not in text and "2.0000" in text


def test_infinity_nan_and_empty(capsys):
    assert "-inf" in printed(capsys, "s", torch.tensor([-torch.inf, torch.nan]), "key")
    assert printed(capsys, "e", torch.ones(0, 3), "token width").startswith("e: token 0, width 3\n")


@pytest.mark.parametrize(
    ("tensor", "axes"), [(torch.ones(2, 2), "token"), (torch.tensor(1.0), ""), (torch.ones(2), "a b")]
)
def test_axes_must_name_every_axis(tensor, axes):
    with pytest.raises(ValueError, match=r"axes=.* names \d axes, but x has the shape .*: give one name per axis"):
        show("x", tensor, axes)
