"""A blank in a lesson: the learner's code if it is right, else the course's, and the lesson goes on."""

import pytest
import torch

from course_lib.exercises import ALL, filled


def right(queries, keys):
    return queries @ keys.T / queries.shape[-1] ** 0.5


def stub(queries, keys):
    raise NotImplementedError


def test_a_right_answer_is_kept(capsys):
    assert filled("scaled_scores", right) is right
    assert capsys.readouterr().out == "✓ scaled_scores: passed. The lesson goes on with your code.\n"


@pytest.mark.parametrize("answer", [stub, None, ...])
def test_a_blank_is_one_line(answer, capsys):
    kept = filled("scaled_scores", answer)
    assert kept is ALL["scaled_scores"].solution
    assert torch.equal(kept(torch.ones(2, 4), torch.ones(3, 4)), torch.full((2, 3), 2.0))
    said = "… scaled_scores: not written yet. The lesson goes on with the course's version.\n"
    assert capsys.readouterr().out == said


def test_a_wrong_answer_is_explained(capsys):
    kept = filled("scaled_scores", lambda queries, keys: queries @ keys.T)
    assert kept is ALL["scaled_scores"].solution
    shown = capsys.readouterr().out
    assert "missing-scale" in shown and shown.endswith("The lesson goes on with the course's version.\n")


def test_an_unknown_name():
    with pytest.raises(ValueError, match="there is no exercise 'scaled_score'; did you mean scaled_scores"):
        filled("scaled_score", right)
