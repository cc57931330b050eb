"""Models that change their token ids before they embed them, or that get a context beside them."""

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(7)

D, HEADS, START = 12, 3, 55
IDS = torch.randint(9, (2, 9), generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """One or two layers over embeddings of ids that `change` has made of those it is given."""

    def __init__(self, change, *, cut=0, layers=1, causal=True):
        super().__init__()
        torch.manual_seed(1)
        self.change, self.cut, self.head = change, cut, nn.Linear(D, 60)
        self.tokens, self.positions = nn.Embedding(60, D), nn.Embedding(20, D)
        self.layers = nn.ModuleList(MultiHeadAttention(D, D, HEADS, causal=causal) for _ in range(layers))

    def forward(self, ids):
        ids = self.change(ids)
        x = self.positions(torch.ones_like(ids).cumsum(1)) + self.tokens(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)[:, : ids.shape[1] - self.cut]


def start(ids):
    return torch.full_like(ids[:, :1], START)


CHANGES = {
    "offsets": (lambda ids: ids + torch.arange(ids.shape[1], device=ids.device) % 5 * 10, 0),
    "start": (lambda ids: torch.cat([start(ids), ids], 1), 0),
    "start, cut": (lambda ids: torch.cat([start(ids), ids], 1), 1),
    "end, cut": (lambda ids: torch.cat([ids, start(ids)], 1), 1),
    "shifted": (lambda ids: torch.cat([start(ids), ids[:, :-1]], 1), 0),
}


class Tied(nn.Embedding):
    """Also the head of its model, as of some GPT-2s."""

    def forward(self, x, transposed=False):
        return x @ self.weight.mT if transposed else super().forward(x)


class TiedModel(Model):
    def __init__(self, *, causal=True):
        super().__init__(lambda ids: ids, causal=causal)
        self.tokens = Tied(60, D)

    def forward(self, ids):
        return self.tokens(self.layers[0](self.tokens(ids)), transposed=True)


@pytest.mark.slow
def test_an_embedding_may_be_the_head_too():
    assert diagnose(TiedModel(), IDS, num_heads=HEADS).ok
    assert diagnose(TiedModel(causal=False), IDS, num_heads=HEADS).mistakes == ("no-causal-mask",)


class Cross(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.q, self.k, self.v, self.scale = nn.Linear(D, D), nn.Linear(20, D), nn.Linear(20, D), scale

    def forward(self, x, context):
        parts = self.q(x), self.k(context), self.v(context)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        return ((q @ k.mT / self.scale).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    """Attention over ids, and then over a context that comes in beside them."""

    def __init__(self, *, embeds=False, causal=True, scale=2.0):
        super().__init__()
        torch.manual_seed(1)
        self.tokens, self.own = nn.Embedding(60, D), MultiHeadAttention(D, D, HEADS, causal=causal)
        self.source, self.cross = nn.Embedding(60, 20) if embeds else nn.Identity(), Cross(scale)
        self.head = nn.Linear(D, 60)

    def forward(self, ids, context):
        x = self.tokens(ids)
        x = x + self.own(x)
        return self.head(x + self.cross(x, self.source(context)))


def call(model, ids, context):
    return model(ids, context)


FEATURES = torch.randn(2, 7, 20, generator=torch.Generator().manual_seed(0))


def test_a_context_beside_ids_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match=r"by `course scan`, or here with a `call` of \(code, ids, context\)"):
        diagnose(Decoder(embeds=True), IDS, context=IDS)
    with pytest.raises(ValueError, match=r"as many samples as x, \(2, 9\), got the shape \(1, 7, 20\)"):
        diagnose(Decoder(), IDS, context=FEATURES[:1])


def test_a_model_that_fails_before_it_embeds_ids_says_why():
    with pytest.raises(TypeError, match="before it embeds the ids: ValueError: not so"):
        diagnose(Model(lambda ids: (_ for _ in ()).throw(ValueError("not so"))), IDS)


def test_keep_is_for_as_many_tokens_as_there_are_ids():
    keep = torch.ones(9, 9, dtype=torch.bool).tril()
    assert diagnose(Model(CHANGES["offsets"][0]), IDS, keep=keep, num_heads=HEADS).ok
