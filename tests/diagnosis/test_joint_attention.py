"""Joint attention: two streams of tokens have projections of their own and attend together."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, HEAD_DIM, FIRST, TOKENS = 3, 4, 3, 7
WIDTH = HEADS * HEAD_DIM
X = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))


class Stream(nn.Module):
    """The projections of one stream."""

    wrong_split = False

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q(x), self.k(x), self.v(x)))
        return (q, self.k(x).view(k.shape), v) if self.wrong_split else (q, k, v)


class WrongSplit(Stream):
    wrong_split = True


class Joint(nn.Module):
    """The first tokens are those of `text`, the others those of `image`."""

    def __init__(self, text=Stream, image=Stream):
        super().__init__()
        torch.manual_seed(1)
        self.text, self.image = text(), image()

    def turned(self, q, k):
        return q, k

    def merged(self, heads):
        return heads.transpose(1, 2).flatten(2)

    def forward(self, text, image):
        parts = zip(self.text.heads(text), self.image.heads(image), strict=True)
        q, k, v = (torch.cat(both, 2) for both in parts)
        rows = self.merged(F.scaled_dot_product_attention(*self.turned(q, k), v))
        return self.text.out(rows[:, : text.shape[1]]), self.image.out(rows[:, text.shape[1] :])


def in_order(module, x):
    return torch.cat(module(x[:, :FIRST], x[:, FIRST:]), 1)


def exchanged(module, x):
    return torch.cat(module(x[:, :FIRST], x[:, FIRST:])[::-1], 1)


def examine(module, call=in_order):
    return diagnose(module, X, num_heads=HEADS, causal=False, call=call)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("wrong", [(WrongSplit, Stream), (Stream, WrongSplit)], ids=["first", "second"])
def test_a_wrong_split_in_one_stream_is_found(wrong):
    assert examine(Joint(*wrong)).mistakes == ("split-without-transpose",)


def test_outputs_that_call_puts_in_another_order_are_no_wrong_merge():
    report = examine(Joint(), exchanged)
    assert report.ok and "in another order" in str(report), report
