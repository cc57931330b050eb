"""Bugs of two small packages of lucidrains (MIT), each fixed in the release after."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built

from .timm import HEADS, TOKENS, WIDTH, x_of

COMPRESSED = "https://github.com/lucidrains/memory-compressed-attention/commit"
FLAMINGO = "https://github.com/lucidrains/flamingo-pytorch/commit"


def memory_compressed(load: Callable[[str], Any]) -> Built:
    kind = load("memory_compressed_attention.memory_compressed_attention").MemoryCompressedAttention
    module = kind(WIDTH, heads=1, causal=True, compression_factor=1)  # with more heads its scale is that of the width

    def sample_by_sample(module: Any, x: Tensor) -> Tensor:  # its empty key is of one sample
        return torch.cat([module(sample[None]) for sample in x])

    return Built(module, x_of(), {"call": sample_by_sample, "num_heads": 1})


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
