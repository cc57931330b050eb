"""A value that no line reads costs time alone if the same numbers are computed again."""

import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose


class RootNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2, self.attention = RootNorm(12), RootNorm(12), MultiHeadAttention(12, 12, 3)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        self.norm_2(x)
        self.mlp(self.norm_2(x))
        return x + self.mlp(self.norm_2(x))


class LayerWithoutNorm(Layer):
    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        self.norm_2(x)
        return x + self.mlp(self.norm_1(x))


def test_what_is_computed_again_and_used_is_not_lost():
    report = diagnose(Layer(), torch.randn(2, 5, 12), num_heads=3)
    assert report.ok, report.in_words()


def test_another_norm_of_the_same_numbers_is_lost():
    report = diagnose(LayerWithoutNorm(), torch.randn(2, 5, 12), num_heads=3)
    assert report.mistakes == ("dead-parameter",), report.in_words()


class QueriesAsTheyAre(nn.Module):
    """The projection of the queries is built, and forward forgets it."""

    def __init__(self):
        super().__init__()
        self.proj_q, self.proj_k, self.proj_v, self.proj_o = (nn.Linear(12, 12, bias=False) for _ in range(4))

    def forward(self, x):
        parts = x, self.proj_k(x), self.proj_v(x)
        q, k, v = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in parts)
        return self.proj_o(((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_queries_without_their_projection_are_found():
    (finding,) = diagnose(QueriesAsTheyAre(), torch.randn(2, 5, 12), causal=False, num_heads=3).findings
    assert (finding.mistake, finding.evidence[:15]) == ("dead-parameter", "`proj_q.weight`")


class Unlearned(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)


class KeysAsTheyAre(nn.Module):
    """Norms without weights for queries and keys, of which forward forgets one."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)
        self.query_norm = Unlearned()
        self.key_norm = Unlearned()

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        q = self.query_norm(q)
        return self.out(((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_a_norm_without_weights_that_is_forgotten_is_found():
    (finding,) = diagnose(KeysAsTheyAre(), torch.randn(2, 5, 12), causal=False, num_heads=3).findings
    assert (finding.mistake, finding.evidence) == ("dead-parameter", "`key_norm` is built and no line uses it")
