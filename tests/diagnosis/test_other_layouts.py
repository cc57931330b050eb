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


@pytest.mark.parametrize("mistake", WRONG)
def test_attentions_over_patches_are_examined_with_the_tokens_on_the_first_axis(mistake):
    report = diagnose(Patches(mistake), IMAGE, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report
    assert [one.missing for one in report.attentions] == ["", ""], report


class Pooling(Base):
    """The mean of the tokens reads them: one row comes out."""

    def forward(self, x):
        return self.attend(x.mean(1, keepdim=True), x)[:, 0]


class PoolingTokensFirst(TokensFirst):
    def forward(self, x):
        x = x.transpose(0, 1)
        return self.attend(x.mean(0, keepdim=True), x)[0]


class Classifier(Base):
    """One layer, and then the mean of its tokens."""

    def forward(self, x):
        return self.attend(x, x).mean(1)


@pytest.mark.parametrize("kind", [Pooling, PoolingTokensFirst, Classifier])
@pytest.mark.parametrize("mistake", WRONG)
def test_attention_with_one_row_for_all_tokens_is_examined(kind, mistake):
    report = diagnose(kind(mistake, output_dim=8), X, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


class WithoutProducts(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(D, 1)

    def forward(self, x):
        return (self.score(x).softmax(1) * x).sum(1)


def test_a_weighted_mean_of_the_tokens_is_not_examined():
    report = diagnose(WithoutProducts(), X, causal=False)
    assert report.exit_status == 2 and "one row for all tokens" in report.findings[0].title, report


class ConvolvedTogether(Base):
    """Queries, keys and values come from one convolution that gets (batch, width, token)."""

    def __init__(self, mistake="", output_dim=D):
        super().__init__(mistake, output_dim)
        self.qkv, self.conv = nn.Linear(D, 3 * D), nn.Conv1d(3 * D, 3 * D, 3, padding=2, groups=3 * D)
        self.to_q = self.to_k = self.to_v = nn.Identity()

    def forward(self, x):
        qkv = self.conv(self.qkv(x).mT)[..., : x.shape[1]].mT
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-2 if self.mistake == "axis" else -1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("mistake", ["", "scale"])
def test_one_convolution_of_queries_keys_and_values_is_no_wrong_view(mistake):
    report = diagnose(ConvolvedTogether(mistake), X, num_heads=HEADS)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


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


class PooledWidthFirst(WidthFirst):
    """The mean of an image's tokens reads them, all of them behind their width."""

    def forward(self, x):
        tokens = x.flatten(2)
        return super().forward(torch.cat([tokens.mean(-1, keepdim=True), tokens], dim=-1))[..., 0]


class KeysPooledByHead(Base):
    """Each head's keys and values are those of a smaller grid, made by a convolution behind the projection."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.pool = nn.Conv2d(HEAD_DIM, HEAD_DIM, 2, stride=2, groups=HEAD_DIM)

    def pooled(self, heads):
        grid = heads.flatten(0, 1).mT.unflatten(2, (4, 4))
        return self.pool(grid).flatten(2).mT.unflatten(0, heads.shape[:2])

    def forward(self, x):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.to_q, self.to_k, self.to_v))
        scores = q @ self.pooled(k).mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        weights = scores.softmax(-2 if self.mistake == "axis" else -1)
        return self.to_out((weights @ self.pooled(v)).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("mistake", WRONG)
def test_one_row_is_pooled_from_tokens_behind_their_width(mistake):
    report = diagnose(PooledWidthFirst(mistake), IMAGE.repeat(1, 3, 1, 1)[:, :D, :3, :3], num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


@pytest.mark.parametrize("mistake", WRONG)
def test_keys_pooled_head_by_head_are_examined(mistake):
    x = torch.randn(2, 16, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(KeysPooledByHead(mistake), x, num_heads=HEADS, causal=False, lengths=[16])
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


class PooledQueries(Base):
    """As many pooled queries as heads, compared in the fused kernel or in single operations."""

    def forward(self, x):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.to_q, self.to_k, self.to_v))
        q = q.unflatten(2, (2, -1)).max(2).values
        scale = 1.0 if self.mistake == "scale" else HEAD_DIM**-0.5
        if self.mistake == "axis":
            heads = (q @ k.mT * scale).softmax(-2) @ v
        else:
            heads = nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
        return self.to_out(heads.transpose(1, 2).flatten(2))


class LearnedQuery(Base):
    """One row for a sample, asked for by a learned query that no layer projects."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.to_q = None
        self.query = nn.Parameter(torch.randn(1, HEADS, 1, HEAD_DIM))

    def forward(self, x):
        k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.to_k, self.to_v))
        scores = self.query.expand(len(x), -1, -1, -1) @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        return self.to_out((scores.softmax(-1) @ v).flatten(1))


@pytest.mark.parametrize("mistake", WRONG)
def test_as_many_pooled_queries_as_heads(mistake):
    report = diagnose(PooledQueries(mistake), X, num_heads=HEADS, causal=False, lengths=[6])
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


@pytest.mark.parametrize("mistake", ["", "scale"])
def test_a_learned_query_needs_no_projection(mistake):
    report = diagnose(LearnedQuery(mistake), X, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


class NormOverTokens(WidthFirst):
    """Tokens behind their width, normalised together, ask a context."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.qkv, self.kv = nn.Conv1d(D, D, 1), nn.Conv1d(D, 2 * D, 1)

    def forward(self, x, context):
        q = self.qkv(self.norm(x)).unflatten(1, (HEADS, -1)).mT
        k, v = self.kv(self.norm(context)).unflatten(1, (2, HEADS, -1)).mT.unbind(1)
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        return x + self.out((scores.softmax(-1) @ v).mT.flatten(1, 2))


@pytest.mark.parametrize("mistake", ["", "scale"])
def test_a_norm_over_the_tokens_that_ask_a_context_leaks_nothing(mistake):
    context = torch.randn(2, 7, D, generator=torch.Generator().manual_seed(2))
    report = diagnose(
        NormOverTokens(mistake), X, num_heads=HEADS, context=context, call=lambda m, x, c: m(x.mT, c.mT).mT
    )
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


class AskedByOnes(Base):
    """One row, asked for by a constant that is given the dtype of x; heads are a batch, and it needs float32."""

    def forward(self, x):
        ones = torch.ones(len(x), 1, D).type(x.dtype).to(x.device)
        q, k, v = (
            torch.cat([one @ head.T for head in layer.weight.chunk(HEADS)])
            for layer, one in ((self.to_q, ones), (self.to_k, x), (self.to_v, x))
        )
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        weights = scores.float().softmax(-1)
        weights = weights.to(v.dtype) if v.dtype.itemsize == 2 else weights
        return self.to_out(torch.cat((weights @ v).split(len(x)), dim=-1))[:, 0]


@pytest.mark.parametrize("mistake", ["", "scale"])
def test_constant_queries_are_put_in_place_in_each_run(mistake):
    code = AskedByOnes(mistake)
    code.to_q, code.to_k, code.to_v = (nn.Linear(D, D, bias=False) for _ in range(3))
    report = diagnose(code, X, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG[mistake] and report.exit_status == int(bool(mistake)), report


class BlockOfTokensFirst(nn.Module):
    def __init__(self, batch_first=False):
        super().__init__()
        torch.manual_seed(1)
        self.norm, self.inner = nn.LayerNorm(D), nn.MultiheadAttention(D, HEADS, batch_first=batch_first)

    def forward(self, x):
        rows = self.norm(x)
        return x + self.inner(rows, rows, rows, need_weights=False)[0]


class AmongSamples(Base):
    """Gets (batch, token, width), of which tokens attend to each other, and then the first sample is added to all."""

    def forward(self, x):
        return x[:1] + self.attend(x, x)


def test_how_to_call_code_with_tokens_on_the_first_axis_is_said_with_the_samples_that_seem_to_influence_each_other():
    report = diagnose(BlockOfTokensFirst(), X, num_heads=HEADS, causal=False)
    way_out = "give `call=lambda a, x: a(x.transpose(0, 1)).transpose(0, 1)`"
    assert report.mistakes == ("batch-mixed",) and report.findings[0].evidence.endswith(way_out), report
    as_said = eval(way_out.removeprefix("give `call=").removesuffix("`"))
    assert diagnose(BlockOfTokensFirst(), X, num_heads=HEADS, causal=False, call=as_said).ok
    report = diagnose(BlockOfTokensFirst(batch_first=True), X, num_heads=HEADS, causal=False, call=as_said)
    assert report.mistakes == ("batch-mixed",) and "or not at all" in report.findings[0].evidence, report


def test_nothing_is_said_of_the_first_axis_to_code_that_adds_another_sample():
    report = diagnose(AmongSamples(), X, num_heads=HEADS, causal=False)
    assert "batch-mixed" in report.mistakes and "first axis" not in str(report), report


class Frames(Base):
    """Adds positions to each of four frames of every patch; `most`: of how many tokens; `lead`: tokens before them."""

    def __init__(self, lead=0, most=99, patches=-1):
        super().__init__()
        self.frames = nn.Parameter(torch.randn(4, D))
        self.lead, self.most, self.patches = lead, most, patches

    def forward(self, x):
        if x.shape[1] > self.most:
            raise ValueError(f"at most {self.most} tokens")
        first, tokens = x[:, : self.lead], x[:, self.lead :]
        moved = (tokens.reshape(len(x), self.patches, 4, D) + self.frames).flatten(1, 2)
        rows = torch.cat([first, moved], dim=1)
        return self.attend(rows, rows)


@pytest.mark.parametrize(("count", "lead", "most"), [(8, 0, 99), (8, 0, 8), (9, 1, 99), (17, 1, 17)])
def test_multiples_of_a_number_of_frames_are_no_fixed_length(count, lead, most):
    x = torch.randn(2, count, D, generator=torch.Generator().manual_seed(2))
    report = diagnose(Frames(lead, most), x, num_heads=HEADS, causal=False)
    assert report.ok, report
    fixed = diagnose(Frames(lead, most, patches=count // 4), x, num_heads=HEADS, causal=False)
    assert fixed.mistakes == ("fixed-length",), fixed


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


class QueriesScaledInPlace(nn.Module):
    """Attention over a grid whose queries, keys and values are parts of what one convolution makes."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.qkv, self.out = nn.Conv2d(D, 3 * D, 3, padding=1), nn.Conv2d(D, D, 1)

    def forward(self, x):
        q, k, v = (part.flatten(2).mT.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, 1))
        q *= self.scale
        return self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2).mT.view(x.shape))


