"""The comparison that the tests of attention use sees every wrong step; one that does not is too weak."""

import pytest

from course_lib.mutations import RIGHT, WRONG_STEPS
from tests.attention.form_cases import assert_same, build, draw_x, reference
from tests.diagnosis.bank.weights import run

from .test_wrong_steps import changes_nothing, weights_of

WRONG = [wrong for wrong in WRONG_STEPS if not changes_nothing(wrong.equals, "multi-head")]


def written_out(module, x, attention):
    return run(attention, weights_of(module), x)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.equals)
def test_the_comparison_goes_red(wrong):
    module, x = build("split"), draw_x()
    expected, _ = reference(module, "split", x)
    with pytest.raises(AssertionError, match=r"Tensor-likes are not close|Scalars are not close|shape"):
        assert_same(written_out(module, x, wrong.attention), expected)


def test_the_comparison_stays_green_on_what_is_right():
    module, x = build("split"), draw_x()
    assert_same(written_out(module, x, RIGHT), reference(module, "split", x)[0])
    assert_same(written_out(module, x, RIGHT), module(x))
