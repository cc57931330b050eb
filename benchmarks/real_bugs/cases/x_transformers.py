"""Bugs of x-transformers and vit-pytorch (MIT, lucidrains), found in their histories."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built
from benchmarks.real_bugs.loading import bare, stand_in
from benchmarks.real_bugs.small_model import Projected

from .timm import HEADS, WIDTH, x_of

X, VIT = "lucidrains/x-transformers", "lucidrains/vit-pytorch"
FILES, VIT_FILES = ("x_transformers",), ("vit_pytorch",)


def link(repository: str, commit: str) -> str:
    return f"https://github.com/{repository}/commit/{commit}"


def visible_tokens(x: Tensor, left: bool = False) -> Tensor:
    """Return which tokens are no padding: (b, t), with two padding tokens in the first sample."""
    visible = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    visible[0, : (2 if left else 0)] = False
    visible[0, x.shape[1] - (0 if left else 2) :] = False
    return visible


def flash_mask(load: Callable[[str], Any]) -> Built:
    kind = load("x_transformers.x_transformers").Attention
    module = kind(WIDTH, dim_head=4, heads=HEADS, flash=True)

    def masked(module: Any, x: Tensor) -> Tensor:
        return module(x, mask=visible_tokens(x))[0]

    def unfused(module: Any, x: Tensor) -> Tensor:
        module.attend.flash = False
        try:
            return masked(module, x)
        finally:
            module.attend.flash = True

    keep = visible_tokens(x_of())[:, None, None]
    options = {"call": masked, "causal": False, "num_heads": HEADS, "keep": keep}
    return Built(module, x_of(), options, plain=lambda module, x: module(x)[0], other=unfused)


def softclamp(load: Callable[[str], Any]) -> Built:
    kind = load("x_transformers.attend").Attend
    try:
        attend = kind(causal=True, logit_softclamp_value=3.0, softclamp_logits=True)
    except TypeError:  # before the fix
        attend = kind(causal=True, logit_softclamp_value=3.0)
    return Built(Projected(lambda q, k, v: attend(q, k, v)[0], WIDTH, HEADS), x_of(), {"num_heads": HEADS})


def alibi_length(load: Callable[[str], Any]) -> Built:
    stand_in("entmax", entmax15=None, entmax_bisect=None)
    library = load("x_transformers.x_transformers")

    class WithAlibi(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = library.Attention(WIDTH, dim_head=4, heads=HEADS, causal=True)
            self.alibi = library.AlibiPositionalBias(HEADS)

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, rel_pos=self.alibi)[0]

    def after_longer_input(module: Any, x: Tensor) -> Tensor:
        module(torch.cat([x, x[:, :2]], dim=1))
        return module(x)

    options = {"call": after_longer_input, "num_heads": HEADS}
    return Built(WithAlibi(), x_of(), options, plain=lambda module, x: module(x))


def context_mask(load: Callable[[str], Any]) -> Built:
    bare("x_transformers")
    module = load("x_transformers.x_transformers").Attention(WIDTH, dim_head=4, heads=HEADS)

    def cross(module: Any, x: Tensor) -> Tensor:
        return module(x, context=x, mask=visible_tokens(x))[0]

    options = {"call": cross, "causal": False, "num_heads": HEADS}
    return Built(module, x_of(), options, plain=lambda module, x: module(x, context=x)[0])


def vit_mask(load: Callable[[str], Any]) -> Built:
    bare("vit_pytorch")
    module = load("vit_pytorch.vit_pytorch").Attention(WIDTH, heads=2, dim_head=6)

    def masked(module: Any, x: Tensor) -> Tensor:
        visible = visible_tokens(x)
        return module(x, mask=visible[:, 1:]) * visible.unsqueeze(-1)  # what padding gets is nobody's matter

    visible = visible_tokens(x_of())
    keep = visible[:, None, None] & visible[:, None, :, None]
    options = {"call": masked, "causal": False, "num_heads": 2, "keep": keep}
    return Built(module, x_of(), options, plain=lambda module, x: module(x))


def query_key_norm(load: Callable[[str], Any]) -> Built:
    bare("vit_pytorch")
    module = load("vit_pytorch.normalized_vit").Attention(WIDTH, dim_head=4, heads=HEADS)
    return Built(module, x_of(), {"causal": False, "num_heads": HEADS})
