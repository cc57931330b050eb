"""Mistakes in other people's ways of writing attention, that were missed or called otherwise once."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, WIDTH = 3, 12
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(3))


class OnAGrid(nn.Module):
    """Attention over a class token and 2 x 3 patches, less the distance of their places."""

    sign = -1

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        places = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))
        distances = nn.functional.pad(torch.cdist(places, places), (1, 0, 1, 0))
        self.register_buffer("bias", self.sign * distances * torch.tensor([0.5, 0.25, 0.125])[:, None, None])

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / q.shape[-1] ** 0.5 + self.bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class FarIsNear(OnAGrid):
    sign = 1


class TwoKinds(OnAGrid):
    """A bias that is 1 between different tokens holds no distances."""

    def __init__(self):
        super().__init__()
        self.bias = (1 - torch.eye(7)).expand(HEADS, 7, 7)


def test_distances_on_a_grid_that_are_subtracted_are_right():
    assert diagnose(OnAGrid(), X, causal=False, lengths=[7]).ok


def test_distances_on_a_grid_that_are_added_have_the_wrong_sign():
    report = diagnose(FarIsNear(), X, causal=False, lengths=[7])
    assert report.mistakes == ("bias-wrong-sign",), report.in_words()


def test_a_bias_between_different_tokens_is_no_distance():
    assert diagnose(TwoKinds(), X, causal=False, lengths=[7]).ok


class KeysFirst(nn.Module):
    """Scores are laid out (key, query), as some courses do, so that softmax runs over the last axis but one."""

    def __init__(self, axis=-2):
        super().__init__()
        self.axis = axis
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)) for layer in (self.query, self.key, self.value))
        scores = torch.einsum("bqhd,bkhd->bhkq", q, k) / q.shape[-1] ** 0.5
        context = torch.einsum("bhkq,bkhd->bqhd", scores.softmax(self.axis), v)
        return self.out(context.flatten(2))


def test_names_say_whether_softmax_has_the_wrong_axis_or_weights_are_transposed():
    assert diagnose(KeysFirst(), X, causal=False).ok
    assert diagnose(KeysFirst(axis=-1), X, causal=False).mistakes == ("softmax-wrong-axis",)


class Packed(nn.Module):
    """Weights that are transposed, behind one projection whose name names all roles."""

    def __init__(self):
        super().__init__()
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.query_key_value(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights.mT @ v).transpose(1, 2).flatten(2))


def test_a_name_of_several_roles_says_nothing_about_the_axis_of_softmax():
    assert diagnose(Packed(), X, causal=False).mistakes == ("weights-transposed",)


class PaddedHead(nn.Module):
    """One head of causal attention without the keys of padding, whose own rows become 0."""

    def __init__(self, inverted):
        super().__init__()
        self.inverted = inverted
        self.query, self.key, self.value = (nn.Linear(WIDTH, 4, bias=False) for _ in range(3))

    def forward(self, x, kept):
        scores = self.query(x) @ self.key(x).mT / 2
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        hidden = future | (kept == self.inverted)[:, None]
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ self.value(x) * kept[..., None]


class Padded(nn.Module):
    def __init__(self, inverted):
        super().__init__()
        self.heads = nn.ModuleList(PaddedHead(inverted) for _ in range(HEADS))
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, kept):
        return self.proj(torch.cat([head(x, kept) for head in self.heads], dim=-1))


@pytest.mark.parametrize(("inverted", "found"), [(False, ()), (True, ("mask-inverted",))])
def test_rows_of_nan_behind_an_inverted_mask_are_not_said_to_mix_nothing(inverted, found):
    kept = torch.arange(7) < torch.tensor([7, 5])[:, None]
    report = diagnose(Padded(inverted), X, keep=kept[:, None, None], call=lambda a, x: a(x, kept.to(x.device)))
    assert report.mistakes == found, report.in_words()


class BehindANorm(nn.Module):
    """Attention over pixels behind a norm over all of them; softmax is computed in float32."""

    def __init__(self, back=True):
        super().__init__()
        self.back, self.norm = back, nn.GroupNorm(4, WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        tokens = self.norm(x).flatten(2).mT
        q, k, v = self.q(tokens), self.k(tokens), self.v(tokens)
        weights = (q @ k.mT / WIDTH**0.5).float().softmax(-1)
        context = (weights.to(v.dtype) if self.back else weights) @ v
        return x + self.out(context).mT.view_as(x)


@pytest.mark.parametrize(("back", "found"), [(True, ()), (False, ("dtype-pinned",))])
def test_dtypes_are_tried_where_attention_stands_behind_a_norm_over_tokens(back, found):
    report = diagnose(BehindANorm(back), torch.randn(2, WIDTH, 2, 3), causal=False, num_heads=1)
    assert report.mistakes == found, report.in_words()


class TemplatesFirst(nn.Module):
    """The first tokens see each other, and the others see all; one part of the keys is named and not read by itself."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        q_first, q_rest = torch.split(q, [3, 4], dim=2)
        k_first, k_rest = torch.split(k, [3, 4], dim=2)  # noqa: RUF059
        v_first, v_rest = torch.split(v, [3, 4], dim=2)  # noqa: RUF059
        first = (q_first @ k_first.mT / 2).softmax(-1) @ v_first
        rest = (q_rest @ k.mT / 2).softmax(-1) @ v
        return self.out(torch.cat([first, rest], dim=2).transpose(1, 2).flatten(2))


def test_a_part_of_a_tensor_that_is_read_as_a_whole_is_not_unused():
    keep = (torch.arange(7)[:, None] >= 3) | (torch.arange(7) < 3)
    report = diagnose(TemplatesFirst(), X, causal=False, keep=keep, lengths=[7])
    assert report.ok, report.in_words()


class TokensFirst(nn.Module):
    """A layer of (token, batch, width) that adds positions to queries and keys; its attention has another order."""

    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x, positions):
        normed = self.norm(x)
        queries = normed + positions
        return x + self.attention(queries, queries, value=normed, need_weights=False)[0]


def test_samples_that_influence_each_other_are_why_positions_seem_unused():
    def call(layer, x):
        angles = torch.outer(torch.arange(x.shape[1], device=x.device), 5.0 ** -torch.arange(6, device=x.device))
        positions = torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)[:, None]
        return layer(x.transpose(0, 1), positions.expand(-1, len(x), -1)).transpose(0, 1)

    report = diagnose(TokensFirst().eval(), X, causal=False, num_heads=HEADS, call=call)
    assert report.mistakes == ("batch-mixed",), report.in_words()
