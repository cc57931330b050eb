"""Attention in code that lays tokens out otherwise, or gives one row for all of them, is examined as any other."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(8)

HEADS, HEAD_DIM, D = 3, 4, 12
NOISE = torch.Generator().manual_seed(0)
X, IMAGE = torch.randn(2, 6, D, generator=NOISE), torch.randn(2, 5, 6, 6, generator=NOISE)
WRONG = {"": (), "scale": ("missing-scale",), "axis": ("softmax-wrong-axis",)}


class Base(nn.Module):
    """Attention of (batch, token, width), right or with a mistake."""

    def __init__(self, mistake="", output_dim=D):
        super().__init__()
        torch.manual_seed(1)
        self.mistake = mistake
        self.to_q, self.to_k, self.to_v = (nn.Linear(D, D) for _ in range(3))
        self.to_out = nn.Linear(D, output_dim)

    def attend(self, queries, context):
        parts = self.to_q(queries), self.to_k(context), self.to_v(context)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        return self.to_out((scores.softmax(-2 if self.mistake == "axis" else -1) @ v).transpose(1, 2).flatten(2))


class TokensFirst(Base):
    """Gets and returns (token, batch, width), as nn.MultiheadAttention does."""

    def attend(self, queries, context):
        return super().attend(queries.transpose(0, 1), context.transpose(0, 1)).transpose(0, 1)


class Patches(TokensFirst):
    """A vision transformer whose blocks get (token, batch, width); its output is narrower than its attention."""

    def __init__(self, mistake="", output_dim=7):
        super().__init__(mistake)
        self.patches, self.first = nn.Conv2d(5, D, 2, stride=2), nn.Parameter(torch.randn(D))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.head = nn.Linear(D, output_dim)

    def forward(self, image):
        tokens = self.patches(image).flatten(2).permute(2, 0, 1)
        tokens = torch.cat([self.first.expand(1, tokens.shape[1], -1), tokens])
        for norm in self.norms:
            rows = norm(tokens)
            tokens = tokens + self.attend(rows, rows)
        return self.head(tokens[0])


@pytest.mark.slow
@pytest.mark.parametrize("mistake", WRONG)
def test_attentions_over_patches_are_examined_with_the_tokens_on_the_first_axis(mistake):
    report = diagnose(Patches(mistake), IMAGE, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report
    assert [one.missing for one in report.attentions] == ["", ""], report


class ConvolvedByHead(Base):
    """Queries, keys and values of each head but the first come from causal convolutions with a kernel of its own."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.qkv = nn.Linear(D, 3 * D)
        self.to_q = self.to_k = self.to_v = nn.Identity()
        convs = [[nn.Conv1d(HEAD_DIM, HEAD_DIM, size, groups=HEAD_DIM) for size in (2, 3)] for _ in range(3)]
        self.convs = nn.ModuleList(map(nn.ModuleList, convs))

    def forward(self, x):
        parts = (part.unflatten(-1, (HEADS, -1)).unbind(-2) for part in self.qkv(x).chunk(3, -1))
        q, k, v = (self.convolved(heads, convs) for heads, convs in zip(parts, self.convs, strict=True))
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later.mT if self.mistake == "mask" else later, -torch.inf).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))

    def convolved(self, heads, convs):
        first, *others = (head.mT for head in heads)
        ahead = 1 if self.mistake == "ahead" else 0
        padded = (F.pad(one, (c.kernel_size[0] - 1 - ahead, ahead)) for one, c in zip(others, convs, strict=True))
        return torch.stack([first, *(c(one) for one, c in zip(padded, convs, strict=True))], dim=1).mT


@pytest.mark.parametrize(
    ("mistake", "named"), [("", ()), ("scale", ("missing-scale",)), ("mask", ("mask-transposed",))]
)
def test_heads_with_convolutions_of_their_own_may_be_causal(mistake, named):
    report = diagnose(ConvolvedByHead(mistake), X, num_heads=HEADS)
    assert report.mistakes == named and report.exit_status == int(bool(mistake)), report


