"""Attention of unusual shapes is examined: what is right is called right, and what is wrong is found."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(8)

HEADS, HEAD_DIM, D = 3, 4, 12
X = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Projections of queries, keys and values, and of the heads' results."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(-2, -3)

    def attend(self, queries, keys, values, scale=HEAD_DIM**-0.5):
        q, k, v = self.split(self.to_q(queries)), self.split(self.to_k(keys)), self.split(self.to_v(values))
        return self.to_out(((q @ k.mT * scale).softmax(-1) @ v).transpose(-2, -3).flatten(-2))


# --- weights that are zeros before training ---


class ZeroInit(Base):
    """A residual block whose output projection, or the scale of whose branch, is 0 before training."""

    def __init__(self, zero, scale=HEAD_DIM**-0.5):
        super().__init__()
        self.scale, self.gamma = scale, nn.Parameter(torch.zeros(D) if zero == "gamma" else torch.ones(D))
        if zero == "to_out":
            nn.init.zeros_(self.to_out.weight)

    def forward(self, x):
        return x + self.gamma * self.attend(x, x, x, self.scale)


@pytest.mark.parametrize("zero", ["to_out", "gamma"])
def test_weights_that_are_zeros_are_examined_with_random_numbers(zero):
    report = diagnose(ZeroInit(zero), X, num_heads=HEADS, causal=False)
    assert report.ok and any(f"`{zero}" in one and "all zeros" in one for one in report.remarks), report
    report = diagnose(ZeroInit(zero, scale=D**-0.5), X, num_heads=HEADS, causal=False)
    assert [finding.mistake for finding in report.findings] == ["wrong-scale"], report


class Unmixed(ZeroInit):
    def forward(self, x):
        self.attend(x, x, x)
        return x + self.gamma * self.to_out(self.to_v(x))


def test_weights_that_are_not_applied_are_found_among_zeros():
    report = diagnose(Unmixed("to_out"), X, num_heads=HEADS, causal=False)
    assert "weights-not-applied" in [finding.mistake for finding in report.findings], report


# --- rows that are no tokens of x, or not the same ones ---

WRONG = {"scale": ("missing-scale",), "axis": ("softmax-wrong-axis",), "merge": ("merge-without-transpose",)}


class Rows(nn.Module):
    """Attention of rows with rows, right or with a mistake."""

    def __init__(self, mistake=""):
        super().__init__()
        torch.manual_seed(1)
        self.mistake = mistake
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))

    def attend(self, queries, keys, values, keep=None):
        parts = (self.to_q(queries), self.to_k(keys), self.to_v(values))
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for part in parts)
        scores = q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5)
        scores = scores if keep is None else scores.masked_fill(~keep.unsqueeze(-3), -torch.inf)
        heads = scores.softmax(-2 if self.mistake == "axis" else -1) @ v
        heads = heads if self.mistake == "merge" else heads.transpose(-2, -3)
        return self.to_out(heads.reshape(queries.shape))


class LearnedQueries(Rows):
    """As many rows as there are learned queries, however many tokens x has."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.latents = nn.Parameter(torch.randn(4, D))

    def forward(self, x):
        latents = self.latents.expand(len(x), -1, -1)
        return self.attend(latents, x, x)


class Resampler(LearnedQueries):
    """Two layers of learned queries, which are keys as well."""

    def forward(self, x):
        rows = self.latents.expand(len(x), -1, -1)
        for _ in range(2):
            keys = torch.cat([x, rows], dim=1)
            rows = rows + self.attend(rows, keys, keys)
        return rows


class ReadByLatents(LearnedQueries):
    """Latents read x, and x reads the latents."""

    def forward(self, x):
        latents = self.attend(self.latents.expand(len(x), -1, -1), x, x)
        return x + self.attend(x, latents, latents)


class Convolved(Rows):
    """Queries, keys and values of several neighbours each, on a grid of 2 x 4."""

    def __init__(self, mistake="", stride=1):
        super().__init__(mistake)
        self.of_queries = nn.Conv2d(D, D, 3, padding=1, groups=D)
        self.of_keys, self.of_values = (nn.Conv2d(D, D, 3, stride, padding=1, groups=D) for _ in range(2))

    def forward(self, x):
        grid = x.mT.unflatten(-1, (2, 4))
        return self.attend(*(conv(grid).flatten(2).mT for conv in (self.of_queries, self.of_keys, self.of_values)))


