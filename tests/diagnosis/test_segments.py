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


def two_layers(norm):
    def run(x, mistake="", layer=None):
        for index, weights in enumerate(LAYERS):
            given = F.layer_norm(x, (D,)) if norm else x
            x = x + attend(given, given, weights, mistake if index == layer else "")
            x = x + torch.relu(x @ weights["mlp"])
        return x

    return run


@pytest.mark.parametrize(
    ("mistake", "layer", "norm"),
    [("", None, True), ("missing-scale", 0, False), ("no-causal-mask", 1, True), ("merge-without-transpose", 1, False)],
)
def test_a_mistake_in_a_function_is_found_in_whichever_layer_it_is(mistake, layer, norm):
    report = diagnose(lambda x: two_layers(norm)(x, mistake, layer), X, num_heads=HEADS)
    assert len(report.attentions) == 2 and not report.not_examined, report
    assert report.mistakes[:1] == (() if layer is None else (mistake,)), report
    wrong = [index for index, one in enumerate(report.attentions) if one.findings]
    assert wrong == ([] if layer is None else [layer])


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


def test_attention_whose_scores_cannot_be_followed_is_not_examined():
    def with_products(x):
        q, k, v = (heads_of(x, LAYERS[0][name]) for name in "qkv")
        scores = q @ k.mT / q.shape[-1] ** 0.5 @ torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        return two_layers(norm=True)(x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    report = diagnose(with_products, X, num_heads=HEADS)
    assert [bool(one.missing) for one in report.attentions] == [True, False, False], report
    assert report.verdict == "3 attentions found, 2 examined: nothing wrong was found." and not report.ok
    assert repr(report).count("Not examined: the one at test_segments.py:") == 1
    assert "Not examined" in report._repr_html_()


def test_code_that_takes_other_steps_for_other_sizes_is_not_cleared():
    """The place of an attention is known by the lines that run it."""

    def attend_in_steps(x):
        x = x + attend(x, x, LAYERS[0])
        for _ in range(x.shape[1] - 4):
            x = x + attend(x, x, LAYERS[1])
        return x

    report = diagnose(attend_in_steps, X, num_heads=HEADS)
    assert len(report.attentions) == 2 and report.ok, report


class OfPixels(nn.Module):
    """Attention over the pixels of an image, after a norm of groups of channels, which mixes all pixels."""

    def __init__(self, mistake=""):
        super().__init__()
        torch.manual_seed(4)
        self.norm, self.mistake = nn.GroupNorm(2, D), mistake
        self.q, self.k, self.v, self.o = (nn.Conv1d(D, D, 1) for _ in range(4))

    def forward(self, x):
        given = self.norm(x.mT)  # (b, t, d) -> (b, d, t)
        q, k, v = (one(given).unflatten(1, (HEADS, -1)) for one in (self.q, self.k, self.v))  # (b, h, c, t)
        scores = torch.einsum("bhcq,bhck->bhqk", q, k)
        scores = scores if self.mistake == "missing-scale" else scores / q.shape[2] ** 0.5
        weights = scores.softmax(-2 if self.mistake == "softmax-wrong-axis" else -1)
        return x + self.o(torch.einsum("bhqk,bhck->bhcq", weights, v).flatten(1, 2)).mT


@pytest.mark.parametrize("mistake", ["", "missing-scale", "softmax-wrong-axis"])
def test_attention_after_a_norm_of_all_tokens_is_examined(mistake):
    report = diagnose(OfPixels(mistake), X, num_heads=HEADS, causal=False)
    assert report.mistakes == ((mistake,) if mistake else ()) and report.exit_status == int(bool(mistake)), report


def test_a_norm_of_all_tokens_shows_the_future():
    report = diagnose(OfPixels(), X, num_heads=HEADS, causal=True)
    assert not report.ok and report.findings, report


class FewerKeys(nn.Module):
    """Self-attention over an image whose keys come from patches that a convolution puts together, as in PVT."""

    def __init__(self, mistake=""):
        super().__init__()
        torch.manual_seed(4)
        self.to_q, self.to_kv = nn.Linear(D, D), nn.Linear(D, 2 * D)
        self.reduce, self.norm, self.out = nn.Conv2d(D, D, 2, 2), nn.LayerNorm(D), nn.Linear(D, D)
        self.mistake = mistake

    def forward(self, x):
        side = int(x.shape[1] ** 0.5)
        reduced = self.norm(self.reduce(x.mT.unflatten(-1, (side, side))).flatten(2).mT)
        q = self.to_q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.to_kv(reduced).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * (1.0 if self.mistake == "missing-scale" else q.shape[-1] ** -0.5)
        heads = scores.softmax(-2 if self.mistake == "softmax-wrong-axis" else -1) @ v
        heads = heads if self.mistake == "merge-without-transpose" else heads.transpose(1, 2)
        merged = heads.reshape(x.shape)
        return merged if self.mistake == "output-projection-missing" else self.out(merged)


@pytest.mark.parametrize(
    "mistake", ["", "missing-scale", "softmax-wrong-axis", "merge-without-transpose", "output-projection-missing"]
)
def test_attention_over_fewer_keys_is_examined(mistake):
    x = torch.randn(2, 16, D, generator=torch.Generator().manual_seed(5))
    report = diagnose(FewerKeys(mistake), x, num_heads=HEADS, causal=False)
    assert report.mistakes == ((mistake,) if mistake else ()) and not report.not_examined, report


class OfColumns(nn.Module):
    """Two layers on (batch, width, token), as descriptors of keypoints are kept."""

    def __init__(self, scale=0.5):
        super().__init__()
        torch.manual_seed(4)
        self.qkv = nn.ModuleList(nn.Conv1d(D, 3 * D, 1) for _ in range(2))
        self.out, self.scale = nn.ModuleList(nn.Conv1d(D, D, 1) for _ in range(2)), scale

    def forward(self, x):
        columns = x.mT
        for index, (qkv, out) in enumerate(zip(self.qkv, self.out, strict=True)):
            q, k, v = (part.unflatten(1, (HEADS, -1)) for part in qkv(columns).chunk(3, 1))
            scores = torch.einsum("bhdq,bhdk->bhqk", q, k) * (self.scale if index == 0 else 0.5)
            columns = columns + out(torch.einsum("bhqk,bhdk->bhdq", scores.softmax(-1), v).flatten(1, 2))
        return columns.mT


@pytest.mark.parametrize(("scale", "mistakes"), [(0.5, ()), (1.0, ("missing-scale",))])
def test_an_output_whose_tokens_come_last_is_examined(scale, mistakes):
    report = diagnose(OfColumns(scale), X, causal=False, num_heads=HEADS)
    assert report.mistakes == mistakes and not report.not_examined, report


def test_code_none_of_whose_attentions_was_examined_is_not_acquitted():
    """A product between the scores and softmax hides which key a weight is of."""

    def with_products(x, layers):
        eye = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        for weights in layers:
            q, k, v = (heads_of(x, weights[name]) for name in "qkv")
            scores = q @ k.mT / q.shape[-1] ** 0.5 @ eye
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x

    report = diagnose(lambda x: with_products(x, LAYERS), X, num_heads=HEADS)
    assert report.exit_status == 2 and all(one.missing for one in report.attentions), report
    assert report.verdict == "2 attentions found, none of which could be examined."


def test_several_attentions_of_code_that_expect_cannot_be_compared_with_are_not_called_wrong():
    report = diagnose(two_layers(norm=True), X, num_heads=HEADS, expect=lambda x: x @ torch.ones(D + 1, D))
    assert report.exit_status == 2 and len(report.attentions) == 2, report
    said = "2 attentions found, 2 examined: nothing wrong was found, but not all could be examined."
    assert report.verdict == said, report
