"""Bugs of the code of a book, with a cache."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built
from benchmarks.real_bugs.loading import stand_in

from .timm import HEADS, WIDTH, x_of

BOOK = "rasbt/LLMs-from-scratch"
CACHED, WINDOW = "ch04/03_kv-cache/gpt_with_kv_cache.py", "ch04/06_swa/gpt_with_kv_swa.py"


def in_chunks(size: int) -> Callable[[Any, Tensor], Tensor]:
    """Return a call that gives the module `size` tokens at a time and lets it keep keys and values."""

    def cached(module: Any, x: Tensor) -> Tensor:
        module.reset_cache()
        return torch.cat([module(chunk, use_cache=True) for chunk in x.split(size, dim=1)], dim=1)

    return cached


def cached_mask(load: Callable[[str], Any]) -> Built:
    stand_in("tiktoken")
    module = load(CACHED).MultiHeadAttention(WIDTH, WIDTH, 32, 0.0, HEADS)
    options = {"call": in_chunks(2), "num_heads": HEADS}
    return Built(module, x_of(6), options, plain=lambda module, x: module(x))


def window_chunk(load: Callable[[str], Any]) -> Built:
    stand_in("tiktoken")
    module = load(WINDOW).MultiHeadAttentionWithSWA(WIDTH, WIDTH, 0.0, HEADS, sliding_window_size=3)
    ahead = torch.arange(7)[:, None] - torch.arange(7)
    options = {"call": in_chunks(64), "num_heads": HEADS, "keep": (ahead < 3)[None, None]}
    return Built(module, x_of(7), options, plain=lambda module, x: module(x))
