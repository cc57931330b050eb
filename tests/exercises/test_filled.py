"""A blank in a lesson: the learner's code if it is right, else the course's, and the lesson goes on."""

import pytest
import torch

from course_lib.exercises import ALL, filled, hint


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


class WithBias(ALL["MyHead"].solution):
    def __init__(self, d_in, d_out):
        super().__init__(d_in, d_out)
        self.q_proj = torch.nn.Linear(d_in, d_out)


def test_a_right_class_into_which_the_lesson_loads_nothing_is_told_why(capsys):
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    assert filled("MyHead", WithBias) is ALL["MyHead"].solution
    assert torch.equal(torch.rand(1), expected), "the lesson's random numbers stay as they are"
    assert capsys.readouterr().out == (
        "… MyHead: right, but the lesson loads weights by name, and yours has q_proj.weight, q_proj.bias, "
        "k_proj.weight, v_proj.weight in place of q_proj.weight, k_proj.weight, v_proj.weight. "
        "The lesson goes on with the course's version.\n"
    )


class Packed(torch.nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = torch.nn.Linear(d_in, 3 * d_out, bias=False)
        self.out = torch.nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        parts = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        context = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(context.transpose(1, 2).flatten(2))


@pytest.mark.slow
def test_where_the_prompt_names_no_parameters_any_names_pass():
    assert filled("MultiHeadFromMemory", Packed) is Packed


def test_each_hint_has_its_number(capsys):
    hints = ALL["through_block"].hints
    for number in range(1, len(hints) + 1):
        hint("through_block", number)
    told = capsys.readouterr().out
    assert told.split() == " ".join(f"Hint {n} of {len(hints)}: {one}" for n, one in enumerate(hints, 1)).split()
    assert max(map(len, told.splitlines())) <= 88
    with pytest.raises(ValueError, match="there is no exercise 'through_blok'; did you mean through_block"):
        hint("through_blok")
    with pytest.raises(ValueError, match="number is 4: through_block has 3 hints, so give a number from 1 to 3"):
        hint("through_block", 4)
