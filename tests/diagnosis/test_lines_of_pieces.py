"""The line that makes later pieces differ from the prompt is named: what decides on a mask, a position or a cache."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(2)

BATCH, TOKENS, HEADS, HEAD_DIM, SLOTS, PROMPT = 2, 6, 3, 4, 8, 3
WIDTH = HEADS * HEAD_DIM


def causal(count, columns, like):
    return torch.ones(count, columns, dtype=torch.bool, device=like.device).triu(1 + columns - count)


def weighed(q, k, v, hidden=None):
    scores = q @ k.mT / math.sqrt(HEAD_DIM)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(dim=-1) @ v


def weighed_if_any(q, k, v, hidden):
    scores = q @ k.mT / math.sqrt(HEAD_DIM)
    if hidden.shape[-1] > 0:
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.softmax(dim=-1)
    return weights @ v


def table_of(count, like):
    at = torch.arange(count, device=like.device)
    angles = at[:, None] * torch.tensor([1.0, 0.1], device=like.device)
    return torch.cat((angles, angles), dim=-1).to(like)


def turned(t, angles):
    half = torch.cat((-t[..., HEAD_DIM // 2 :], t[..., : HEAD_DIM // 2]), dim=-1)
    return t * angles.cos() + half * angles.sin()


class Base(nn.Module):
    """Attention with a cache, whose parts the classes below replace, each with one mistake in a marked line."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def angles(self, q, start):
        return table_of(start + q.shape[-2], q)[start:]

    def join(self, k, v, past):
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        return k, v, (k, v)

    def attend(self, q, k, v, past):
        return weighed(q, k, v, causal(q.shape[-2], k.shape[-2], q))

    def forward(self, x, past=None):
        start = 0 if past is None else past[0].shape[2]
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        angles = self.angles(q, start)
        q, k = turned(q, angles), turned(k, angles)
        k, v, kept = self.join(k, v, past)
        out = self.attend(q, k, v, past).transpose(1, 2).flatten(2)
        return self.to_out(out), kept


class MaskOfThePrompt(Base):
    def attend(self, q, k, v, past):
        hidden = causal(q.shape[-2], k.shape[-2], q)
        assert hidden.shape[-1] == k.shape[-2]
        return weighed(q, k, v, hidden if past is None else None)  # wrong


class MaskWithoutColumns(Base):
    def attend(self, q, k, v, past):
        hidden = causal(q.shape[-2], k.shape[-2], q)
        hidden = hidden if past is None else hidden[:, :0]  # wrong
        return weighed_if_any(q, k, v, hidden)


class OtherKernelForThePrompt(Base):
    def attend(self, q, k, v, past):
        if past is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.mT / math.sqrt(HEAD_DIM)
            if scores.shape[-1] == scores.shape[-2]:  # wrong
                scores = scores.masked_fill(causal(*scores.shape[-2:], q), -torch.inf)
            assert scores.shape[-1] == k.shape[-2]
            return scores.softmax(dim=-1) @ v


class MaskOfTheFirstPlaces(Base):
    def attend(self, q, k, v, past):
        start, hidden = k.shape[-2] - q.shape[-2], causal(q.shape[-2], k.shape[-2], q)
        return self.weighed_at(q, k, v, start, hidden)

    def weighed_at(self, q, k, v, start, hidden):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        if hidden is not None and start == 0:  # wrong
            scores = scores.masked_fill(hidden, -torch.inf)
        assert scores.shape[-1] == k.shape[-2]
        return scores.softmax(dim=-1) @ v


class TurnedKeysDropped(Base):
    def both(self, q, k, angles):
        return turned(q, angles), turned(k, angles)

    def forward(self, x, past=None):
        start = 0 if past is None else past[0].shape[2]
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        q, _ = self.both(q, k, self.angles(q, start))  # wrong
        k, v, kept = self.join(k, v, past)
        out = self.attend(q, k, v, past).transpose(1, 2).flatten(2)
        return self.to_out(out), kept


class TableOfThePiece(Base):
    def angles(self, q, start):
        return table_of(q.shape[-2], q)  # wrong


class PositionsFromZero(Base):
    def angles(self, q, start):
        at = torch.arange(start, start + q.shape[-2], device=q.device)
        at = at - at[0]  # wrong
        angles = at[:, None] * torch.tensor([1.0, 0.1], device=q.device)
        return torch.cat((angles, angles), dim=-1).to(q)


class KeptOnceOnly(Base):
    def forward(self, x, past=None):
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        if past is not None:
            k = torch.cat((past["k"], k), dim=2)  # wrong
            v = torch.cat((past["v"], v), dim=2)
        else:
            past = {"k": k, "v": v}
        out = weighed(q, k, v, causal(q.shape[-2], k.shape[-2], q)).transpose(1, 2).flatten(2)
        return self.to_out(out), past


