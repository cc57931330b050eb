"""The place of a layer's attention: called as transformers calls its own, it calls yours as the course does."""

import sys
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.attention import KVCache, causal_keep
from course_lib.calling import first_tensor, parameters_of

NEEDED = {  # an argument of forward: what to do without it
    "cache": "transformers' cache needs it: add it, or pass use_cache=False",
    "keep": "padding needs it: add it, or pass texts of one length and no attention_mask",
    "positions": "padding on the left needs it: add it, or pass texts of one length and no attention_mask",
}


class LayerAttention(nn.Module):
    """Your attention in the place of a layer's.

    Args:
        attention: your module.
        layer: the index of the layer.
        num_kv_heads, head_dim: the sizes of its keys.
    """

    def __init__(self, attention: nn.Module, layer: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.attention = attention
        self.layer, self.num_kv_heads, self.head_dim = layer, num_kv_heads, head_dim
        parameters = parameters_of(attention)
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self.takes = {name for name in NEEDED if takes_all or name in {each.name for each in parameters}}

    def forward(
        self,
        hidden_states: Tensor,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Call your attention with what it can't know by itself: the cache, padding, positions that skip some."""
        (batch, num_tokens, _), device = hidden_states.shape, hidden_states.device
        options: dict[str, Any] = {}
        start = 0
        if past_key_values is not None:
            keys = hidden_states.new_empty(batch, self.num_kv_heads, 0, self.head_dim)
            options["cache"] = LayerCache(past_key_values, self.layer, keys)
            start = options["cache"].length
        if position_ids is not None and (position_ids != torch.arange(start, start + num_tokens, device=device)).any():
            options["positions"] = position_ids[0] if len(position_ids) == 1 else position_ids
        if attention_mask is not None:
            keep = attention_mask if attention_mask.dtype == torch.bool else attention_mask == 0
            keep = keep[..., : start + num_tokens]
            if (keep != causal_keep(num_tokens, keep.shape[-1], device=device)).any():
                options["keep"] = keep
        name = type(self.attention).__name__
        for option in [option for option in options if option not in self.takes]:
            raise TypeError(f"the forward of {name} takes no {option}=, but {NEEDED[option]}.")
        output = first_tensor(self.attention(hidden_states, **options))
        got = (tuple(output.shape), output.dtype) if isinstance(output, Tensor) else type(output).__name__
        if got != (tuple(hidden_states.shape), hidden_states.dtype):
            raise ValueError(
                f"{name} must return {tuple(hidden_states.shape)}, {hidden_states.dtype}, as it was given; got {got}."
            )
        return output, None

    def in_parts(
        self, *parts: int, hidden_states: Tensor, attention_mask: Tensor | None, position_ids: Tensor, **others: Any
    ) -> Tensor:
        """The output for the arguments of a call without a cache, in parts of so many tokens with one."""
        from transformers import DynamicCache

        cache, end, outputs = DynamicCache() if len(parts) > 1 else None, 0, []
        for part in parts:
            start, end = end, end + part
            output, _ = self(
                hidden_states[:, start:end],
                attention_mask=None if attention_mask is None else attention_mask[:, :, start:end, :end],
                position_ids=position_ids[:, start:end],
                past_key_values=cache,
            )
            outputs.append(output)
        return torch.cat(outputs, dim=1)


class LayerCache(KVCache):
    """One layer of transformers' cache, in the form of the course's.

    Args:
        cache: a cache of transformers.
        layer: the index of the layer.
        keys: (batch, kv head, 0, head_dim), no keys yet.
    """

    def __init__(self, cache: Any, layer: int, keys: Tensor) -> None:
        self.cache, self.layer = cache, layer
        self.batch, self.length, self.max_len = len(keys), int(cache.get_seq_length(layer)), sys.maxsize
        self._keys = self._values = keys

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens, and return all."""
        self.length += keys.shape[2]
        self._keys, self._values = self.cache.update(keys, values, self.layer)
        return self.keys, self.values  # of the tokens so far, where a StaticCache has room for more

    __call__ = append  # as MyCache of lesson 09
