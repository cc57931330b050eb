"""Bugs of x-transformers and vit-pytorch (MIT, lucidrains), found in their histories."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built, Case
from benchmarks.real_bugs.loading import bare, stand_in
from benchmarks.real_bugs.small_model import Projected
from benchmarks.real_bugs.sources import Commit

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

    def after_a_longer_one(module: Any, x: Tensor) -> Tensor:
        module(torch.cat([x, x[:, :2]], dim=1))
        return module(x)

    options = {"call": after_a_longer_one, "num_heads": HEADS}
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


CASES = (
    Case(
        id="x-transformers-flash-mask",
        title="The mask of hidden keys is given to a function that asks for the visible ones",
        before=Commit(X, "186335add6a96e2ba7e7a8fde8bbd58168885980", FILES),
        after=Commit(X, "d2e0700aa0f3648c89885e319636244140d2d602", FILES),
        link=link(X, "d731d82b99fbb3491b6a5f0d2012ea2f523411d8"),
        mistake="mask-inverted",
        blame="x_transformers/attend.py:174-179",
        path="fused, with a mask",
        build=flash_mask,
    ),
    Case(
        id="x-transformers-softclamp",
        title="The cap is applied after the mask, which it lifts to a finite score",
        before=Commit(X, "af345a3b3ad297d3b22fd6d97025765f6971dc90", FILES),
        after=Commit(X, "907861187a1fa55fa2708e841845add0e78b67a8", FILES),
        link=link(X, "907861187a1fa55fa2708e841845add0e78b67a8"),
        mistake="softcap-missing",
        also=("no-causal-mask", "mask-with-zero"),
        blame="x_transformers/attend.py:332-333",
        path="capped scores",
        build=softclamp,
    ),
    Case(
        id="x-transformers-alibi-length",
        title="The biases of one length are kept and added to scores of another",
        before=Commit(X, "df89141c52f0d8c7a258c935d12934ebcd11bf53", FILES),
        after=Commit(X, "74f241d8fd127cd59750cf294a8e28947f289649", FILES),
        link=link(X, "74f241d8fd127cd59750cf294a8e28947f289649"),
        mistake="fixed-length",
        blame="x_transformers/x_transformers.py:272-282",
        path="a second call of another length",
        build=alibi_length,
    ),
    Case(
        id="x-transformers-context-mask",
        title="Without a mask of its own, the context is hidden by the mask of the queries",
        before=Commit(X, "7395ebd9bfaea85ef8358e1d46ca176351058017", FILES),
        after=Commit(X, "b0715f2ef394a1b107b98755fd1d964a2755def9", FILES),
        link=link(X, "b0715f2ef394a1b107b98755fd1d964a2755def9"),
        mistake="the mask of the queries hides keys of the context",
        also=("mask-rank", "mask-transposed"),
        blame="x_transformers/x_transformers.py:792",
        path="cross-attention, with a mask",
        build=context_mask,
    ),
    Case(
        id="vit-mask-rank",
        title="A mask without an axis for the heads is laid over samples and heads",
        before=Commit(VIT, "85314cf0b6c4ab254fed4257d2ed069cf4f8f377", VIT_FILES),
        after=Commit(VIT, "3f2cbc6e23b935224b57915a2b0e1a21eb60c5a6", VIT_FILES),
        link=link(VIT, "3f2cbc6e23b935224b57915a2b0e1a21eb60c5a6"),
        mistake="mask-rank",
        also=("batch-mixed",),
        blame="vit_pytorch/vit_pytorch.py:60-61",
        path="with a mask",
        build=vit_mask,
    ),
    Case(
        id="vit-norm-order",
        title="Queries and keys are scaled before they are normalised, so the learned scale is lost",
        before=Commit(VIT, "36ddc7a6baa4d7f54c4ba7cd5558deb78808afd1", VIT_FILES),
        after=Commit(VIT, "e300cdd7dc602793c4551f87a26c81693c939318", VIT_FILES),
        link=link(VIT, "e300cdd7dc602793c4551f87a26c81693c939318"),
        mistake="the learned scale is normalised away",
        blame="vit_pytorch/normalized_vit.py:93-94",
        path="any",
        build=query_key_norm,
    ),
)
