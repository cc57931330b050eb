"""As many repositories write models: the loss in forward, a kernel that is chosen when they are built, a dict."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from course_lib.scan import scan

IDS = torch.arange(18).view(2, 9) * 5 % 17


class Attention(nn.Module):
    future: torch.Tensor

    def __init__(self, fast):
        super().__init__()
        self.qkv, self.flash = nn.Linear(12, 36), fast
        if not fast:
            self.register_buffer("future", torch.ones(16, 16, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        if self.flash:
            heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            tokens = x.shape[1]
            hidden = self.future[:tokens, :tokens]
            heads = (q @ k.mT / 2).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v
        return heads.transpose(1, 2).flatten(2)


class Language(nn.Module):
    """Gives the logits of the last token only, as for generating, unless it is given targets."""

    def __init__(self, fast=True):
        super().__init__()
        self.embed, self.attention, self.head = nn.Embedding(17, 12), Attention(fast), nn.Linear(12, 17)

    def forward(self, ids, targets=None):
        x = self.embed(ids)
        x = x + self.attention(x)
        if targets is None:
            return self.head(x[:, [-1]]), None
        logits = self.head(x)
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class InADict(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Language()

    def forward(self, ids):
        return {"loss": None, "logits": self.inner(ids, ids)[0]}


class Last(InADict):
    def forward(self, ids):
        return {"logits": self.inner(ids)[0]}


def outcome_of(report, name):
    return next(outcome for outcome in report.outcomes if outcome.path == name)


@pytest.mark.slow
def test_a_model_that_gives_one_token_without_targets_gets_them():
    report = scan(Language(), IDS)
    assert report.ok, report
    assert "it was run with `targets`=x, because it gives no output for each token without them" in str(report)
    assert outcome_of(report, "attention").status == "agrees"


def test_a_model_that_never_gives_more_is_told_the_way_out():
    said = str(scan(Last(), IDS))
    assert "no tensor in its result has a row per token; give `call` (--call) to say what of it is the output" in said


@pytest.mark.parametrize("fast", [True, False])
def test_a_switch_that_counts_when_a_model_is_built_is_not_offered(fast):
    report = scan(Language(fast), IDS, paths=["formula", "fused"])
    statuses = [outcome_of(report, name).status for name in ("formula", "fused")]
    assert statuses == (["not run", "agrees"] if fast else ["agrees", "agrees"]), report
    assert ("its switch counts when it is built: `future` is made" in str(report)) == fast


def test_a_path_that_reads_what_nothing_makes_is_not_examined():
    model = Language()
    model.attention.forward = lambda x: x if model.attention.flash else model.attention.nothing
    report = scan(model, IDS, paths=["formula"])
    assert outcome_of(report, "formula").status == "not examined", report


@pytest.mark.slow
def test_the_attention_of_a_model_that_returns_a_dict_is_examined():
    report = scan(InADict(), IDS, paths=["attention"])
    assert outcome_of(report, "attention").status == "agrees", report
