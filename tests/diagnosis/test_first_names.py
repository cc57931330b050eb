"""The cause is named first, and its line: what is written into slots, thrown away, skipped or turned round."""

import math

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(3)

BATCH, TOKENS, HEADS, HEAD_DIM, SLOTS, PROMPT = 2, 6, 3, 4, 12, 3
WIDTH = HEADS * HEAD_DIM


class Table(nn.Module):
    """Rotary positions whose cosines and sines stand in pairs, in a buffer with a name that says nothing."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(float(SLOTS)), torch.tensor([1.0, 0.1]))
        self.register_buffer("cache", torch.stack((angles.cos(), angles.sin()), dim=-1))

    def forward(self, t, at):  # (batch, head, token, head_dim)
        cosines, sines = self.cache[at].to(t).unbind(-1)
        even, odd = t.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((even * cosines - odd * sines, odd * cosines + even * sines), dim=-1).flatten(-2)


class Slots(nn.Module):
    """Right attention with a cache of slots; the classes below replace its parts."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.turn = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), Table()

    def forward(self, x, at, kept):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        q, k, v = self.positions(q, k, v, at)
        k, v = self.write(k, v, at, kept)
        return self.out(self.merge(self.weigh(q, k, v, at), x))

    def positions(self, q, k, v, at):
        return self.turn(q, at), self.turn(k, at), v

    def write(self, k, v, at, kept):
        kept[0][:, :, at] = k
        kept[1][:, :, at] = v
        return kept[0], kept[1]

    def weigh(self, q, k, v, at):
        hidden = torch.arange(k.shape[2], device=at.device) > at[:, None]
        return (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v

    def merge(self, context, x):
        return context.transpose(1, 2).reshape(x.shape)


class TurnsValues(Slots):
    def positions(self, q, k, v, at):
        q, k = self.turn(q, at), self.turn(k, at)
        v = self.turn(v, at)  # rotary-on-values
        return q, k, v


class CountsEachPiece(Slots):
    def positions(self, q, k, v, at):
        at = torch.arange(len(at), device=at.device)  # positions-restart-in-cache
        return self.turn(q, at), self.turn(k, at), v


class CountsEachPieceOfAWindow(CountsEachPiece):
    def weigh(self, q, k, v, at):
        apart = at[:, None] - torch.arange(k.shape[2], device=at.device)
        hidden = (apart < 0) | (apart > 2)
        return (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v


class TurnsKeysOnly(Slots):
    def positions(self, q, k, v, at):
        self.turn(q, at)  # rotary-unused
        return q, self.turn(k, at), v


class WritesValuesElsewhere(Slots):
    def write(self, k, v, at, kept):
        kept[0][:, :, at] = k
        kept[1][:, :, (at + 1) % TOKENS] = v  # values-misaligned
        return kept[0], kept[1]


class KeepsValuesForKeys(Slots):
    def write(self, k, v, at, kept):
        kept[0][:, :, at] = v  # scores-from-values
        kept[1][:, :, at] = v
        return kept[0], kept[1]


class MergesHeadsByReshape(Slots):
    def merge(self, context, x):
        return context.reshape(x.shape)  # merge-without-transpose


CACHED = [
    TurnsValues, CountsEachPiece, TurnsKeysOnly, WritesValuesElsewhere, KeepsValuesForKeys, MergesHeadsByReshape
]  # fmt: skip


def decode(module, x):
    kept = [x.new_zeros(len(x), HEADS, SLOTS, HEAD_DIM) for _ in range(2)]
    at = torch.arange(x.shape[1], device=x.device)
    return torch.cat([module(x[:, one], one, kept) for one in (at[:PROMPT], *at[PROMPT:].split(1))], dim=1)


def mistake_of(cls):
    lines = marked(cls, mark := next(mark for mark in MARKS if _has(cls, mark)))
    return mark, lines


MARKS = [
    "rotary-on-values", "positions-restart-in-cache", "rotary-unused", "values-misaligned", "scores-from-values",
    "merge-without-transpose",
]  # fmt: skip


def _has(cls, mark):
    try:
        return bool(marked(cls, mark))
    except AssertionError:
        return False


def draw(cls, **options):
    torch.manual_seed(1)
    return diagnose(cls(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, **options)


def test_the_slots_are_right():
    report = draw(Slots, call=decode)
    assert report.ok, report.in_words()


@pytest.mark.parametrize("cls", CACHED)
def test_a_cache_of_slots(cls):
    mark, lines = mistake_of(cls)
    report = draw(cls, call=decode)
    assert report.mistakes[0] == mark, report.in_words()
    assert report.findings[0].where in lines


def test_pieces_that_restart_where_the_first_token_is_out_of_sight():
    assert draw(CountsEachPieceOfAWindow, call=decode, window=3).mistakes == ("positions-restart-in-cache",)


class ReadsBeforeItself(Slots):
    def write(self, k, v, at, kept):
        start = int(at[0])
        kept[0][:, :, start : start + 1] = k
        kept[1][:, :, start : start + 1] = v
        return kept[0][:, :, :start], kept[1][:, :, :start]


def test_an_empty_cache_is_examined():
    def one_by_one(module, x):
        kept = [x.new_zeros(len(x), HEADS, SLOTS, HEAD_DIM) for _ in range(2)]
        return torch.cat([module(x[:, at : at + 1], torch.tensor([at]), kept) for at in range(x.shape[1])], dim=1)

    assert draw(ReadsBeforeItself, call=one_by_one).mistakes == ("token-missing-from-cache",)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        return self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)

    def weigh(self, x, hidden=None):
        q, k, v = self.heads(x)
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        hidden = torch.ones_like(scores[0, 0]).triu(1) > 0 if hidden is None else hidden
        return (scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x):
        return self.out(self.weigh(x))


class MasksWithoutCache(Plain):
    def forward(self, x, cache=None):
        q, k, v = self.heads(x)
        if cache is not None:
            k, v = (torch.cat((old, new), dim=2) for old, new in zip(cache, (k, v), strict=True))
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        if cache is None:  # skipped
            scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf)
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)), (k, v)


