"""Bugs of two small packages of lucidrains (MIT), each fixed in the release after."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built, Case
from benchmarks.real_bugs.sources import Release

from .timm import HEADS, TOKENS, WIDTH, x_of

COMPRESSED = "https://github.com/lucidrains/memory-compressed-attention/commit"
FLAMINGO = "https://github.com/lucidrains/flamingo-pytorch/commit"


def memory_compressed(load: Callable[[str], Any]) -> Built:
    kind = load("memory_compressed_attention.memory_compressed_attention").MemoryCompressedAttention
    module = kind(WIDTH, heads=1, causal=True, compression_factor=1)  # with more heads its scale is that of the width

    def one_by_one(module: Any, x: Tensor) -> Tensor:  # its empty key is of one sample
        return torch.cat([module(sample[None]) for sample in x])

    return Built(module, x_of(), {"call": one_by_one, "num_heads": 1})


def immediate_media(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the text has media, and which medium each token of the text may see."""
    places = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    places[:, 2::2] = True
    number = places.cumsum(-1)  # (b, t): 0 before the first medium
    return places, number[:, None, :, None] == torch.arange(1, x.shape[1] + 1, device=x.device)


def flamingo(load: Callable[[str], Any]) -> Built:
    module = load("flamingo_pytorch.flamingo_pytorch").MaskedCrossAttention(dim=WIDTH, dim_head=4, heads=HEADS)

    def with_media(module: Any, x: Tensor) -> Tensor:
        return module(x, x.unsqueeze(2), media_locations=immediate_media(x)[0])

    options = {"call": with_media, "causal": False, "num_heads": HEADS, "keep": immediate_media(x_of(TOKENS))[1]}
    return Built(module, x_of(), options, plain=lambda module, x: module(x, x.unsqueeze(2)))


CASES = (
    Case(
        id="memory-compressed-softmax",
        title="Dropout is given the scores instead of the weights, so softmax is thrown away",
        before=Release("memory-compressed-attention", "0.0.5"),
        after=Release("memory-compressed-attention", "0.0.6"),
        link=f"{COMPRESSED}/20cf8af",
        mistake="no-softmax",
        blame="memory_compressed_attention/memory_compressed_attention.py:99",
        path="any",
        build=memory_compressed,
    ),
    Case(
        id="memory-compressed-infinity",
        title="Hidden scores become plus infinity, and softmax is thrown away",
        before=Release("memory-compressed-attention", "0.0.4"),
        after=Release("memory-compressed-attention", "0.0.6"),
        link=f"{COMPRESSED}/49d2e74",
        mistake="mask-inverted",
        also=("nan-on-hidden-rows", "no-softmax"),
        blame="memory_compressed_attention/memory_compressed_attention.py:78",
        path="causal",
        build=memory_compressed,
    ),
    Case(
        id="flamingo-discarded-mask",
        title="The filled weights are thrown away: text before the first picture attends to all pictures",
        before=Release("flamingo-pytorch", "0.1.1"),
        after=Release("flamingo-pytorch", "0.1.2"),
        link=f"{FLAMINGO}/10913ab",
        mistake="mask-discarded",
        blame="flamingo_pytorch/flamingo_pytorch.py:179",
        path="with a mask",
        build=flamingo,
    ),
)
