"""Code that puts hooks on the gradients of its weights, as explanations of a model do, runs without gradients, too."""

import pytest
import torch
from torch import Tensor, nn

from course_lib.diagnosis import diagnose
from course_lib.scan import scan

X = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(0))


class Hooked(nn.Module):
    def __init__(self, put, scale=12**-0.5):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out, self.put, self.scale = nn.Linear(12, 36), nn.Linear(12, 12), put, scale

    def save(self, gradient):
        self.gradient = gradient

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = (q @ k.mT * self.scale).masked_fill(future, -torch.inf).softmax(-1)
        self.put(self, weights)
        return self.out(weights @ v)


PUTS = {
    "a hook": lambda module, weights: weights.register_hook(module.save),
    "one that is taken away": lambda module, weights: weights.register_hook(module.save).remove(),
    "the gradient": lambda module, weights: weights.retain_grad(),
    "what needs a gradient": lambda module, weights: weights.requires_grad_().register_hook(module.save),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS)
def test_hooks_do_nothing_where_there_is_no_gradient(put):
    assert diagnose(Hooked(put), X).ok
    assert diagnose(Hooked(put, scale=1), X).mistakes == ("missing-scale",)
    assert scan(Hooked(put), X).ok
    assert "retain_grad" not in vars(Tensor)
