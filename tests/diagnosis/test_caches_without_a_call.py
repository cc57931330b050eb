"""A cache is examined without a `call`, whatever it is called, or the report says that it was not."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.cached_code import CONVENTIONS, HEADS, WIDTH, Cached, Checked, Objects, Returned

pytestmark = pytest.mark.one_in(8)

X = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(3))


def examined(kind, mistake="", x=X, **told):
    torch.manual_seed(0)
    window = 3 if mistake == "window lost" else told.get("window")
    return diagnose(kind(mistake, window=window), x, num_heads=HEADS, **{"window": window, **told})


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONVENTIONS)
def test_a_right_cache_of_any_convention_is_examined(kind):
    report = examined(kind)
    assert (report.exit_status, report.findings, report.not_run) == (0, (), ()), report
    assert "token by token, it computes the same as in one pass" in report.checked[-1]


def test_a_value_that_is_not_kept_is_found():
    assert examined(Returned, "newest missing").exit_status == 1


@pytest.mark.parametrize(("kind", "mistake"), [(Checked, ""), (Objects, "top left"), (Checked, "restart")])
def test_a_cache_that_nobody_can_make_is_in_the_headline_and_in_the_status(kind, mistake):
    report = examined(kind, mistake)
    assert report.verdict == "in one pass nothing wrong was found, but its cache `memory` was not examined."
    assert (report.exit_status, report.ok, report.findings) == (2, False, ())
    assert report.as_dict()["not_run"][0].startswith("its cache `memory`: it was run without it; to run it token by")


class OnOneDevice(Returned):
    """Its ones are made on the CPU, wherever the input is."""

    def forward(self, x, state=None):
        output, state = super().forward(x, state)
        return output * torch.ones(output.shape[-1], dtype=x.dtype), state


@pytest.mark.parametrize(("mistake", "found"), [("", set()), ("restart", {"positions-restart-in-cache"})])
def test_a_cache_is_examined_beside_what_shows_on_another_device(mistake, found):
    names = [one.mistake for one in examined(OnOneDevice, mistake).findings]
    assert {"device-pinned", *found} == set(names) and len(names) == len(set(names))


class Waiting(Cached):
    """Its loop ends for a tensor alone."""

    def forward(self, x, mask=None):
        q, k, v = self.heads(x, 0)
        while mask is not None and mask.dim() < 4:
            mask = mask.unsqueeze(0)
        return self.attend(q, k, v)


def test_a_loop_that_waits_for_a_tensor_ends():
    assert examined(Waiting).exit_status in (0, 1)


class Stored(Cached):
    """An object of the caller's stores both at once, by a name that tensors know too, or by being called."""

    by = "add"

    def forward(self, x, memory=None):
        q, k, v = self.heads(x, 0)
        if memory:
            k, v = memory(k, v) if self.by == "call" else memory.add(k, v)
        return self.attend(q, k, v)


@pytest.mark.parametrize("by", ["add", "call"])
@pytest.mark.parametrize(("mistake", "status"), [("", 0), ("top left", 2)])
def test_an_object_is_a_cache_by_what_it_stores(by, mistake, status, monkeypatch):
    monkeypatch.setattr(Stored, "by", by)
    report = examined(Stored, mistake)
    assert (report.exit_status, bool(report.not_run)) == (status, status == 2), report


# --- what is no cache ---


class OfEarlierScores(Cached):
    """Scores are handed on to the next layer, not to the next token."""

    def forward(self, x, scores_below=None, rope=None, bias=None):
        q, k, v = self.heads(x, 0)
        if rope is not None:
            q, k = rope(q, k)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if scores_below is not None:
            scores = scores + scores_below
        if bias is not None:
            scores = scores + bias.expand_as(scores)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        y = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2)), scores


def test_arguments_that_are_no_cache_are_taken_for_none():
    report = examined(OfEarlierScores)
    assert (report.exit_status, report.not_run) == (0, ()), report


class FailsAfterEinsum(nn.Module):
    """It can't run at all: einsum's result is not laid out as `view` wants it. Nothing is kept for a second prompt."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).view(len(x), -1, HEADS, 3 * WIDTH // HEADS).chunk(3, dim=-1)
        weights = (torch.einsum("bihd,bjhd->bijh", q, k) * 0.5).softmax(2)
        return torch.einsum("bijh,bjhd->bihd", weights, v).view(len(x), -1, WIDTH)


def test_code_that_fails_has_no_stale_cache():
    report = diagnose(FailsAfterEinsum(), X, causal=False)
    assert (report.exit_status, report.mistakes) == (2, (None,)), report
    assert report.findings[0].title == "It could not be run." and "view size" in report.findings[0].evidence
    assert str(report.findings[0].where).startswith("test_caches_without_a_call.py:")


# --- whatever is said of who may see whom ---


class Uncaused(Cached):
    """Every token sees every other one, so that pieces can't agree with one pass."""

    def forward(self, x, cache=None):
        q, k, v = self.heads(x, 0)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2)), (k, v)


@pytest.mark.parametrize(
    ("kind", "mistake", "told", "status"),
    [
        (Returned, "", {"keep": torch.ones(6, 6).tril() > 0}, 0),
        (Returned, "restart", {"keep": torch.ones(6, 6).tril() > 0}, 1),
        (Checked, "", {"keep": torch.ones(6, 6).tril() > 0}, 2),
        (Uncaused, "", {"causal": False}, 2),
    ],
)
def test_a_cache_is_run_or_named_with_keep_and_without_causality(kind, mistake, told, status):
    report = examined(kind, mistake, **told)
    assert (report.exit_status, bool(report.not_run)) == (status, status == 2), report
    assert ("was not examined" in report.verdict) == (status == 2), report