@pytest.mark.parametrize(("scale", "mistakes"), [(HEAD_DIM**-0.5, ()), (0.4, ("wrong-scale",))])
def test_queries_may_be_scaled_in_the_memory_of_the_keys(scale, mistakes):
    torch.manual_seed(3)
    report = diagnose(QueriesScaledInPlace(scale), torch.randn(2, D, 3, 4), causal=False)
    assert report.mistakes == mistakes and report.exit_status == len(mistakes), report


class RowsAndColumns(nn.Module):
    """Half of the width attends along the rows of a grid, the other half along its columns."""

    def __init__(self):
        super().__init__()
        layers = (nn.MultiheadAttention(D, 4, batch_first=True) for _ in range(2))
        self.along_columns, self.along_rows = layers

    def forward(self, x):
        first, second = x.chunk(2, -1)
        columns, rows = first.transpose(1, 2).flatten(0, 1), second.flatten(0, 1)
        columns, _ = self.along_columns(columns, columns, columns, need_weights=False)
        rows, _ = self.along_rows(rows, rows, rows, need_weights=False)
        return torch.cat([columns.view(len(x), 4, 3, D).transpose(1, 2), rows.view(second.shape)], -1)


class Encoded(nn.Module):
    """A class token in front of the tokens goes through the encoder of PyTorch, and is the output."""

    def __init__(self):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, D))
        layer = nn.TransformerEncoderLayer(D, 4, 17, batch_first=True, norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(D, 5)

    def forward(self, x):
        return self.head(self.encoder(torch.cat([self.cls.expand(len(x), 1, D), x], 1))[:, 0])


@pytest.mark.parametrize(("code", "x"), [(RowsAndColumns, torch.randn(2, 3, 4, 2 * D)), (Encoded, X)])
def test_the_fast_path_of_pytorch_is_no_cache(code, x):
    report = diagnose(code(), x, causal=False)
    assert report.ok and not any(one.missing for one in report.attentions), report


class LastAsks(nn.Module):
    """In the second of two attentions the first token alone asks; a head is as wide as there are tokens."""

    def __init__(self, scale=HEAD_DIM**-0.5):
        super().__init__()
        self.scale, self.first = scale, nn.Parameter(torch.randn(1, 1, D))
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(D, D) for _ in range(4)) for _ in range(2))

    def attend(self, layers, asking, x):
        q, k, v = (layer(given) for layer, given in zip(layers[:3], (asking, x, x), strict=True))
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2).flatten(0, 1) for part in (q, k, v))
        heads = (q @ k.mT * self.scale).softmax(-1) @ v
        return layers[3](heads.unflatten(0, (-1, HEADS)).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = torch.cat([self.first.expand(len(x), 1, D), x], dim=1)
        x = x + self.attend(self.layers[0], x, x)
        return (x[:, :1] + self.attend(self.layers[1], x[:, :1], x)).flatten(1)


@pytest.mark.parametrize(("scale", "mistakes"), [(HEAD_DIM**-0.5, ()), (1.0, ("missing-scale",))])
def test_one_token_that_asks_is_no_row_of_several(scale, mistakes):
    report = diagnose(LastAsks(scale), X[:, :HEAD_DIM], causal=False)
    assert report.mistakes == mistakes and [one.missing for one in report.attentions] == ["", ""], report
