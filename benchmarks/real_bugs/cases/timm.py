"""Bugs of timm (Apache-2.0), the library of image models: two paths, fused and unfused, of which one was wrong."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built
from benchmarks.real_bugs.loading import bare, stand_in

WIDTH, TOKENS, HEADS = 12, 5, 3
REPOSITORY = "huggingface/pytorch-image-models"
PULL = f"https://github.com/{REPOSITORY}/pull"
COMMIT = f"https://github.com/{REPOSITORY}/commit"


def x_of(tokens: int = TOKENS, batch: int = 2) -> Tensor:
    return torch.randn(batch, tokens, WIDTH, generator=torch.Generator().manual_seed(1))


def as_image(module: Any, x: Tensor, *options: Any) -> Tensor:
    """Run code for images on tokens that lie in one column: (b, t, c) -> (b, c, t, 1) -> (b, t, c)."""
    return module(x.transpose(1, 2).unsqueeze(-1), *options).flatten(2).transpose(1, 2)


def without_torchvision(*packages: str) -> None:
    """Make modules of timm importable; they need no more of torchvision than a name."""
    stand_in("torchvision")
    stand_in("torchvision.ops")
    stand_in("torchvision.ops.misc", FrozenBatchNorm2d=torch.nn.Module)
    bare(*packages)
    stand_in("timm", __version__="")


def images() -> None:
    """Make models of timm importable without its data sets."""
    without_torchvision("timm", "timm.models")
    names = ("IMAGENET_DEFAULT", "IMAGENET_INCEPTION", "OPENAI_CLIP")
    stand_in("timm.data", **{f"{name}_{part}": () for name in names for part in ("MEAN", "STD")})


def unfused(run: Callable[[Any, Tensor], Tensor], fused: bool) -> Callable[[Any, Tensor], Tensor]:
    """Return `run` with the module's switch set."""

    def switched(module: Any, x: Tensor) -> Tensor:
        before, module.fused_attn = module.fused_attn, fused
        try:
            return run(module, x)
        finally:
            module.fused_attn = before

    return switched


def multi_query(load: Callable[[str], Any]) -> Built:
    without_torchvision("timm")
    module = load("timm.layers.attention2d").MultiQueryAttentionV2(WIDTH, num_heads=HEADS, key_dim=4, value_dim=6)
    return Built(module, x_of(), {"call": as_image, "causal": False, "num_heads": HEADS, "num_kv_heads": 1})


def attention_2d(load: Callable[[str], Any]) -> Built:
    without_torchvision("timm")
    module = load("timm.layers.attention2d").Attention2d(WIDTH, num_heads=HEADS)
    options = {"call": unfused(as_image, False), "causal": False, "num_heads": HEADS}
    return Built(module, x_of(), options, plain=as_image, other=unfused(as_image, True))


def eva_mask(load: Callable[[str], Any]) -> Built:
    images()
    module = load("timm.models.eva").EvaAttention(WIDTH, num_heads=HEADS)

    def keep(x: Tensor) -> Tensor:
        visible = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        visible[0, 3:] = False
        return visible

    def masked(module: Any, x: Tensor) -> Tensor:
        return module(x, attn_mask=keep(x))

    def fused(module: Any, x: Tensor) -> Tensor:
        return module(x, attn_mask=keep(x)[:, None, None])

    x = x_of()
    options = {"call": unfused(masked, False), "causal": False, "num_heads": HEADS, "keep": keep(x)[:, None, None]}
    return Built(module, x, options, plain=lambda module, x: module(x), other=unfused(fused, True))


def vision_transformer(load: Callable[[str], Any]) -> Built:
    images()
    module = load("timm.models.vision_transformer").Attention(WIDTH, num_heads=HEADS, attn_drop=0.3)
    plain = unfused(lambda module, x: module(x), False)
    return Built(module, x_of(), {"causal": False, "num_heads": HEADS}, other=plain)


def beit(load: Callable[[str], Any]) -> Built:
    images()
    module = load("timm.models.beit").Attention(WIDTH, num_heads=HEADS, attn_drop=0.3)
    plain = unfused(lambda module, x: module(x), False)
    return Built(module, x_of(), {"causal": False, "num_heads": HEADS}, other=plain)


def bottleneck(load: Callable[[str], Any]) -> Built:
    without_torchvision("timm", "timm.models", "timm.models.layers")
    module = load("timm.models.layers.bottleneck_attn").BottleneckAttn(WIDTH, feat_size=(3, 2), num_heads=HEADS)

    def on_grid(module: Any, x: Tensor) -> Tensor:
        return module(x.transpose(1, 2).unflatten(2, (3, 2))).flatten(2).transpose(1, 2)

    return Built(module, x_of(6), {"call": on_grid, "causal": False, "num_heads": HEADS})
