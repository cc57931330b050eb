"""Masks that hide too little, the opposite, or in the wrong place are named by what they do."""

import math

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(2)

BATCH, TOKENS, HEADS, HEAD_DIM = 3, 6, 4, 5
WIDTH = HEADS * HEAD_DIM
KEEP = (torch.arange(TOKENS) < torch.tensor([6, 4, 5])[:, None])[:, None, None]  # three samples of other lengths


def padding(scores):
    """Hide the ends of the shorter samples."""
    tokens = scores.shape[-1]
    keep = KEEP[..., :tokens] if tokens <= TOKENS else torch.nn.functional.pad(KEEP, (0, tokens - TOKENS))
    return ~keep.expand(3, 1, 1, tokens)[torch.arange(len(scores)) % 3]


class Masked(nn.Module):
    """Attention whose steps the classes below replace, each with one mistake."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def hide(self, scores, hidden):
        return scores.masked_fill(hidden, -torch.inf)

    def weights(self, scores):
        return scores.softmax(-1)

    def hidden(self, scores):
        return torch.ones_like(scores, dtype=torch.bool).triu(1)

    def forward(self, x):
        queries, keys, values = self.split(x)
        scores = queries @ keys.mT / math.sqrt(HEAD_DIM)
        weights = self.weights(self.hide(scores, self.hidden(scores)))
        return self.out((weights @ values).transpose(1, 2).flatten(2))


class WeakFill(Masked):
    def hide(self, scores, hidden):
        return scores.masked_fill(hidden, -1.0)  # wrong


class Opposite(Masked):
    def hide(self, scores, hidden):
        return scores.masked_fill(~hidden, -torch.inf)  # wrong


class ScrambledHeads(Masked):
    def split(self, x):
        each = self.qkv(x).chunk(3, dim=-1)
        return (one.reshape(x.shape[0], HEADS, x.shape[1], HEAD_DIM) for one in each)  # wrong


class Unnormalised(Masked):
    def weights(self, scores):
        exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))  # wrong
        return exponentials


class UnnormalisedSum(Unnormalised):
    """Its scores are sums of two products, as those of relative positions are."""

    def __init__(self):
        super().__init__()
        self.distances = nn.Parameter(torch.randn(32, 32, HEAD_DIM))

    def weights(self, scores):
        return torch.exp(scores - scores.amax(-1, keepdim=True))  # wrong

    def forward(self, x):
        queries, keys, values = self.split(x)
        scores = queries @ keys.mT
        tokens = x.shape[1]
        scores = scores + torch.einsum("bhqd,qkd->bhqk", queries, self.distances[:tokens, :tokens])
        scores = scores / math.sqrt(HEAD_DIM)
        weights = self.weights(self.hide(scores, self.hidden(scores)))
        return self.out((weights @ values).transpose(1, 2).flatten(2))


class Sigmoid(Masked):
    def weights(self, scores):
        weights = scores.sigmoid()  # wrong
        return weights * 1.5


class AllHidden(Masked):
    def hide(self, scores, hidden):
        nothing = torch.zeros_like(hidden)
        return scores.masked_fill(~nothing, torch.finfo(scores.dtype).min)  # wrong


class AllHiddenBySum(Masked):
    def hide(self, scores, hidden):
        visible = (scores == scores).to(scores.dtype)
        return scores + visible * torch.finfo(torch.float32).min  # wrong


class HiddenTwice(Masked):
    """It hides what is not later, and the mask that it can be given hides the rest."""

    def forward(self, x, attn_mask=None):
        queries, keys, values = self.split(x)
        scores = queries @ keys.mT / math.sqrt(HEAD_DIM)
        earlier = ~self.hidden(scores)  # wrong
        scores = scores.masked_fill(earlier, torch.finfo(scores.dtype).min)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


class NoKeys(Masked):
    """Its keys are 0 until it is trained, so its weights are the same."""

    def split(self, x):
        queries, keys, values = super().split(x)
        return queries, keys * 0.0, values


class SoftmaxOfOne(Masked):
    def weights(self, scores):
        return scores[:, :, None].softmax(2)[:, :, 0]  # wrong


def examined(code, *, padded):
    torch.manual_seed(0)
    module, options = code(), {}
    if padded:
        module.hidden, options = padding, {"keep": KEEP, "causal": False}
    return diagnose(module, torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, **options)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("code", "mistake", "evidence"),
    [
        (WeakFill, "mask-with-zero", "all hidden scores count as -1"),
        (Opposite, "mask-inverted", ""),
        (ScrambledHeads, "split-without-transpose", ""),
        (Unnormalised, "no-softmax", "nothing divides them by their sum"),
        (UnnormalisedSum, "no-softmax", "nothing divides them by their sum"),
        (Sigmoid, "no-softmax", "this is sigmoid attention"),
        (AllHidden, "mask-inverted", "after `masked_fill` the scores have no effect"),
        (AllHiddenBySum, "mask-inverted", "after `add` the scores have no effect"),
        (SoftmaxOfOne, "softmax-wrong-axis", "softmax runs over the axis of length 1"),
    ],
)
def test_masks_and_weights_are_named_at_their_line(code, mistake, evidence, padded):
    report = examined(code, padded=padded)
    assert report.mistakes == (mistake,), report
    assert evidence in report.findings[0].evidence and report.findings[0].where in marked(code), report


@pytest.mark.slow
def test_an_offered_mask_does_not_hide_that_the_own_one_is_inverted():
    report = examined(HiddenTwice, padded=False)
    assert report.mistakes == ("mask-inverted",), report
    assert report.findings[0].where in marked(HiddenTwice), report


class HidesThePast(nn.Module):
    """Its own mask is transposed, and takes another one."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(7, 6) for _ in range(3))

    def forward(self, x, mask=None):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(-1)
        scores = self.q(x) @ self.k(x).mT / 6**0.5
        hidden = hidden if mask is None else mask
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ self.v(x)


def test_an_offered_mask_does_not_hide_that_the_own_one_hides_the_past():
    torch.manual_seed(0)
    report = diagnose(HidesThePast(), torch.randn(2, 5, 7), num_heads=1)
    assert report.mistakes == ("mask-transposed",), report


def test_keys_that_are_zero_are_no_hidden_keys():
    assert "every key is hidden" not in str(examined(NoKeys, padded=False))
