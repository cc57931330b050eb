"""A layer that carries a state is not examined, and nothing else of its model is excused for it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.scan import scan
from course_lib.scan.recurrent import recurrent_modules

WIDTH, HEADS = 12, 3
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(3))


class Conv1D(nn.Linear):
    """A projection that is called as GPT-2 calls its own."""


class Attention(nn.Module):
    """Causal attention; with `sees`, a token more than it should."""

    def __init__(self, sees=0):
        super().__init__()
        self.qkv, self.out, self.sees = Conv1D(WIDTH, 3 * WIDTH), Conv1D(WIDTH, WIDTH), sees

    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1 + self.sees)
        scores = (queries @ keys.mT / 2).masked_fill(later, -torch.inf)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


class StateSpace(nn.Module):
    """A convolution of each channel, and a sum over earlier tokens weighted by products of tokens, as in Mamba."""

    def __init__(self):
        super().__init__()
        self.conv1d = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH)
        self.left, self.right = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.conv1d(F.pad(x.mT, (2, 0))).mT
        products = (self.left(x) @ self.right(x).mT).tril()
        return products @ x


class Hybrid(nn.Module):
    def __init__(self, sees=0):
        super().__init__()
        self.mixer, self.attention = StateSpace(), Attention(sees)

    def forward(self, x):
        x = x + self.mixer(x)
        return x + self.attention(x)


class MambaForText(nn.Module):
    """A model whose family is named after its layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH)])


class GptOssMLP(nn.Module):
    """No state-space model, although `ssm` stands in its name."""


class GptOssModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = Attention(), GptOssMLP()


def outcome(model):
    return {outcome.path: outcome for outcome in scan(model, X).outcomes}["attention"]


def test_recurrent_layers_are_found_by_what_they_are():
    assert recurrent_modules(Hybrid()) == {"mixer": "StateSpace"}
    assert recurrent_modules(GptOssModel()) == {}
    assert recurrent_modules(nn.Sequential(nn.LSTM(3, 3))) == {"0": "LSTM"}
    assert recurrent_modules(MambaForText()) == {"layers": "ModuleList"}


@pytest.mark.slow
def test_a_state_is_not_examined_and_the_attention_beside_it_is():
    torch.manual_seed(0)
    report = scan(Hybrid(), X)
    assert report.exit_status == 2 and "none wrong" in report.verdict, report
    assert outcome(Hybrid()).status == "not examined"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("model", [Attention, Hybrid])
def test_attention_that_sees_too_much_is_wrong_beside_a_state_and_with_layers_called_conv1d(model):
    torch.manual_seed(0)
    found = [outcome for outcome in scan(model(sees=1), X).outcomes if outcome.status == "wrong"]
    assert {outcome.path for outcome in found} >= {"one pass"}, found
    assert "mask-off-by-one" in {outcome.mistake for outcome in found}, found
