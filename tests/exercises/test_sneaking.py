"""A learner tries to get a wrong class past a lesson's proof."""

import pytest
import torch
from torch import nn

from course_lib.exercises import ALL, sneak

Right = ALL["MyHead"].solution


class DividedBySeven(Right):
    def forward(self, x):
        scores = self.q_proj(x) / 7**0.5 @ self.k_proj(x).mT
        return scores.softmax(-1) @ self.v_proj(x)


class NotDivided(Right):
    def forward(self, x):
        return (self.q_proj(x) @ self.k_proj(x).mT).softmax(-1) @ self.v_proj(x)


class Unwritten(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        raise NotImplementedError


def proof(head_class):
    torch.manual_seed(0)
    reference, head = Right(3, 7), head_class(3, 7)
    head.load_state_dict(reference.state_dict())
    x = 4 * torch.rand(2, 5, 3)
    torch.testing.assert_close(head(x), reference(x))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (..., "… Nothing to sneak yet: put a class"),
        (Unwritten, "… Nothing to sneak yet: yours isn't written"),
        (Right, "… The check finds nothing wrong with yours: plant a mistake that shows at usual sizes."),
        (NotDivided, "… Caught: the proof stops yours with AssertionError."),
        (DividedBySeven, "✓ You got past the proof. The check sees more: "),
    ],
)
def test_what_it_says(answer, said, capsys):
    sneak("MyHead", answer, proof)
    assert capsys.readouterr().out.startswith(said)


def test_an_unknown_exercise_is_refused():
    with pytest.raises(ValueError, match="there is no exercise 'MyHaed'; did you mean MyHead"):
        sneak("MyHaed", Right, proof)
