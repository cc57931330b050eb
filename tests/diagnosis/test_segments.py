"""Attentions that no module holds alone are examined in the operations that compute them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(4)

D, HEADS = 12, 3
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))


def random_weights(seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(D, D, generator=generator) / D**0.5 for name in ("q", "k", "v", "o", "mlp")}


LAYERS = [random_weights(seed) for seed in range(2)]


def heads_of(x, weight):
    return (x @ weight).unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (b, t, d) -> (b, h, t, c)


def attend(x, memory, weights, mistake="", *, causal=True):
    q, k, v = heads_of(x, weights["q"]), heads_of(memory, weights["k"]), heads_of(memory, weights["v"])
    scores = q @ k.mT
    if mistake != "missing-scale":
        scores = scores / q.shape[-1] ** 0.5
    if causal and mistake != "no-causal-mask":
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    heads = scores.softmax(-2 if mistake == "softmax-wrong-axis" else -1) @ v
    merged = heads.reshape(x.shape) if mistake == "merge-without-transpose" else heads.transpose(1, 2).flatten(2)
    return merged @ weights["o"]


class Block(nn.Module):
    """A decoder's block with both attentions written out in its forward."""

    def __init__(self, mistake=""):
        super().__init__()
        torch.manual_seed(2)
        self.own, self.cross = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.memory, self.out1, self.out2 = nn.Linear(9, 2 * D), nn.Linear(D, D), nn.Linear(D, D)
        self.norm1, self.norm2, self.mistake = nn.LayerNorm(D), nn.LayerNorm(D), mistake

    def forward(self, x, memory):
        q, k, v = self.own(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out1(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        q = self.cross(self.norm2(x)).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.memory(memory).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * (1.0 if self.mistake == "missing-scale" else q.shape[-1] ** -0.5)
        heads = scores.softmax(-2 if self.mistake == "softmax-wrong-axis" else -1) @ v
        merged = (
            heads.reshape(x.shape) if self.mistake == "merge-without-transpose" else heads.transpose(1, 2).flatten(2)
        )
        return x + self.out2(merged)


@pytest.mark.parametrize("mistake", ["", "softmax-wrong-axis", "merge-without-transpose", "missing-scale"])
def test_cross_attention_written_out_in_a_block_is_examined(mistake):
    memory = torch.randn(2, 7, 9, generator=torch.Generator().manual_seed(3))

    def call(module, x):
        return module(x, memory.to(x) + x.mean(-1, keepdim=True)[:, :1])

    report = diagnose(Block(mistake), X, num_heads=HEADS, call=call)
    assert report.mistakes == ((mistake,) if mistake else ()) and not report.not_examined, report
    assert [len(one.findings) for one in report.attentions] == [0, int(bool(mistake))], report


@pytest.mark.parametrize("mistake", ["", "softmax-wrong-axis", "missing-scale"])
def test_attention_of_another_sequence_is_examined(mistake):
    def encoder_decoder(x):
        memory = torch.cat([x.flip(1), x], dim=1)
        memory = memory + attend(memory, memory, LAYERS[0], mistake, causal=False)
        return x + attend(x, memory, LAYERS[1], causal=False)

    report = diagnose(encoder_decoder, X, num_heads=HEADS, causal=False)
    assert [bool(one.missing) for one in report.attentions] == [False, False], report
    assert [one.mistake for one in report.attentions[0].findings] == ([mistake] if mistake else []), report
    assert not report.attentions[1].findings, report
