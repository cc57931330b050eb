"""An attention that x does not reach is not examined, and the report says so."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import WITHOUT_X, diagnose

D = 12


class Attention(nn.Module):
    def __init__(self, axis=-1):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))
        self.axis = axis

    def forward(self, x, memory, causal):
        scores = self.q(x) @ self.k(memory).mT * D**-0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1) & causal
        return scores.masked_fill(hidden, -torch.inf).softmax(self.axis) @ self.v(memory)


class Translator(nn.Module):
    """An encoder-decoder; the softmax of its encoder may be over the queries."""

    def __init__(self, axis=-1, reads_source=True):
        super().__init__()
        self.source, self.target = nn.Embedding(20, D), nn.Embedding(20, D)
        self.encoder, self.decoder, self.cross = Attention(axis), Attention(), Attention()
        self.reads_source = reads_source

    def forward(self, source, target):
        memory, x = self.source(source), self.target(target)
        memory = memory + self.encoder(memory, memory, False) if self.reads_source else memory
        x = x + self.decoder(x, x, True)
        return x + self.cross(x, memory, False)


SOURCE, TARGET = torch.randint(20, (2, 7)), torch.randint(20, (2, 6))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("axis", [-1, -2])
def test_the_encoder_beside_a_decoder_is_not_cleared(axis):
    report = diagnose(Translator(axis), TARGET, context=SOURCE, call=lambda code, x, c: code(c, x))
    assert report.exit_status == 2 and [one.missing for one in report.not_examined] == [WITHOUT_X], report
    assert report.verdict == "3 attentions found, 2 examined: nothing wrong was found."
    other = diagnose(Translator(axis), SOURCE, call=lambda code, x: code(x, TARGET[:, : x.shape[1]]), causal=False)
    assert other.exit_status == (2 if axis == -1 else 1), "x reaches the encoder now, and not the decoder"


@pytest.mark.slow
def test_an_attention_that_x_reaches_is_enough():
    report = diagnose(Translator(reads_source=False), TARGET, context=SOURCE, call=lambda code, x, c: code(c, x))
    assert report.ok, report


class Beside(nn.Module):
    """A constant row attends to itself, and is added to what x attends to."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Attention(), Attention()
        self.register_buffer("row", torch.randn(1, 3, D))

    def forward(self, x):
        return self.first(x, x, True) + self.second(self.row, self.row, False).mean(1, keepdim=True)


def test_one_attention_beside_another_that_x_does_not_reach():
    report = diagnose(Beside(), torch.randn(2, 5, D))
    assert report.exit_status == 2 and "2 attentions found, 1 examined" in report.verdict, report
    assert "Not examined: the one at test_without_x.py:" in report.in_words()
