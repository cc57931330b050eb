"""Bugs of code that teaches: a Transformer explained, and annotated papers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.real_bugs.case import Built
from benchmarks.real_bugs.loading import bare, stand_in

from .timm import HEADS, TOKENS, WIDTH, x_of
from .x_transformers import visible_tokens

EXPLAINED, PAPERS = "hyunwoongko/transformer", "labmlai/annotated_deep_learning_paper_implementations"
LAYERS = ("models",)


def causal_mask(x: Tensor) -> Tensor:
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()


def self_attention(module: Any, x: Tensor) -> Tensor:
    return module(x, x, x)


def explained(load: Callable[[str], Any]) -> Built:
    module = load("models.layers.multi_head_attention").MultiHeadAttention(WIDTH, HEADS)
    return Built(module, x_of(), {"call": self_attention, "causal": False, "num_heads": HEADS})


def explained_mask(load: Callable[[str], Any]) -> Built:
    module = load("models.layers.multi_head_attention").MultiHeadAttention(WIDTH, HEADS)
    core = load("models.layers.scale_dot_product_attention").ScaleDotProductAttention()

    def masked(module: Any, x: Tensor) -> Tensor:
        return module(x, x, x, mask=causal_mask(x)[None, None])

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return core(q[:, None], k[:, None], v[:, None])[0][:, 0]

    def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return core(q[:, None], k[:, None], v[:, None], mask=causal_mask(q))[0][:, 0]

    codes = {"attention": attention, "causal_attention": causal}
    return Built(module, x_of(), {"call": masked, "num_heads": HEADS}, plain=self_attention, torchcode=codes)


def explained_padding(load: Callable[[str], Any]) -> Built:
    """The model's mask of the target, for ids in which 0 is padding, in its own attention."""
    library = load("models.model.transformer").Transformer
    attention = load("models.layers.multi_head_attention").MultiHeadAttention

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention(WIDTH, HEADS)

        def forward(self, x: Tensor) -> Tensor:
            maker = library.__new__(library)
            nn.Module.__init__(maker)
            maker.trg_pad_idx, maker.device = 0, x.device
            ids = visible_tokens(x, left=True).long()  # on the right, the causal mask would hide it, too
            if hasattr(maker, "make_trg_mask"):
                mask = maker.make_trg_mask(ids)
            else:
                mask = maker.make_pad_mask(ids, ids, 0, 0) * maker.make_no_peak_mask(ids, ids)
            return self.attention(x, x, x, mask=mask)

    options = {"num_heads": HEADS, "keep": visible_tokens(x_of(), left=True)[:, None, None]}
    return Built(Masked(), x_of(), options, plain=lambda module, x: module.attention(x, x, x))


def diffusion(load: Callable[[str], Any]) -> Built:
    stand_in("labml_helpers.module", Module=nn.Module)
    bare("labml_nn", "labml_nn.diffusion", "labml_nn.diffusion.ddpm")
    module = load("labml_nn.diffusion.ddpm.unet").AttentionBlock(WIDTH, d_k=6, n_groups=3)

    def as_image(module: Any, x: Tensor) -> Tensor:
        return module(x.transpose(1, 2).unsqueeze(-1)).flatten(2).transpose(1, 2)

    return Built(module, x_of(), {"call": as_image, "causal": False, "num_heads": 1})


def rotated_values(load: Callable[[str], Any]) -> Built:
    stand_in("labml", tracker=None)
    stand_in("labml.logger", inspect=None)
    stand_in("labml_helpers.module", Module=nn.Module)
    bare("labml_nn", "labml_nn.transformers")
    kind = load("labml_nn.transformers.rope.value_pe").RotaryValuePEMultiHeadAttention
    module = kind(HEADS, HEADS * 8, 0.5, 0.5)

    def masked(module: Any, x: Tensor) -> Tensor:
        first = x.transpose(0, 1)  # (t, b, d)
        return module(query=first, key=first, value=first, mask=causal_mask(x)[:, :, None]).transpose(0, 1)

    x = torch.randn(2, TOKENS, HEADS * 8, generator=torch.Generator().manual_seed(1))
    return Built(module, x, {"call": masked, "num_heads": HEADS})
