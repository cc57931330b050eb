"""A value that no line reads costs time alone if the same numbers are computed again."""

import torch
from torch import nn

from course_lib.diagnosis import diagnose


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