def test_a_mask_that_is_skipped_where_a_cache_is_given():
    def pieces(module, x):
        cache, outputs = (x.new_zeros(len(x), HEADS, 0, HEAD_DIM),) * 2, []
        for piece in (x[:, :PROMPT], *x[:, PROMPT:].split(1, dim=1)):
            output, cache = module(piece, cache)
            outputs.append(output)
        return torch.cat(outputs, dim=1)

    report = draw(MasksWithoutCache, call=pieces)
    assert report.mistakes == ("mask-skipped-when-cached",)
    assert report.findings[0].where in marked(MasksWithoutCache, "skipped")


class ShowsTheLater(Plain):
    def forward(self, x):
        shown = torch.ones(x.shape[1], x.shape[1], device=x.device).triu()  # turned
        shown[:-1, 3] = 0
        return self.out(self.weigh(x, shown == 0))


def test_a_transposed_mask_that_hides_more():
    assert draw(ShowsTheLater).mistakes == ("mask-transposed",)


class DropsAResidual(Plain):
    def __init__(self):
        super().__init__()
        self.out, self.skip = nn.Identity(), nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x):
        context = self.weigh(x)
        context + x @ self.skip  # dropped
        return context


def test_a_matrix_of_something_else_is_no_output_projection():
    report = draw(DropsAResidual)
    assert report.mistakes == ("dead-parameter",)
    assert report.findings[0].where in marked(DropsAResidual, "dropped")


class DropsTheResult(Plain):
    def forward(self, x):
        x + self.out(self.weigh(x))  # dropped
        return torch.tanh(x)


def test_a_result_that_is_thrown_away():
    report = draw(DropsTheResult)
    assert report.mistakes == ("value-unused",)
    assert report.findings[0].where in marked(DropsTheResult, "dropped")


