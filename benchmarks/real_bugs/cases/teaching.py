"""Bugs of code that teaches: a Transformer explained, and annotated papers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.real_bugs.case import Built, Case
from benchmarks.real_bugs.loading import bare, stand_in
from benchmarks.real_bugs.sources import Commit

from .timm import HEADS, TOKENS, WIDTH, x_of
from .x_transformers import link, visible_tokens

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


CASES = (
    Case(
        id="explained-split",
        title="Heads are split, merged and transposed by view alone",
        before=Commit(EXPLAINED, "1d2e33f675232956ef4bc3fbb1c3de2300a1f0a7", LAYERS),
        after=Commit(EXPLAINED, "391c9cd469cd17ce3af26cb10078978e6a44c142", LAYERS),
        link=link(EXPLAINED, "391c9cd469cd17ce3af26cb10078978e6a44c142"),
        mistake="split-without-transpose",
        also=("merge-without-transpose",),
        blame="models/layers/multi_head_attention.py:51",
        path="any",
        build=explained,
    ),
    Case(
        id="explained-mask",
        title="Hidden scores become -1e-12, which softmax does not tell from 0",
        before=Commit(EXPLAINED, "4351995d113b3cd742eb83438730231641fe2169", LAYERS),
        after=Commit(EXPLAINED, "9c5515deafd0b224b50ea7500d38f6c370682633", LAYERS),
        link=link(EXPLAINED, "9c5515deafd0b224b50ea7500d38f6c370682633"),
        mistake="mask-with-zero",
        blame="models/layers/scale_dot_product_attention.py:35",
        path="with a mask",
        build=explained_mask,
    ),
    Case(
        id="explained-padding",
        title="The mask of padding hides rows of queries instead of keys (the fix was taken back: it is live)",
        before=Commit(EXPLAINED, "243672ce2c44077e1501206e658529db2e9b9539", LAYERS),
        after=Commit(EXPLAINED, "24ea43a54b90905f9c1fd28a7bad7b07b0ac94d1", LAYERS),
        link="https://github.com/hyunwoongko/transformer/pull/40",
        mistake="mask-transposed",
        also=("mask-rank",),
        blame="models/model/transformer.py:52",
        path="padded",
        build=explained_padding,
    ),
    Case(
        id="papers-softmax-axis",
        title="Softmax runs over the queries",
        before=Commit(PAPERS, "4eec7a4e5eec8c2ff89ecdb3fe834328f5977219", ("labml_nn/diffusion/ddpm",)),
        after=Commit(PAPERS, "7d1550dd67ef903959a6367165e17c15b89da5c8", ("labml_nn/diffusion/ddpm",)),
        link=link(PAPERS, "7d1550dd67ef903959a6367165e17c15b89da5c8"),
        mistake="softmax-wrong-axis",
        blame="labml_nn/diffusion/ddpm/unet.py:188",
        path="any",
        build=diffusion,
    ),
    Case(
        id="papers-rotated-twice",
        title="Values are rotated twice and rotated back once",
        before=Commit(PAPERS, "2236f6383ce66bb25f1880512a4ad0ec8f37514a", ("labml_nn/transformers",)),
        after=Commit(PAPERS, "09d09379c2169eac06662e17cb9969dc6e48e36a", ("labml_nn/transformers",)),
        link=link(PAPERS, "09d09379c2169eac06662e17cb9969dc6e48e36a"),
        mistake="values are rotated twice",
        also=("rotary-on-values",),
        blame="labml_nn/transformers/rope/value_pe/__init__.py:234",
        path="any",
        build=rotated_values,
    ),
)
