"""Bugs of code that uses attention for something else: clicks on advertisements, labels of texts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.real_bugs.case import Built, Case
from benchmarks.real_bugs.loading import bare, stand_in
from benchmarks.real_bugs.sources import Commit

from .timm import HEADS, WIDTH, x_of
from .x_transformers import link, visible_tokens

CLICKS, TEXTS = "reczoo/FuxiCTR", "InseeFrLab/torchTextClassifiers"
CLICK_FILES, TEXT_FILES = ("fuxictr/pytorch",), ("torchTextClassifiers/model",)


def features(load: Callable[[str], Any]) -> Built:
    bare("fuxictr", "fuxictr.pytorch", "fuxictr.pytorch.layers", "fuxictr.pytorch.models")
    library = load("fuxictr.pytorch.layers.attention")
    width = WIDTH // HEADS
    if not hasattr(library, "MultiHeadSelfAttention"):  # after the fix it stands in the model that uses it
        names = ("MLP_Layer", "EmbeddingLayer", "LR_Layer")
        scores = {"ScaledDotProductAttention": library.ScaledDotProductAttention}
        stand_in("fuxictr.pytorch.layers", **dict.fromkeys(names), **scores)
        stand_in("fuxictr.pytorch.models", BaseModel=nn.Module)
        library, width = load("fuxictr.pytorch.models.AutoInt"), WIDTH
    module = library.MultiHeadSelfAttention(WIDTH, width, HEADS, use_residual=False, use_scale=True)
    return Built(module, x_of(), {"causal": False, "num_heads": HEADS})


def labels(load: Callable[[str], Any]) -> Built:
    bare("torchTextClassifiers", "torchTextClassifiers.model", "torchTextClassifiers.model.components")
    library = load("torchTextClassifiers.model.components.text_embedder")
    module = library.LabelAttention(library.LabelAttentionConfig(n_head=HEADS, num_classes=4, embedding_dim=WIDTH))

    def masked(module: Any, x: Tensor) -> Tensor:
        return module(x, attention_mask=visible_tokens(x).long())["sentence_embedding"]

    def plain(module: Any, x: Tensor) -> Tensor:
        return module(x)["sentence_embedding"]

    keep = visible_tokens(x_of())[:, None, None].to(torch.bool)
    return Built(module, x_of(), {"call": masked, "causal": False, "num_heads": HEADS, "keep": keep}, plain=plain)


CASES = (
    Case(
        id="clicks-split",
        title="The heads are split by view alone, over samples and tokens",
        before=Commit(CLICKS, "abdea65267b6e2e4769efb27feb831dce56ccdd3", CLICK_FILES),
        after=Commit(CLICKS, "abd51820d210b4d25f96f027c48e1ff18441441a", CLICK_FILES),
        link=f"https://github.com/{CLICKS}/issues/30",
        mistake="split-without-transpose",
        also=("merge-without-transpose",),
        blame="fuxictr/pytorch/layers/attention.py:86-88",
        path="any",
        build=features,
    ),
    Case(
        id="texts-inverted-mask",
        title="A mask of hidden keys is given to a function that asks for the visible ones",
        before=Commit(TEXTS, "f269062dc4f3d1ff9c9cd025fdc84cec1c2d0649", TEXT_FILES),
        after=Commit(TEXTS, "9a8b215dde66d6d549f4e479899edbb7c287fc12", TEXT_FILES),
        link=link(TEXTS, "9a8b215dde66d6d549f4e479899edbb7c287fc12"),
        mistake="mask-inverted",
        blame="torchTextClassifiers/model/components/text_embedder.py:282-286",
        path="with a mask",
        build=labels,
    ),
)