def test_a_convolution_that_reads_the_next_token_is_seen_from_outside():
    report = diagnose(ConvolvedByHead("ahead"), X, num_heads=HEADS)
    assert report.exit_status == 1 and "moves when token" in report.findings[0].evidence, report


class WidthFirst(nn.Module):
    """Gets and returns (batch, width, token), or (batch, width, row, column), by convolutions."""

    def __init__(self, mistake="", *, talking=False):
        super().__init__()
        torch.manual_seed(1)
        self.mistake, self.norm = mistake, nn.GroupNorm(1, D)
        self.qkv, self.out = nn.Conv1d(D, 3 * D, 1), nn.Conv1d(D, D, 1)
        self.talk = nn.Conv2d(HEADS, HEADS, 1) if talking else nn.Identity()

    def forward(self, x):
        shape = x.shape
        q, k, v = self.qkv(self.norm(x.flatten(2))).unflatten(1, (3, HEADS, -1)).mT.unbind(1)
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        weights = scores.softmax(-2 if self.mistake == "axis" else -1)
        return x + self.out((self.talk(weights) @ v).mT.flatten(1, 2)).view(shape)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.parametrize("count", [5, 7])
def test_tokens_may_come_behind_their_width(mistake, count):
    x = torch.randn(2, D, count, generator=torch.Generator().manual_seed(0))
    report = diagnose(WidthFirst(mistake), x, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


def test_the_first_layer_says_where_the_width_of_an_image_is():
    image = torch.randn(2, D, HEADS, HEADS, generator=torch.Generator().manual_seed(0))  # as wide as heads are many
    report = diagnose(WidthFirst(talking=True), image, num_heads=HEADS, causal=False)
    assert report.ok and "9 tokens" in report.in_words(), report


class OfIds(TokensFirst):
    """A model of ids (token, batch)."""

    def __init__(self, mistake=""):
        super().__init__(mistake, output_dim=11)
        self.embed = nn.Embedding(11, D)

    def forward(self, ids):
        x = self.embed(ids)
        return self.attend(x, x)


@pytest.mark.parametrize("mistake", WRONG)
def test_ids_may_come_with_the_tokens_on_the_first_axis(mistake):
    ids = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(0))
    call = lambda model, ids: model(ids.T).transpose(0, 1)  # noqa: E731
    report = diagnose(OfIds(mistake), ids, num_heads=HEADS, causal=False, call=call)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


class Packed(nn.Module):
    """Attention whose queries, keys and values come out of one layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class OverTimeAndSpace(nn.Module):
    """Every patch attends to itself in the other frames, and then every frame's patches to each other."""

    def __init__(self, mixes=False):
        super().__init__()
        self.time, self.space, self.mixes = Packed(), Packed(), mixes

    def forward(self, x):
        by_patch = (len(x), -1, 4, D)
        x = x + self.time(x.reshape(by_patch).flatten(0, 1)).reshape(x.shape)
        frames = x.reshape(by_patch).transpose(1, 2)
        moved = self.space(frames.flatten(0, 1)).reshape(frames.shape)
        return x + moved.transpose(1, 2).reshape(x.shape) + (x[:1] if self.mixes else 0)


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "patches"), [(2, 2), (3, 3)])
def test_rows_of_parts_of_samples_are_not_said_to_influence_other_samples(batch, patches):
    x = torch.randn(batch, 4 * patches, D, generator=torch.Generator().manual_seed(2))
    given = {"causal": False, "lengths": [4 * patches]}
    report = diagnose(OverTimeAndSpace(), x, **given)
    assert "batch-mixed" not in report.mistakes and not report.attentions[1].findings, report
    assert "batch-mixed" in diagnose(OverTimeAndSpace(mixes=True), x, **given).mistakes
    assert diagnose(OverTimeAndSpace(), x, causal=False).ok
