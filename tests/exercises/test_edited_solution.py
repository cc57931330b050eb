"""The course's own answer with a mistake edited into it."""

import pytest
import torch

from course_lib.exercises import ALL, solution_with


def test_the_edit_is_made_and_the_answer_stays():
    torch.manual_seed(0)
    right = ALL["MyHead"].solution(3, 2)
    zero = solution_with("MyHead", ".softmax(dim=-1) => .softmax(dim=-1) * 0")(3, 2)
    zero.load_state_dict(right.state_dict())
    x = torch.rand(1, 4, 3)
    assert right(x).any() and not zero(x).any()


@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("MyHat", "a => b", "MyHead"),
        ("MyHead", "a, b", "without an arrow"),
        ("MyHead", "torch.sin( => torch.cos(", "which the source does not have"),
    ],
)
def test_what_cannot_be_edited_is_refused(name, edit, words):
    with pytest.raises(ValueError, match=words):
        solution_with(name, edit)
