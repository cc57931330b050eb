"""Bugs that only show where keys and values are kept from step to step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built
from benchmarks.real_bugs.loading import bare, stand_in
from benchmarks.real_bugs.small_model import Projected

from .timm import HEADS, WIDTH, x_of

NANOCHAT, LAG = "karpathy/nanochat", "time-series-foundation-models/lag-llama"
WINDOW = 2  # keys to the left, besides the query's own
FLASH, MODULE = "nanochat/flash_attention.py", "lag_llama/model/module.py"


def decode_window(load: Callable[[str], Any]) -> Built:
    flash = load(FLASH).flash_attn

    def in_one_pass(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))  # (b, h, t, d) -> (b, t, h, d)
        return flash.flash_attn_func(q, k, v, causal=True, window_size=(WINDOW, 0)).transpose(1, 2)

    def token_by_token(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
        kept_k, kept_v = torch.zeros_like(k), torch.zeros_like(v)
        steps = []
        for t in range(q.shape[1]):
            new = (tensor[:, t : t + 1] for tensor in (q, k, v))
            query, key, value = new
            position = torch.full((len(q),), t, dtype=torch.int32, device=q.device)
            steps.append(
                flash.flash_attn_with_kvcache(
                    query, kept_k, kept_v, k=key, v=value, cache_seqlens=position, causal=True, window_size=(WINDOW, 0)
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
