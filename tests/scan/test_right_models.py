"""What models do on purpose is no mistake: an indexer that chooses keys, embeddings scaled in place, float32 logits."""

import pytest
import torch
from torch import nn

from course_lib.scan import scan

IDS = torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(1))


class Decoder(nn.Module):
    """One causal attention over embedded ids, with something that is right but looks wrong."""

    def __init__(self, habit: str) -> None:
        super().__init__()
        self.embed, self.habit = nn.Embedding(40, 12), habit
        self.qkv, self.out, self.head = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 40)
        self.index_q, self.index_k = nn.Linear(12, 8), nn.Linear(12, 8)

    def forward(self, ids):
        x = self.embed(ids)
        if self.habit == "embeddings scaled in place":
            x *= 12**0.5
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        shown = torch.ones(2 * [x.shape[1]], dtype=torch.bool, device=x.device).tril()
        if self.habit == "indexer":
            chosen = (self.index_q(x) @ self.index_k(x).mT).masked_fill(~shown, -1e9).topk(2, dim=-1).indices
            shown = shown & torch.zeros_like(shown).expand(len(x), -1, -1).scatter(-1, chosen, True)
        scores = (q @ k.mT * 12**-0.5).masked_fill(~shown, torch.finfo(x.dtype).min)
        logits = self.head(x + self.out(scores.softmax(-1) @ v))
        return logits.float() if self.habit == "logits in float32" and x.dtype != torch.float64 else logits


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["embeddings scaled in place", "indexer", "logits in float32"])
def test_a_habit_is_no_mistake(habit):
    with torch.random.fork_rng():
        torch.manual_seed(2)
        report = scan(Decoder(habit), IDS)
    assert not report.wrong, report


class Closing(Decoder):
    """Its feed-forward is a lambda that closes over layers, which a copy must read from itself."""

    def __init__(self) -> None:
        super().__init__("none")
        self.layers = nn.ModuleList([nn.Linear(12, 24), nn.Linear(24, 12)])
        up, down = self.layers
        self.feed_forward = lambda x: down(up(x).relu())
        self.head = nn.Sequential(nn.LayerNorm(12), self.head)

    def forward(self, ids):
        logits = super().forward(ids)
        return logits + self.head(self.feed_forward(self.embed(ids)))


def test_a_function_that_closes_over_layers_reads_those_of_the_copy():
    report = scan(Closing(), IDS)
    assert not report.wrong, report
    assert report.exit_status == 0, report


class Routed(nn.Module):
    """Causal attention whose queries go through the expert that a router chooses for each token."""

    def __init__(self, mixes: bool) -> None:
        super().__init__()
        self.embed, self.router, self.mixes = nn.Embedding(40, 12), nn.Linear(12, 2), mixes
        self.experts = nn.ModuleList(nn.Linear(12, 12) for _ in range(2))
        self.keys, self.out = nn.Linear(12, 12), nn.Linear(12, 40)

    def forward(self, ids):
        x = self.embed(ids)
        chosen = self.router(x).argmax(-1).flatten()
        order = chosen.argsort()
        parts = x.flatten(0, 1)[order].split(chosen.bincount(minlength=2).tolist())
        routed = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        queries = torch.empty_like(routed).index_copy(0, order, routed).view(x.shape)
        hidden = torch.ones(2 * [x.shape[1]], dtype=torch.bool, device=x.device).triu(1)
        weights = (queries @ self.keys(x).mT * 12**-0.5).masked_fill(hidden, torch.finfo(x.dtype).min).softmax(-1)
        return self.out(weights @ x + (x.mean(0) if self.mixes else 0))


@pytest.mark.parametrize("mixes", [False, True])
def test_a_router_that_sorts_tokens_mixes_no_samples(mixes):
    with torch.random.fork_rng():
        torch.manual_seed(2)
        report = scan(Routed(mixes), IDS)
    assert ("batch-mixed" in [outcome.mistake for outcome in report.wrong]) == mixes, report
    assert mixes or not report.wrong, report


class Placed(nn.Module):
    """A vector for each position, which may be given, and a mask with 1 for what may be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place, self.qkv = nn.Embedding(40, 12), nn.Embedding(12, 12), nn.Linear(12, 36)

    def forward(self, ids, attention_mask=None, position_ids=None):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.embed(ids) + self.place(places if position_ids is None else position_ids)
        shown = (places <= places[:, None]) if attention_mask is None else attention_mask
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.mT * 12**-0.5).masked_fill(~shown.view(-1, *shown.shape[-2:]), torch.finfo(x.dtype).min)
        return scores.softmax(-1) @ v


def test_positions_behind_padding_begin_at_0():
    (outcome,) = scan(Placed(), IDS, paths=["padded left"]).outcomes
    assert outcome.status == "agrees", outcome
