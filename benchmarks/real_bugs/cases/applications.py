"""Bugs of code that uses attention for something else: clicks on advertisements, labels of texts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.real_bugs.case import Built
from benchmarks.real_bugs.loading import bare, stand_in

from .timm import HEADS, WIDTH, x_of
from .x_transformers import visible_tokens

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