class ConvolvedAndFewer(Convolved):
    def __init__(self, mistake=""):
        super().__init__(mistake, stride=2)


class Axes(Rows):
    """Attention along the rows of a grid of 2 x 4, and then along its columns."""

    def forward(self, x):
        grid = x.unflatten(1, (2, 4))
        grid = grid + self.attend(*[grid.flatten(0, 1)] * 3).view(grid.shape)
        columns = grid.transpose(1, 2)
        columns = columns + self.attend(*[columns.flatten(0, 1)] * 3).view(columns.shape)
        return columns.transpose(1, 2).flatten(1, 2)


class FirstToken(Rows):
    """Only the first token attends, so that there is one row."""

    def forward(self, x):
        return self.attend(x[:, :1], x, x)


KINDS = [LearnedQueries, Resampler, ReadByLatents, Convolved, ConvolvedAndFewer, Axes, FirstToken]
EIGHT = torch.randn(2, 8, D, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_attention_over_other_rows_than_tokens_is_examined(kind):
    report = diagnose(kind(), EIGHT, num_heads=HEADS, causal=False, lengths=[8])
    assert report.exit_status == 0 and report.attentions, report


# --- heads that are mixed ---


class Talking(Rows):
    """Scores and weights that are mixed over the heads, written in one of three ways."""

    def __init__(self, mistake="", way="linear"):
        super().__init__(mistake)
        self.way = way
        self.linears = nn.ModuleList(nn.Linear(HEADS, HEADS) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(HEADS, HEADS, 1) for _ in range(2))
        self.matrices = nn.ParameterList(torch.randn(HEADS, HEADS) for _ in range(2))
        self.norm = nn.LayerNorm(HEADS)
        for name in {"linear": ("convs", "matrices", "norm"), "conv": ("linears", "matrices", "norm"),
                     "einsum": ("convs", "linears")}[way]:  # fmt: skip
            delattr(self, name)

    def mix(self, scores, index):
        if self.way == "linear":
            return self.linears[index](scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        if self.way == "conv":
            return self.convs[index](scores)
        mixed = torch.einsum("bhij,hg->bgij", scores, self.matrices[index])
        return self.norm(mixed.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def forward(self, x):
        parts = (self.to_q(x), self.to_k(x), self.to_v(x))
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        scores = self.mix(q @ k.mT * (1.0 if self.mistake == "scale" else HEAD_DIM**-0.5), 0)
        heads = self.mix(scores.softmax(-2 if self.mistake == "axis" else -1), 1) @ v
        heads = heads if self.mistake == "merge" else heads.transpose(1, 2)
        return self.to_out(heads.reshape(x.shape))


@pytest.mark.parametrize("mistake", ["", *WRONG])
@pytest.mark.parametrize("way", ["linear", "conv", "einsum"])
def test_heads_that_are_mixed_are_examined(way, mistake):
    report = diagnose(Talking(mistake, way), X, num_heads=HEADS, causal=False)
    assert report.mistakes[:1] == WRONG.get(mistake, ()), report
    assert report.exit_status == int(bool(mistake)) and (mistake or "mixed" in str(report.remarks)), report


# --- tokens with several axes ---


class Grid(Rows):
    """Attention along one axis of a grid (batch, row, column, width), or within windows of 2 x 2, or over all of it."""

    def __init__(self, mistake="", way="columns"):
        super().__init__(mistake)
        self.way = way

    def forward(self, grid):
        if self.way == "all":
            return self.attend(*[grid.flatten(1, 2)] * 3).view(grid.shape)
        if self.way == "rows":
            return self.attend(grid, grid, grid)
        if self.way == "columns":
            columns = grid.transpose(1, 2)
            return self.attend(columns, columns, columns).transpose(1, 2)
        batch, rows, columns, _ = grid.shape
        windows = grid.view(batch, rows // 2, 2, columns // 2, 2, D).transpose(2, 3)
        out = self.attend(*[windows.flatten(3, 4).flatten(1, 2)] * 3)
        return out.view(windows.shape).transpose(2, 3).reshape(grid.shape)


class ImageByTables(Grid):
    """The pixels of (batch, width, row, column) by matrices that are parameters, without a layer that has a width."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        for name in ("to_q", "to_k", "to_v", "to_out"):
            setattr(self, name, Matrix())

    def forward(self, image):
        pixels = image.permute(0, 2, 3, 1).flatten(1, 2)
        return self.attend(pixels, pixels, pixels).unflatten(1, image.shape[2:]).permute(0, 3, 1, 2).contiguous()


class Matrix(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(D, D) * D**-0.5)

    def forward(self, x):
        return torch.tensordot(x, self.table, 1)


@pytest.mark.parametrize("mistake", ["", "axis"])
def test_the_axis_of_the_width_is_known_from_any_parameters(mistake):
    x = torch.randn(2, D, 2, 3, generator=torch.Generator().manual_seed(0))
    report = diagnose(ImageByTables(mistake), x, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG.get(mistake, ()) and report.exit_status == int(bool(mistake)), report


class ByRowOfKeys(Grid):
    """The keys of each pixel are the rows and columns of a grid, and softmax runs over both, or over columns alone."""

    def forward(self, grid):
        batch, rows, columns, _ = grid.shape
        parts = (part(grid.flatten(1, 2)) for part in (self.to_q, self.to_k, self.to_v))
        q, k, v = (part.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for part in parts)
        scores = (q @ k.mT * HEAD_DIM**-0.5).unflatten(-1, (rows, columns))
        weights = scores.softmax(-1) if self.mistake else scores.flatten(-2).softmax(-1).view(scores.shape)
        return self.to_out((weights.flatten(-2) @ v).transpose(1, 2).reshape(batch, rows, columns, D))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["", "axis"])
def test_softmax_over_one_of_the_axes_of_the_keys_is_named(mistake):
    x = torch.randn(2, 2, 3, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(ByRowOfKeys(mistake), x, num_heads=HEADS, causal=False)
    assert report.mistakes == WRONG.get(mistake, ()) and report.exit_status == int(bool(mistake)), report


class WindowsOfRow(Grid):
    """Windows of 2 x 2 of a grid of 4 x 4 whose tokens come in a row, perhaps shifted by one, as in Swin."""

    def __init__(self, mistake="", shift=0):
        super().__init__(mistake)
        self.shift = shift

    def forward(self, x):
        grid = x.unflatten(1, (4, 4)).roll((-self.shift, -self.shift), (1, 2))
        region = (torch.arange(4, device=x.device) + 4 - self.shift) // 4  # shifted windows hold what was far apart
        region = self.windows((2 * region[:, None] + region)[None, :, :, None])[..., 0]
        given = self.windows(grid)
        out = self.attend(given, given, given, region[..., :, None] == region[..., None, :])
        out = out.unflatten(2, (2, 2)).unflatten(1, (2, 2)).transpose(2, 3).reshape(grid.shape)
        return out.roll((self.shift, self.shift), (1, 2)).flatten(1, 2)

    def windows(self, grid):
        return grid.unflatten(2, (2, 2)).unflatten(1, (2, 2)).transpose(2, 3).flatten(3, 4).flatten(1, 2)


class Unfolded(WindowsOfRow):
    """Windows that one operation makes: unfold, or one that hides the columns of the heads."""

    hidden = True

    def forward(self, x):
        parts = torch.cat([self.to_q(x), self.to_k(x), self.to_v(x)], -1).mT.unflatten(2, (4, 4))
        # (batch, column * place in window, window)
        parts = F.pixel_unshuffle(parts, 2).flatten(2) if self.hidden else F.unfold(parts, 2, stride=2)
        q, k, v = parts.unflatten(1, (3, HEADS, HEAD_DIM, 4)).permute(1, 0, 5, 2, 4, 3)
        weights = (q @ k.mT * HEAD_DIM**-0.5).softmax(-2 if self.mistake == "axis" else -1)
        heads = (weights @ v).permute(0, 2, 4, 3, 1).flatten(1, 3)
        return self.to_out(F.fold(heads, (4, 4), 2, stride=2).flatten(2).mT)


@pytest.mark.parametrize("mistake", ["", "axis"])
@pytest.mark.parametrize("hidden", [True, False])
def test_heads_whose_columns_are_hidden_are_not_said_to_share_them(mistake, hidden):
    x = torch.randn(2, 16, D, generator=torch.Generator().manual_seed(0))
    module = Unfolded(mistake)
    module.hidden = hidden
    report = diagnose(module, x, num_heads=HEADS, causal=False, lengths=[16])
    assert report.mistakes == WRONG.get(mistake, ()) and bool(report.not_judged) == hidden, report


class ImageOfContext(Grid):
    """Each pixel reads a context of words."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.words = nn.Linear(7, D)

    def forward(self, image, context):
        words = self.words(context)
        return self.attend(image.flatten(2).mT, words, words).mT.view(image.shape)


@pytest.mark.parametrize("mistake", ["", *WRONG])
def test_tokens_with_several_axes_may_read_a_context(mistake):
    generator = torch.Generator().manual_seed(0)
    x, context = torch.randn(2, D, 2, 4, generator=generator), torch.randn(2, 5, 7, generator=generator)
    report = diagnose(ImageOfContext(mistake), x, num_heads=HEADS, context=context)
    assert report.exit_status == int(bool(mistake)), report
    assert mistake == "merge" or report.mistakes[:1] == WRONG.get(mistake, ()), report


class TiedRows(Base):
    """The rows of a grid share the sum of their scores, as aligned sequences do."""

    def __init__(self, at_once):
        super().__init__()
        self.at_once = at_once

    def forward(self, grid):
        q, k, v = (self.split(part(grid)) for part in (self.to_q, self.to_k, self.to_v))
        scores = torch.einsum("brhqd,brhkd->bhqk", q, k)[:, None] if self.at_once else (q @ k.mT).sum(1, keepdim=True)
        weights = (scores * (HEAD_DIM * grid.shape[1]) ** -0.5).softmax(-1)
        return self.to_out((weights @ v).transpose(-2, -3).flatten(-2))


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_tied_rows_are_not_accused(at_once, seed):
    x = torch.randn(2, 3, 5, D, generator=torch.Generator().manual_seed(seed))
    report = diagnose(TiedRows(at_once), x, num_heads=HEADS, causal=False)
    assert report.exit_status == 2 and not any(report.mistakes), report
    assert not at_once or "rows are tied" in report.findings[0].title


class WeighedRows(TiedRows):
    """The weights of an attention of the first row to all rows weigh the rows' shares in the sum of their scores."""

    def __init__(self):
        super().__init__(at_once=True)
        self.first, self.rows = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, grid):
        first, rows = (part.unflatten(-1, (HEADS, -1)) for part in (self.first(grid[:, 0]), self.rows(grid)))
        weigh = (torch.einsum("bqhd,brqhd->brqh", first, rows) * HEAD_DIM**-0.5).softmax(1)
        q, k, v = (part(grid).unflatten(-1, (HEADS, -1)) for part in (self.to_q, self.to_k, self.to_v))
        scores = torch.einsum("brqhd,brkhd->bhqk", q * weigh[..., None], k * HEAD_DIM**-0.5)
        return self.to_out(torch.einsum("bhqk,brkhd->brqhd", scores.softmax(-1), v).flatten(-2))


def test_tied_rows_that_are_weighed_are_not_accused():
    x = torch.randn(2, 3, 5, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(WeighedRows(), x, causal=False)
    assert report.exit_status == 2 and "rows are tied" in report.findings[0].title, report


# --- slots ---


class Slots(Base):
    """Learned slots compete for the tokens: softmax over the slots, and then each slot's weights are divided by their
    sum."""

    def __init__(self, divided=True, noise=0.0, added=0.0):
        super().__init__()
        self.slots, self.divided, self.noise = nn.Parameter(torch.randn(4, D)), divided, noise
        self.added = added

    def forward(self, x):
        slots = self.slots.expand(len(x), -1, -1)
        slots = slots + self.noise * torch.randn_like(slots)
        q, k, v = self.split(self.to_q(slots)), self.split(self.to_k(x)), self.split(self.to_v(x))
        weights = (q @ k.mT * HEAD_DIM**-0.5).softmax(-2) + 1e-8
        weights = weights / (weights.sum(-1, keepdim=True) + self.added) if self.divided else weights
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


def test_slots_may_compete_for_tokens():
    for added in (0.0, 1.0):
        report = diagnose(Slots(added=added), X, causal=False, num_heads=HEADS)
        assert report.ok and any("as slots do" in one for one in report.remarks), report
        assert added == 0 or not any("sum to 1" in one for one in report.checked), report
    report = diagnose(Slots(divided=False), X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("softmax-wrong-axis",), report


class OneStep(Base):
    """Takes one query at a time, as the decoder of an RNN does."""

    def forward(self, x, context):
        return self.attend(x[:, :1], context, context)


def test_one_query_at_a_time_is_told_by_lengths():
    given = {"context": torch.randn(2, 6, D), "causal": False, "num_heads": HEADS}
    assert diagnose(OneStep(), X[:, :1], lengths=[1], **given).ok
    assert diagnose(OneStep(), X[:, :1], **given).mistakes == ("fixed-length",)