class KeptInAMethod(Base):
    def remember(self, past, k, v):
        if past:
            k = torch.cat((past["k"], k), dim=2)
            return k, torch.cat((past["v"], v), dim=2)  # wrong
        past.update(k=k, v=v)
        return k, v

    def forward(self, x, past=None):
        past = {} if past is None else past
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        k, v = self.remember(past, k, v)
        out = weighed(q, k, v, causal(q.shape[-2], k.shape[-2], q)).transpose(1, 2).flatten(2)
        return self.to_out(out), past


def in_pieces(module, x):
    past, rows = None, []
    for piece in (x[:, :PROMPT], *x[:, PROMPT:].split(1, dim=1)):
        out, past = module(piece, past)
        rows.append(out)
    return torch.cat(rows, dim=1)


def two_by_two(module, x):
    past, rows = None, []
    for piece in x.split(PROMPT, dim=1):
        out, past = module(piece, past)
        rows.append(out)
    return torch.cat(rows, dim=1)


class Slots(Base):
    """Writes into a cache of a fixed size, at given places."""

    def join_at(self, at, k, v, past):
        if at[-1] >= SLOTS:
            at = torch.tensor(SLOTS - 1, device=at.device)
        k, v = past[0].index_copy(2, at, k), past[1].index_copy(2, at, v)
        past = k, v
        return k, v, past

    def hidden(self, at, q):
        return at[:, None] < torch.arange(SLOTS, device=q.device)

    def forward(self, x, at, past):
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        k, v, past = self.join_at(at, k, v, past)
        out = weighed(q, k, v, self.hidden(at, q)).transpose(1, 2).flatten(2)
        return self.to_out(out), past


class ValuesInFront(Slots):
    def join_at(self, at, k, v, past):
        k = past[0].index_copy(2, at, k)
        v = past[1].index_copy(2, at - at[0], v)  # wrong
        return k, v, (k, v)


class NotHandedOn(Slots):
    def join_at(self, at, k, v, past):
        if at[-1] >= SLOTS:
            at = torch.tensor(SLOTS - 1, device=at.device)
        old = past
        k = past[0].index_copy(2, at, k)
        v = past[1].index_copy(2, at, v)
        assert k.shape == v.shape
        past = (k, v) if len(at) > 1 else old  # wrong
        return k, v, past


class FirstHeadOfTheSlots(Slots):
    def join_at(self, at, k, v, past):
        count, begin, end = len(k), int(at[0]), int(at[-1]) + 1
        past[0][:count, :, begin:end], past[1][:count, :, begin:end] = k, v
        k, v = past[0][:count, :, :TOKENS], past[1][:count, :, :TOKENS]
        assert k.shape == v.shape
        k = k[:, :1].expand(-1, HEADS, -1, -1)  # wrong
        v = v[:, :1].expand(-1, HEADS, -1, -1)
        return k, v, past

    def hidden(self, at, q):
        return at[:, None] < torch.arange(TOKENS, device=q.device)


class EmptySlotsSeen(Slots):
    def forward(self, x, at, past):
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        k, v, past = self.join_at(at, k, v, past)
        mask = ~self.hidden(at, q) if len(at) > 1 else None
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)  # wrong
        return self.to_out(out), past


def in_slots(module, x, most=0):
    past, rows = tuple(x.new_zeros(2, max(most, len(x)), HEADS, SLOTS, HEAD_DIM)), []
    for at in torch.arange(x.shape[1], device=x.device).split((PROMPT, *[1] * (x.shape[1] - PROMPT))):
        out, past = module(x[:, at], at, past)
        rows.append(out)
    return torch.cat(rows, dim=1)


def in_slots_of_four(module, x):
    return in_slots(module, x, most=4)


CASES = [
    (MaskOfThePrompt, two_by_two, "mask-skipped-when-cached"),
    (MaskWithoutColumns, two_by_two, "mask-skipped-when-cached"),
    (OtherKernelForThePrompt, two_by_two, "mask-skipped-when-cached"),
    (MaskOfTheFirstPlaces, two_by_two, "mask-skipped-when-cached"), (TurnedKeysDropped, in_pieces, "rotary-unused"),
    (TableOfThePiece, in_pieces, "positions-restart-in-cache"),
    (PositionsFromZero, in_pieces, "positions-restart-in-cache"),
    (KeptInAMethod, in_pieces, "token-missing-from-cache"),
    (KeptOnceOnly, in_pieces, "token-missing-from-cache"), (NotHandedOn, in_slots, "token-missing-from-cache"),
    (ValuesInFront, in_slots, "stale-cache"), (EmptySlotsSeen, in_slots, "mask-skipped-when-cached"),
    (FirstHeadOfTheSlots, in_slots_of_four, "kv-head-zero-only"),
]  # fmt: skip


def report_of(code, call):
    torch.manual_seed(0)
    return diagnose(code(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, num_kv_heads=HEADS, call=call)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("wrong", "call", "mistake"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_the_line_that_makes_pieces_differ(wrong, call, mistake):
    report = report_of(wrong, call)
    assert report.mistakes[:1] == (mistake,), report
    assert report.findings[0].where in marked(wrong), report
