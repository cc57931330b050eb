"""Caches of a context, caches that a method makes before use, and what a reset leaves behind."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from course_lib.scan import scan
from tests.diagnosis.cached_code import HEADS, WIDTH, Cached, Returned

pytestmark = pytest.mark.one_in(4)

X = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(3))


class Slots(nn.Module):
    def __init__(self, batch, length):
        super().__init__()
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(batch, HEADS, length, WIDTH // HEADS))

    def update(self, index, k, v):
        self.k[:, :, index], self.v[:, :, index] = k, v
        return self.k, self.v


class MadeBefore(Cached):
    """A method makes the cache before use, and the caller says where each token stands."""

    def __init__(self, mistake="", **more):
        super().__init__(mistake, **more)
        self.slots = None

    def prepare_slots(self, max_batch_size, max_seq_length):
        self.slots = Slots(max_batch_size, max_seq_length)

    def forward(self, x, input_pos=None):
        q, k, v = self.heads(x, 0)
        first = torch.arange(x.shape[1], device=x.device)
        index = first if input_pos is None or self.mistake == "restart" else input_pos
        if self.slots is not None:
            k, v = self.slots.update(index, k, v)
        shown = first if self.mistake == "top left" else index
        keep = torch.arange(k.shape[2], device=x.device) <= shown[:, None]
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))


class MadeByOther(MadeBefore):
    """Nothing shows what its method needs."""

    def prepare_slots(self, settings):
        self.slots = Slots(settings.batch, settings.length)


class MadeWithMask(MadeBefore):
    """With the cache it needs a mask of all its slots, which only the caller can make."""

    def forward(self, x, mask=None, input_pos=None):
        if self.slots is not None and mask is None:
            raise ValueError("give a mask of all slots")
        return super().forward(x, input_pos)


class Inner(nn.Module):
    """A model whose method makes the caches of its layers."""

    def __init__(self, mistake=""):
        super().__init__()
        self.layers = nn.ModuleList(MadeBefore(mistake) for _ in range(2))

    def set_up(self, max_batch_size, max_seq_length):
        for layer in self.layers:
            layer.prepare_slots(max_batch_size, max_seq_length)

    def forward(self, x, input_pos=None):
        for layer in self.layers:
            x = x + layer(x, input_pos)
        return x


class Resets(Cached):
    """It keeps the state in itself if it is asked to; `reset` may forget a part of it."""

    def __init__(self, mistake="", **more):
        super().__init__(mistake, positions=True, **more)
        self.kept, self.length = None, 0

    def reset(self):
        self.kept = self.kept if self.mistake == "kept" else None
        self.length = self.length if self.mistake == "length" else 0

    def forward(self, x, go_on=False):
        q, k, v = self.heads(x, self.length if go_on else 0)
        if go_on:
            if self.kept is not None:
                k, v = torch.cat([self.kept[0], k], 2), torch.cat([self.kept[1], v], 2)
            self.kept, self.length = (k, v), self.length + x.shape[1]
        return self.attend(q, k, v)


class ResetsLayers(nn.Module):
    """A model with two such layers, of which `forgets` passes one by."""

    def __init__(self, mistake=""):
        super().__init__()
        self.layers, self.mistake = nn.ModuleList(Resets() for _ in range(2)), mistake

    def start_again(self):
        for layer in self.layers[1 if self.mistake else 0 :]:
            layer.reset()

    def forward(self, x, go_on=False):
        for layer in self.layers:
            x = x + layer(x, go_on)
        return x


class Buffers(Cached):
    """It keeps slots and counts; what its reset leaves in them is hidden by the count."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.slots, self.count = Slots(len(X), 32), 0

    def clear(self):
        self.slots.k.zero_()
        self.count = self.count if self.mistake == "count" else 0

    def forward(self, x, go_on=False):
        q, k, v = self.heads(x, 0)
        if go_on and len(x) == len(self.slots.k):
            end = self.count + x.shape[1]
            k, v = (one[:, :, :end] for one in self.slots.update(slice(self.count, end), k, v))
            self.count = end
        return self.attend(q, k, v)


@pytest.mark.parametrize(
    ("kind", "mistake", "status"),
    [(MadeBefore, "", 0), (MadeBefore, "top left", 1), (Inner, "", 0), (Inner, "top left", 1)],
)
def test_a_cache_that_a_method_makes_before_use_is_run(kind, mistake, status):
    check(kind(mistake), status, "paths-differ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "name"),
    [
        (MadeBefore("restart"), "its cache `slots`"),  # sees nothing of the pieces before
        (MadeByOther(), "its cache `slots`"),
        (MadeWithMask(), "what `prepare_slots` makes"),
    ],
)
def test_or_it_is_in_the_headline_and_in_the_status_of_both(code, name):
    report = diagnose(code, X)
    assert report.verdict == f"in one pass nothing wrong was found, but {name} was not examined."
    assert report.exit_status == 2
    scanned = scan(code, X, paths=["token by token", "attention"])
    assert scanned.exit_status == 2 and "1 not examined: attention" in scanned.verdict, scanned
    assert scanned.outcomes[0].detail == "none of its arguments acts as a cache"


@pytest.mark.parametrize(
    ("kind", "mistake", "status"),
    [
        (Resets, "", 0),
        (Resets, "kept", 1),
        (Resets, "length", 1),
        (ResetsLayers, "", 0),
        (ResetsLayers, "forgets", 1),
        (Buffers, "", 0),
        (Buffers, "count", 1),
    ],
)
def test_a_text_after_a_reset_sees_nothing_of_the_text_before(kind, mistake, status):
    report = check(kind(mistake), status, "stale-cache")
    if status:
        assert str(report.findings[0].where).startswith("test_caches_kept_inside.py:"), report


def check(code, status, mistake, told=None):
    report = diagnose(code, X, **(told or {}))
    assert (report.exit_status, report.not_run) == (status, ()), report
    assert report.mistakes == ((mistake,) if status else ()), report
    assert status or "it computes the same as in one pass" in report.checked[-1]
    return report


@pytest.mark.parametrize("call", [None, lambda m, x: m(x)[0]])
def test_a_scan_hands_a_cache_on_behind_a_call_and_says_one_thing_of_a_mask_left_out(call):
    class Single(Returned):
        def attend(self, q, k, v):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] == k.shape[2])
            return self.o(y.transpose(1, 2).flatten(2))

    paths = ["in chunks", "token by token", "attention"]
    right, single = (scan(kind(), X, call=call, paths=paths) for kind in (Returned, Single))
    assert right.exit_status == 0 and right.verdict == "3 paths run, all agree.", right
    assert [one.status for one in single.first_of_each_path] == ["wrong", "agrees", "wrong"], single
    assert [one.mistake for one in single.findings] == ["paths-differ", "mask-skipped-when-cached"]
