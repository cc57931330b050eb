"""A cache is examined without a `call`, whatever it is called, or the report says that it was not."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.cached_code import CONVENTIONS, HEADS, WIDTH, Cached, Checked, Filled, Flagged, Objects, Returned

pytestmark = pytest.mark.one_in(8)

X = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(3))
NAMED = {"top left": "causal-top-left", "window lost": "window-lost-in-decode", "restart": "positions-restart-in-cache"}


def examined(kind, mistake="", x=X, **told):
    torch.manual_seed(0)
    window = 3 if mistake == "window lost" else told.get("window")
    return diagnose(kind(mistake, window=window), x, num_heads=HEADS, **{"window": window, **told})


@pytest.mark.parametrize("kind", CONVENTIONS)
def test_a_right_cache_of_any_convention_is_examined(kind):
    report = examined(kind)
    assert (report.exit_status, report.findings, report.not_run) == (0, (), ()), report
    assert "token by token, it computes the same as in one pass" in report.checked[-1]


@pytest.mark.parametrize("kind", [one for one in CONVENTIONS if one is not Objects])
@pytest.mark.parametrize("mistake", NAMED)
def test_what_is_wrong_in_pieces_is_named(kind, mistake):
    report = examined(kind, mistake)
    assert report.mistakes == (NAMED[mistake],), report
    assert report.exit_status == 1 and str(report.findings[0].where).startswith("cached_code.py:")


def test_a_value_that_is_not_kept_is_found():
    assert examined(Returned, "newest missing").exit_status == 1


@pytest.mark.parametrize(("kind", "mistake"), [(Checked, ""), (Objects, "top left"), (Checked, "restart")])
def test_a_cache_that_nobody_can_make_is_in_the_headline_and_in_the_status(kind, mistake):
    report = examined(kind, mistake)
    assert report.verdict == "in one pass nothing wrong was found, but its cache `memory` was not examined."
    assert (report.exit_status, report.ok, report.findings) == (2, False, ())
    assert report.as_dict()["not_run"][0].startswith("its cache `memory`: it was run without it; to run it token by")


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


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1, 2, 12])
def test_few_and_many_tokens_show_a_cache(tokens):
    x = torch.randn(1, tokens, WIDTH, generator=torch.Generator().manual_seed(4))
    assert examined(Returned, "top left", x).mistakes[:1] in ((None,), ("causal-top-left",))
    assert examined(Filled, "restart", x).exit_status == 1


@pytest.mark.parametrize("mistake", ["", "top left"])
def test_a_call_that_takes_the_output_alone_says_nothing_of_the_cache(mistake):
    report = examined(Returned, mistake, call=lambda m, x: m(x)[0])
    assert report.exit_status == bool(mistake), report


def test_a_function_with_a_cache():
    torch.manual_seed(0)
    kind = Returned("top left")
    assert diagnose(lambda x, state=None: kind(x, state), X).mistakes == ("causal-top-left",)


class Model(nn.Module):
    """Two layers, each with a cache in a list of the caller's, of token ids."""

    def __init__(self, mistake=""):
        super().__init__()
        self.embed, self.layers = nn.Embedding(11, WIDTH), nn.ModuleList(Returned(mistake) for _ in range(2))

    def forward(self, ids, pasts=None):
        x, kept = self.embed(ids), []
        for at, layer in enumerate(self.layers):
            y, new = layer(x, None if pasts is None else pasts[at])
            x, kept = x + y, [*kept, new]
        return x, kept


@pytest.mark.parametrize("mistake", ["", "top left"])
def test_a_model_of_ids(mistake):
    torch.manual_seed(0)
    ids = torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(1))
    report = diagnose(Model(mistake), ids)
    assert report.exit_status == bool(mistake), report


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


def test_a_module_is_left_as_it_was():
    torch.manual_seed(0)
    module = Flagged("top left")
    diagnose(module, X)
    assert module.kept is None and not module._forward_hooks and not module._forward_pre_hooks


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


class Loop(nn.Module):
    """Each query has its own slice of the keys; nothing is kept from one to the next."""

    def __init__(self, mistake=""):
        super().__init__()
        self.qkv, self.mistake = nn.Linear(WIDTH, 3 * WIDTH), mistake

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        rows = []
        for i in range(x.shape[1]):
            first, end = max(0, i - 2), i + (self.mistake != "own missing" or i == 0)
            keys = k[:, first + (self.mistake == "first missing" and i > 1) : end]
            values = v[:, : i + 1 - first] if self.mistake == "values" else v[:, end - keys.shape[1] : end]
            rows.append((q[:, i : i + 1] @ keys.mT * WIDTH**-0.5).softmax(-1) @ values)
        return torch.cat(rows, 1)


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        ("", ()),
        ("values", ("values-misaligned",)),
        ("own missing", ("mask-off-by-one",)),
        ("first missing", ("window-off-by-one",)),
    ],
)
def test_a_loop_over_queries_has_no_cache(mistake, named):
    torch.manual_seed(0)
    assert diagnose(Loop(mistake), X, window=3).mistakes == named


class Unread(Cached):
    def forward(self, x, attention_mask=None):
        return self.attend(*self.heads(x, 0))


class UnreadKeep(Cached):
    def forward(self, x, *, keep=None):
        return self.attend(*self.heads(x, 0))


class UnreadOther(Cached):
    def forward(self, x, kind=None, mask_future=True):
        return self.attend(*self.heads(x, 0))


@pytest.mark.parametrize(("kind", "mask"), [(Unread, "attention_mask"), (UnreadKeep, "keep"), (UnreadOther, None)])
def test_a_mask_that_no_line_reads_is_found(kind, mask):
    torch.manual_seed(0)
    report = diagnose(kind(), X)
    assert report.mistakes == (() if mask is None else ("mask-discarded",)), report
    assert mask is None or report.findings[0].evidence.startswith(f"`{mask}` is taken, and no line reads it")


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