class WritesIntoX(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.drop = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Dropout(0.1)

    def forward(self, x, context):
        q = self.q(x).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
        k, v = self.kv(context).unflatten(-1, (2, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        found = (q @ k.mT / math.sqrt(HEAD_DIM)).softmax(dim=-1) @ v
        return x.add_(self.drop(found.transpose(1, 2).flatten(2)))  # written


def test_x_beside_a_context_is_written_into():
    report = draw(WritesIntoX, context=torch.randn(BATCH, 5, WIDTH))
    assert report.mistakes == ("input-modified",)
    assert report.findings[0].where in marked(WritesIntoX, "written")


def test_weights_of_0_and_1_are_applied():
    torch.manual_seed(1)
    report = diagnose(Plain(), 300 * torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert "weights-not-applied" not in report.mistakes, report.in_words()


class TakesSixTokens(Plain):
    def hidden(self, like):
        return torch.ones(TOKENS, TOKENS, device=like.device).triu(1) > 0  # fixed

    def forward(self, x):
        return self.out(self.weigh(x, self.hidden(x)))


def test_the_line_of_a_mask_of_one_size():
    report = draw(TakesSixTokens)
    assert report.mistakes == ("fixed-length",)
    assert report.findings[0].where in marked(TakesSixTokens, "fixed")


class ReturnsInAHelper(Plain):
    def forward(self, x):
        return self.attend(x)

    def attend(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        weights = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf).softmax(dim=-1)
        context = weights @ v
        context = context.transpose(1, 2)
        return context.flatten(2)  # unprojected


def test_the_return_beside_the_product_lacks_the_projection():
    report = draw(ReturnsInAHelper)
    assert report.mistakes == ("output-projection-missing",)
    assert report.findings[0].where in marked(ReturnsInAHelper, "unprojected")


class MultipliesByZero(Plain):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(HEADS, 1, SLOTS))

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT / math.sqrt(HEAD_DIM) + self.bias[:, :, : x.shape[1]]
        scores = scores * torch.ones_like(scores[0, 0]).tril()  # zeroed
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


def test_scores_with_a_bias_are_multiplied_by_zero():
    report = draw(MultipliesByZero)
    assert report.mistakes == ("mask-with-zero",)
    assert report.findings[0].where in marked(MultipliesByZero, "zeroed")


class NeverWritesValues(Slots):
    def write(self, k, v, at, kept):
        kept[0][:, :, at] = k
        return kept[0], kept[1]


def test_values_that_are_never_written():
    assert draw(NeverWritesValues, call=decode).mistakes[0] == "stale-cache"


class TurnsIfAsked(Plain):
    def __init__(self):
        super().__init__()
        self.rope = True

    def forward(self, x):
        q, k, v = self.heads(x)
        if self.rope:
            q_rope, k_rope = self.turned(q), self.turned(k)
        scores = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(torch.ones_like(q @ k.mT).triu(1) > 0, -torch.inf)
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)), (q_rope, k_rope)

    def turned(self, t):
        angles = torch.outer(torch.arange(t.shape[2], device=t.device), torch.tensor([1.0, 0.1], device=t.device)).to(t)
        first, second = t.chunk(2, dim=-1)
        turned = (first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin())
        return torch.cat(turned, dim=-1)


def test_a_rotation_that_ran_and_is_not_read():
    assert draw(TurnsIfAsked, call=lambda module, x: module(x)[0]).mistakes == ("rotary-unused",)


class KeepsOneHeadsWeights(Plain):
    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(2)  # (batch, token, head, head_dim)
        scores = torch.einsum("bqhd,bkhd->bqkh", q, k) / math.sqrt(HEAD_DIM)
        hidden = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1) > 0
        weights = scores.masked_fill(hidden[..., None], -torch.inf).softmax(dim=2)[..., :1]  # one head
        return self.out(torch.einsum("bqkh,bkhd->bqhd", weights, v).flatten(2))


def test_the_weights_of_one_head_for_all():
    report = draw(KeepsOneHeadsWeights)
    assert report.mistakes == ("heads-share-scores",)
    assert report.findings[0].where in marked(KeepsOneHeadsWeights, "one head")
