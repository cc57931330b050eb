"""Bugs of releases of Transformers (Apache-2.0): decoders that see the future, windows that are lost."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.real_bugs.case import Built

WIDTH, HEADS, TOKENS, VOCABULARY = 24, 3, 7, 31
BESIDE_5 = ("huggingface-hub==1.33.0", "tokenizers==0.23.1")
BESIDE_4 = ("huggingface-hub==0.36.2", "tokenizers==0.21.4")
SEES_THE_FUTURE = "https://github.com/huggingface/transformers/issues/48745"
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "embedding_size": WIDTH, "input_embedding_size": WIDTH,
    "output_embedding_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
    "intermediate_size": 20, "max_position_embeddings": 32, "is_decoder": True, "attention_type": "original_full",
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def on_embeddings(module: Any, x: Tensor) -> Tensor:
    return module(inputs_embeds=x).logits


def decoder(load: Callable[[str], Any], name: str, fused: bool, **sizes: Any) -> Built:
    """A tiny random decoder of a family; nothing is downloaded."""
    library = load("transformers")
    config = getattr(library, f"{name}Config")(**SIZES | sizes)
    config._attn_implementation = "sdpa" if fused else "eager"
    module = getattr(library, f"{name}ForCausalLM")(config).eval()
    x = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    ids = torch.randint(3, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(2))

    def unfused(module: Any, x: Tensor) -> Tensor:
        module.set_attn_implementation("eager")
        try:
            return on_embeddings(module, x)
        finally:
            module.set_attn_implementation("sdpa")

    options = {"call": on_embeddings, "num_heads": HEADS}
    return Built(module, x, options, other=unfused if fused else None, scan=(module, ids, {}))


def qwen_window(load: Callable[[str], Any]) -> Built:
    built = decoder(load, "Qwen2", False, use_sliding_window=True, sliding_window=3, max_window_layers=0)
    ahead = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    return built._replace(options={**built.options, "keep": (ahead < 3)[None, None]})


def window_cache(load: Callable[[str], Any]) -> Built:
    """One token at a time, with the cache of a window."""
    built = decoder(load, "Mistral", False, sliding_window=3, head_dim=WIDTH // HEADS)
    make_cache = load("transformers.cache_utils").SlidingWindowCache

    def cached(module: Any, x: Tensor) -> Tensor:
        cache = make_cache(module.config, max_batch_size=len(x), max_cache_len=32, device=x.device, dtype=x.dtype)
        options = {"past_key_values": cache, "use_cache": True}
        positions = torch.arange(x.shape[1], device=x.device)
        steps = [
            module(inputs_embeds=x[:, t : t + 1], cache_position=positions[t : t + 1], **options) for t in positions
        ]
        return torch.cat([step.logits for step in steps], dim=1)

    ahead = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    options = {"call": cached, "num_heads": HEADS, "keep": (ahead < 3)[None, None]}
    return built._replace(options=options, plain=lambda module, x: module(inputs_embeds=x, use_cache=False).logits)
