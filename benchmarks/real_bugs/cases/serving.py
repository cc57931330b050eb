"""Bugs that only show where keys and values are kept from step to step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built, Case
from benchmarks.real_bugs.loading import bare, stand_in
from benchmarks.real_bugs.small_model import Projected
from benchmarks.real_bugs.sources import Commit

from .timm import HEADS, WIDTH, x_of

NANOCHAT, LAG = "karpathy/nanochat", "time-series-foundation-models/lag-llama"
WINDOW = 2  # keys to the left, besides the query's own
FLASH, MODULE = "nanochat/flash_attention.py", "lag_llama/model/module.py"


def decode_window(load: Callable[[str], Any]) -> Built:
    flash = load(FLASH).flash_attn

    def in_one_pass(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))  # (b, h, t, d) -> (b, t, h, d)
        return flash.flash_attn_func(q, k, v, causal=True, window_size=(WINDOW, 0)).transpose(1, 2)

    def token_by_token(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        kept_k, kept_v = torch.zeros_like(k), torch.zeros_like(v)
        steps = []
        for t in range(q.shape[1]):
            new = (one[:, t : t + 1] for one in (q, k, v))
            query, key, value = new
            place = torch.full((len(q),), t, dtype=torch.int32, device=q.device)
            steps.append(
                flash.flash_attn_with_kvcache(
                    query, kept_k, kept_v, k=key, v=value, cache_seqlens=place, causal=True, window_size=(WINDOW, 0)
                )
            )
        return torch.cat(steps, dim=1).transpose(1, 2)

    def plain(module: Any, x: Tensor) -> Tensor:
        module.core = in_one_pass
        try:
            return module(x)
        finally:
            module.core = token_by_token

    ahead = torch.arange(5)[:, None] - torch.arange(5)
    options = {"num_heads": HEADS, "keep": (ahead <= WINDOW)[None, None]}
    return Built(Projected(token_by_token, WIDTH, HEADS), x_of(), options, plain=plain)


def lag_llama(load: Callable[[str], Any], prompt: int) -> Built:
    stand_in("gluonts.torch.distributions", DistributionOutput=object)
    stand_in("gluonts.torch.scaler", MeanScaler=object, NOPScaler=object, StdScaler=object)
    stand_in("gluonts.torch.util", lagged_sequence_values=None, unsqueeze_expand=None)
    stand_in("gluon_utils.scalers.robust_scaler", RobustScaler=object)
    bare("lag_llama", "lag_llama.model")
    library = load("lag_llama.model.module")
    module = library.CausalSelfAttention(library.LTSMConfig(block_size=32, n_head=HEADS, n_embd_per_head=4))

    def cached(module: Any, x: Tensor) -> Tensor:
        module.kv_cache = None
        first = min(prompt, x.shape[1])
        chunks = (x[:, :first], *(x[:, t : t + 1] for t in range(first, x.shape[1])))
        return torch.cat([module(chunk, use_kv_cache=True) for chunk in chunks], dim=1)

    ahead = torch.arange(5)[:, None] - torch.arange(5)
    options = {"call": cached, "num_heads": HEADS, "keep": (ahead < prompt)[None, None]}  # the oldest key is dropped
    return Built(module, x_of(), options, plain=lambda module, x: module(x, use_kv_cache=False))


CASES = (
    Case(
        id="nanochat-window-decode",
        title="One token at a time, the window is forgotten and all kept keys are seen",
        before=Commit(NANOCHAT, "ace6740bdd392de4710f054afa7dc9368a076606", (FLASH,)),
        after=Commit(NANOCHAT, "3ba42e8135bc88283004fc8d803a1eb00879a738", (FLASH,)),
        link=f"https://github.com/{NANOCHAT}/issues/452",
        mistake="window-lost-in-decode",
        blame=f"{FLASH}:73-74",
        path="cached, token by token",
        build=decode_window,
    ),
    Case(
        id="lag-llama-prefill",
        title="With the cache switched on, the first chunk is not masked",
        before=Commit(LAG, "4a2d099f7e32f90e21a03a73e4a71b81cab7d038", (MODULE,)),
        after=Commit(LAG, "252b4555732b799c6fae64b96d063b36f8e71da5", (MODULE,)),
        link=f"https://github.com/{LAG}/issues/81",
        mistake="no-causal-mask",
        also=("mask-skipped-when-cached",),
        blame=f"{MODULE}:342",
        path="cached, first chunk",
        build=lambda load: lag_llama(load, prompt=5),
    ),
    Case(
        id="lag-llama-positions",
        title="A cached step turns its query and all kept keys by the angle of position 0",
        before=Commit(LAG, "5f0393d77cce00337ee384ad47b3f75b4d1549b4", (MODULE,)),
        after=Commit(LAG, "252b4555732b799c6fae64b96d063b36f8e71da5", (MODULE,)),
        link=f"https://github.com/{LAG}/issues/81",
        mistake="positions-restart-in-cache",
        also=("rotary-unused",),
        blame=f"{MODULE}:313-314",
        path="cached, token by token",
        build=lambda load: lag_llama(load, prompt=3),
    ),
)
