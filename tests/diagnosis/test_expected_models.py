"""`expect` for a whole model of token ids, and for code whose reference has findings of its own."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(2)

HEADS, HEAD_DIM, D, VOCABULARY = 3, 4, 12, 17
IDS = torch.randint(VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(0))
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(1))


class Attention(nn.Module):
    """Causal attention; with `pinned`, its mask stays on the CPU."""

    def __init__(self, pinned=False):
        super().__init__()
        self.pinned = pinned
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        device = None if self.pinned else x.device
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=device).triu(1)
        heads = ((q @ k.mT) / 2).masked_fill(later, -torch.inf).softmax(-1) @ v
        return self.out(heads.transpose(1, 2).flatten(2))

    def out(self, merged):
        return self.proj(merged)


class Negated(Attention):
    def out(self, merged):
        return -self.proj(merged)  # wrong


class Model(nn.Module):
    """Embeddings, two layers and a head for the next token."""

    def __init__(self, attention=Attention, **options):
        super().__init__()
        torch.manual_seed(2)
        self.tokens, self.positions = nn.Embedding(VOCABULARY, D), nn.Embedding(9, D)
        self.first, self.second = Attention(**options), attention(**options)
        self.head = nn.Linear(D, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = x + self.first(x)
        return self.head(x + self.second(x))


def test_a_model_of_ids_may_equal_its_reference():
    report = diagnose(Model(), IDS, expect=Model())
    assert report.ok and "it computes what `expect` computes" in report.remarks, report


def test_a_reference_that_embeds_nothing_is_refused():
    class Counts(nn.Module):
        def forward(self, ids):
            return ids[..., None].double() + torch.zeros(VOCABULARY)

    (finding,) = diagnose(Model(), IDS, expect=Counts()).findings
    assert "`expect` can't be run" in finding.title and "no nn.Embedding" in finding.evidence


def test_how_code_behaves_elsewhere_does_not_explain_its_numbers():
    device, difference = diagnose(Negated(pinned=True), X, num_heads=HEADS, expect=Attention()).findings
    assert device.mistake == "device-pinned" and difference.source.endswith("# wrong")


class Named(nn.Module):
    """Causal attention whose four projections have names of the caller's choice."""

    def __init__(self, names, *, seed, scale=None):
        super().__init__()
        torch.manual_seed(seed)
        self.names, self.scale = names, scale
        for name in names:
            setattr(self, name, nn.Linear(12, 12))

    def forward(self, x):
        q, k, v = (getattr(self, name)(x).unflatten(-1, (3, 4)).transpose(1, 2) for name in self.names[:3])
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return getattr(self, self.names[3])(heads.transpose(1, 2).flatten(2))


def test_a_reference_with_weights_of_its_own_is_not_compared():
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
    code, reference = Named("qkvo", seed=1), Named(["wq", "wk", "wv", "wo"], seed=2)
    report = diagnose(code, x, num_heads=3, expect=reference)
    assert report.exit_status == 2 and "`expect` has weights of its own" in report.findings[0].title
    reference.load_state_dict({f"w{name}": value for name, value in code.state_dict().items()})
    assert diagnose(code, x, num_heads=3, expect=reference).ok
    reference.scale = 0.3
    assert "does not compute what `expect` computes" in diagnose(code, x, num_heads=3, expect=reference).in_words()
