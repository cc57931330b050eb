"""A model of transformers in which the attention of each layer is yours, and how far that is from its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .layer import LayerAttention

LAST_PARTS = (2, 1)  # tokens that are compared with those before them in a cache


class Checkpoint:
    """A model of transformers in which the attention of each layer is yours.

    Attributes:
        model: transformers' model. `model.generate` writes with your attention, and with transformers' cache if your
            forward takes `cache=`. What its `save_pretrained` writes has the names of your parameters.
        layers: your attention modules, one per layer, with the trained weights.
    """

    def __init__(self, model: Any, replacements: Sequence[LayerAttention]) -> None:
        self.model = model
        self.layers = tuple(each.attention for each in replacements)
        self._replacements = replacements
        self._originals = [layer.self_attn for layer in model.model.layers]
        self._takes_cache = "cache" in replacements[0].takes
        if not self._takes_cache:
            model.config.use_cache = model.generation_config.use_cache = False
        self._put(replacements)
        model.eval()

    @torch.no_grad()
    def compare(self, token_ids: Tensor, *, attention_mask: Tensor | None = None) -> Comparison:
        """Compare the attention of each layer, and the logits, with those of transformers' own attention.

        In each layer both are given the same input, that of transformers' model. An attention that takes `cache=` is
        also given it in parts.

        Args:
            token_ids: (batch, token), 4 tokens or more.
            attention_mask: (batch, token), 1 for a token and 0 for padding, as a tokenizer returns it; only tokens are
                compared.

        Raises:
            ValueError: token_ids that the model can't take, an attention_mask of another shape.
        """
        _check_ids(token_ids, self.model.config.vocab_size)
        real = (torch.ones_like(token_ids) if attention_mask is None else attention_mask).bool()
        if real.shape != token_ids.shape or not real.any():
            raise ValueError(
                f"attention_mask must be {tuple(token_ids.shape)}, as token_ids are, with 1 for each token and 0 for "
                f"padding, got the shape {tuple(real.shape)} with {int(real.sum())} tokens."
            )
        expected, calls = self._own_calls(token_ids, attention_mask)
        tolerance = 1e-4 if torch.finfo(self.model.dtype).bits > 16 else 0.03
        limits = [tolerance * theirs[real].abs().max().item() for _, theirs in calls]
        name, num_tokens = type(self.layers[0]).__name__, token_ids.shape[1]

        def in_parts(*parts: int) -> Comparison:
            logits = _difference(self._logits(token_ids, attention_mask, *parts)[real], expected[real])
            layers = [
                _difference(own.in_parts(*parts, **options)[real], theirs[real])
                for own, (options, theirs) in zip(self._replacements, calls, strict=True)
            ]
            beyond = (at for at, limit in enumerate(limits) if not layers[at] <= limit)  # nan is beyond it, too
            return Comparison(name, logits, tuple(layers), next(beyond, None), len(parts) > 1)

        found = in_parts(num_tokens)
        if found.first is None and self._takes_cache:
            found = in_parts(num_tokens - sum(LAST_PARTS), *LAST_PARTS)
        return found

    def _own_calls(self, token_ids: Tensor, mask: Tensor | None) -> tuple[Tensor, list[tuple[dict[str, Any], Tensor]]]:
        """The logits of transformers' own model, and what the attention of each layer was given and returned."""
        calls: list[tuple[dict[str, Any], Tensor]] = []
        handles = [
            module.to(self.model.device, self.model.dtype).register_forward_hook(
                lambda _, words, options, result: calls.append((options, result[0])), with_kwargs=True
            )
            for module in self._originals
        ]
        self._put(self._originals)
        try:
            return self._logits(token_ids, mask, token_ids.shape[1]), calls
        finally:
            self._put(self._replacements)
            for handle in handles:
                handle.remove()

    def _put(self, attentions: Sequence[nn.Module]) -> None:
        for layer, module in zip(self.model.model.layers, attentions, strict=True):
            layer.self_attn = module

    def _logits(self, token_ids: Tensor, mask: Tensor | None, *parts: int) -> Tensor:
        positions = None if mask is None else (mask.long().cumsum(-1) - 1).clamp(min=0)
        cache, end, logits = None, 0, []
        for part in parts:
            start, end = end, end + part
            result = self.model(
                token_ids[:, start:end],
                attention_mask=None if mask is None else mask[:, :end],
                position_ids=None if positions is None else positions[:, start:end],
                past_key_values=cache,
                use_cache=len(parts) > 1,
            )
            cache = result.past_key_values
            logits.append(result.logits)
        return torch.cat(logits, dim=1)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The largest differences from transformers' own attention; its repr says them in a sentence.

    Attributes:
        name: the class of your attention.
        logits: the largest difference of a logit.
        layers: the largest difference of an element of the attention's output, per layer.
        first: the first layer that differs by more than rounding does, counted from 0; None if all agree.
        with_cache: whether the differences are those with a cache, after none without.
    """

    name: str
    logits: float
    layers: tuple[float, ...]
    first: int | None
    with_cache: bool

    def __repr__(self) -> str:
        if self.first is None:
            return f"{self.name} computes what transformers computes: the logits differ by at most {self.logits:.1e}."
        cached = "with a cache, and only then, " if self.with_cache else ""
        return (
            f"{self.name} {cached}computes something else than transformers, first in layer {self.first}: its output "
            f"differs by up to {self.layers[self.first]:.1e} there, and the logits by up to {self.logits:.1e}."
        )


def _difference(own: Tensor, theirs: Tensor) -> float:
    return (own - theirs).abs().max().item()


def _check_ids(token_ids: Tensor, vocab_size: int) -> None:
    got, least = type(token_ids).__name__, sum(LAST_PARTS) + 1
    if isinstance(token_ids, Tensor):
        got = f"{token_ids.dtype} of the shape {tuple(token_ids.shape)}"
        if not token_ids.is_floating_point() and token_ids.dim() == 2 and token_ids.shape[1] >= least:
            lowest, highest = int(token_ids.min()), int(token_ids.max())
            if lowest >= 0 and highest < vocab_size:
                return
            got = f"{lowest} to {highest}"
    raise ValueError(
        f"token_ids must be a tensor of integers, (batch, token), with at least {least} tokens, all below "
        f"vocab_size={vocab_size}, got {got}: encode a text with the checkpoint's own tokenizer."
    )
