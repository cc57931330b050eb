"""Mistakes in other people's ways of writing attention, that were missed or called otherwise once."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, WIDTH = 3, 12
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(3))


class OnAGrid(nn.Module):
    """Attention over a class token and 2 x 3 patches, less the distance of their places."""

    sign = -1

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        places = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))
        distances = nn.functional.pad(torch.cdist(places, places), (1, 0, 1, 0))
        self.register_buffer("bias", self.sign * distances * torch.tensor([0.5, 0.25, 0.125])[:, None, None])

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / q.shape[-1] ** 0.5 + self.bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class FarIsNear(OnAGrid):
    sign = 1


def test_distances_on_a_grid_that_are_added_have_the_wrong_sign():
    report = diagnose(FarIsNear(), X, causal=False, lengths=[7])
    assert report.mistakes == ("bias-wrong-sign",), report.in_words()


class BehindANorm(nn.Module):
    """Attention over pixels behind a norm over all of them; softmax is computed in float32."""

    def __init__(self, back=True):
        super().__init__()
        self.back, self.norm = back, nn.GroupNorm(4, WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        tokens = self.norm(x).flatten(2).mT
        q, k, v = self.q(tokens), self.k(tokens), self.v(tokens)
        weights = (q @ k.mT / WIDTH**0.5).float().softmax(-1)
        context = (weights.to(v.dtype) if self.back else weights) @ v
        return x + self.out(context).mT.view_as(x)


@pytest.mark.parametrize(("back", "found"), [(True, ()), (False, ("dtype-pinned",))])
def test_dtypes_are_tried_where_attention_stands_behind_a_norm_over_tokens(back, found):
    report = diagnose(BehindANorm(back), torch.randn(2, WIDTH, 2, 3), causal=False, num_heads=1)
    assert report.mistakes == found, report.in_words()
