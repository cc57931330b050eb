"""Multi-head latent attention: the cache holds one short vector per token, from which all keys and values are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .cache import Cache
from .checks import check_even, check_positive
from .rotary import apply_rotary, rows_at_positions
from .rotary_base import RotaryAttention

if TYPE_CHECKING:
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention


class LatentAttention(RotaryAttention):
    """Attention whose keys and values of all heads are projected up from one latent vector per token; no bias, causal.

        latents     = RMSNorm(x W_DKV)                          (batch, token, latent_dim)      in the cache
        rotary_keys = rotary(x W_KR)                            (batch, token, rotary_dim)      in the cache, one head
        queries_i   = [x W_Q_i, rotary(x W_QR_i)]               head_dim + rotary_dim wide
        keys_i      = [latents W_UK_i, rotary_keys]
        head_i      = softmax(queries_i keys_i^T / sqrt(head_dim + rotary_dim), masked, in float32) (latents W_UV_i)
        output      = concat(head_0, ..., head_{h-1}) W_O

    The same numbers come from the absorbed form, which makes no keys and values. It applies W_UK to the queries instead
    of the latents, and W_UV to the context instead of the latents, because matrix products are associative:

        (x W_Q_i) (latents W_UK_i)^T = (x W_Q_i W_UK_i^T) latents^T
        weights (latents W_UV_i)     = (weights latents) W_UV_i

    So it is multi-query attention: all heads share one key, [latents, rotary_keys], and one value, latents. Positions
    need a part of their own (decoupled rotary positions), because a rotation between W_Q_i and W_UK_i^T, different for
    each pair of tokens, would keep the two from being absorbed.

    The cache holds latent_dim + rotary_dim elements per token, for any number of heads:

        cache = KVCache(batch, 1, max_len, rotary_dim, value_dim=latent_dim)

    Args:
        d_model: width of a token, in and out.
        num_heads: number of heads.
        latent_dim: width of the latent vector that keys and values are made from.
        head_dim: width of the part of a query or key without positions.
        rotary_dim: width of the part with rotary positions, even.
        value_dim: width of a value; head_dim if None.
        rope_theta: the larger, the more slowly the rotary angles grow.
        max_positions: rows of the table of rotary angles.
        kernel: "explicit" runs `attend`, "fused" runs `attend_fused`, which returns no attention weights.

    Raises:
        ValueError: a size below 1, an odd rotary_dim, a rope_theta that is not above 0, an unknown kernel.
        TypeError: a size that is not an integer.

    Source: DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model", 2024,
    section 2.1. Queries are not compressed, as in DeepSeek-V2-Lite: that saves memory in training, not in the cache.

    Example:
        >>> module = LatentAttention(8, num_heads=4, latent_dim=6, head_dim=3, rotary_dim=2)
        >>> x = torch.randn(1, 5, 8)
        >>> torch.allclose(module(x), module(x, absorb=True), atol=1e-6)
        True
    """

    softmax_dtype = torch.float32

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        latent_dim: int,
        head_dim: int,
        rotary_dim: int,
        value_dim: int | None = None,
        rope_theta: float = 10000.0,
        max_positions: int = 4096,
        kernel: str = "explicit",
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        check_positive(d_model=d_model, num_heads=num_heads, latent_dim=latent_dim, head_dim=head_dim)
        check_positive(rotary_dim=rotary_dim, value_dim=value_dim, max_positions=max_positions)
        check_even(rotary_dim, "rotary_dim")
        super().__init__(rotary_dim, rope_theta, max_positions, kernel)
        self.num_heads = self.num_kv_heads = num_heads
        self.latent_dim = latent_dim
        self.head_dim = head_dim
        self.value_dim = value_dim
        self.q_proj = nn.Linear(d_model, num_heads * head_dim, bias=False)  # W_Q
        self.rotary_q_proj = nn.Linear(d_model, num_heads * rotary_dim, bias=False)  # W_QR
        self.latent_proj = nn.Linear(d_model, latent_dim, bias=False)  # W_DKV
        self.rotary_k_proj = nn.Linear(d_model, rotary_dim, bias=False)  # W_KR
        self.latent_norm = nn.RMSNorm(latent_dim, eps=1e-6)
        self.k_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)  # W_UK
        self.v_proj = nn.Linear(latent_dim, num_heads * value_dim, bias=False)  # W_UV
        self.out_proj = nn.Linear(num_heads * value_dim, d_model, bias=False)  # W_O

    def forward(
        self,
        x: Tensor,
        *,
        keep: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        absorb: bool = False,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Project down, rotate, append to the cache, and attend in one of the two forms.

        Args:
            x: (batch, token, d_model).
            keep: bool, True = may attend, broadcasts to (batch, head, query, key); combined with
                the causal mask by `&`.
            positions: integers, (token,) or (batch, token); if None they continue those in the cache, or begin at 0.
            cache: rotary keys (as keys) and latents (as values) of the tokens before x; those of x are appended.
            absorb: whether to attend to the latents themselves, which is cheaper for few queries (decoding), instead of
                projecting them up to keys and values, which is cheaper for many (a prompt, training).
            return_weights: whether to return the attention weights too; the explicit kernel only.

        Returns:
            output (batch, token, d_model), or (output, weights) with attention weights (batch, head, query, key).

        Raises:
            ValueError, TypeError: x, keep, positions or cache does not fit; the message says why, and nothing is
                written to the cache.
        """
        self.prepare(x, self.num_heads, keep, return_weights, cache=cache)
        batch, num_tokens, _ = x.shape
        start = 0 if cache is None else cache.length
        cos, sin = rows_at_positions(self.cos, self.sin, batch, num_tokens, positions, start)

        queries = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (b, t, m) -> (b, h, t, d)
        rotary_queries = self.rotary_q_proj(x).unflatten(-1, (self.num_heads, -1))  # (b, t, m) -> (b, t, h, r)
        rotary_queries = apply_rotary(rotary_queries.transpose(1, 2), cos, sin)  # (b, t, h, r) -> (b, h, t, r)
        latents = self.latent_norm(self.latent_proj(x))[:, None]  # (b, t, m) -> (b, t, l) -> (b, 1, t, l)
        rotary_keys = apply_rotary(self.rotary_k_proj(x)[:, None], cos, sin)  # (b, t, m) -> (b, 1, t, r)
        if cache is not None:
            rotary_keys, latents = cache.append(rotary_keys, latents)  # (b, 1, k, r), (b, 1, k, l)

        run = self._absorbed if absorb else self._materialized
        context_by_head, weights = run(queries, rotary_queries, latents, rotary_keys, keep)  # (b, h, t, v)

        output = self.out_proj(context_by_head.transpose(1, 2).flatten(2))  # (b, h, t, v) -> (b, t, h * v) -> (b, t, m)
        return (output, weights) if return_weights else output

    def _materialized(
        self, queries: Tensor, rotary_queries: Tensor, latents: Tensor, rotary_keys: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Multi-head attention: keys and values of each head are made from the latents."""
        keys = self.k_proj(latents[:, 0]).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # -> (b, h, k, d)
        values = self.v_proj(latents[:, 0]).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # -> (b, h, k, v)
        rotary_keys = rotary_keys.expand(-1, self.num_heads, -1, -1)  # (b, 1, k, r) -> (b, h, k, r)
        queries = torch.cat([queries, rotary_queries], dim=-1)  # (b, h, t, d), (b, h, t, r) -> (b, h, t, d + r)
        keys = torch.cat([keys, rotary_keys], dim=-1)  # (b, h, k, d), (b, h, k, r) -> (b, h, k, d + r)
        return self.run_kernel(queries, keys, values, keep)

    def _absorbed(
        self, queries: Tensor, rotary_queries: Tensor, latents: Tensor, rotary_keys: Tensor, keep: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Multi-query attention over the latents: one key and one value for all heads."""
        k_up = self.k_proj.weight.unflatten(0, (self.num_heads, -1))  # (h * d, l) -> (h, d, l)
        v_up = self.v_proj.weight.unflatten(0, (self.num_heads, -1))  # (h * v, l) -> (h, v, l)
        latent_queries = queries @ k_up  # (b, h, t, d) @ (h, d, l) -> (b, h, t, l)
        queries = torch.cat([latent_queries, rotary_queries], dim=-1)  # (b, h, t, l), (b, h, t, r) -> (b, h, t, l + r)
        keys = torch.cat([latents, rotary_keys], dim=-1)  # (b, 1, k, l), (b, 1, k, r) -> (b, 1, k, l + r)
        # The kernel divides by sqrt(l + r), the formula by sqrt(d + r).
        queries = queries * ((self.latent_dim + self.rotary_dim) / (self.head_dim + self.rotary_dim)) ** 0.5
        context, weights = self.run_kernel(queries, keys, latents, keep)  # (b, h, t, l)
        return context @ v_up.transpose(1, 2), weights  # (b, h, t, l) @ (h, l, v) -> (b, h, t, v)

    @property
    def cache_sizes(self) -> tuple[int, int, int]:
        """What a cache must be built with: one head, rotary keys as keys, latents as values."""
        return 1, self.rotary_dim, self.latent_dim

    @classmethod
    def from_transformers(
        cls, module: DeepseekV3Attention, *, max_positions: int = 4096, kernel: str = "explicit"
    ) -> LatentAttention:
        """Copy `transformers`' DeepseekV3Attention into the course's form.

        Its weight matrices are cut into those of the formula. Where it pairs adjacent elements for the rotation
        (rope_interleave), the rows of the rotary projections are put into the order of `apply_rotary`.

        Args:
            module: a `transformers.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3Attention`.
            max_positions: as in the constructor.
            kernel: as in the constructor.

        Returns:
            A new `LatentAttention` with copies of the weights, of the same dtype, on the same device.

        Raises:
            TypeError: a module that is not transformers' DeepseekV3Attention.
            ValueError: compressed queries, a bias, dropout or scaled rotary positions, which this class does not have.
        """
        if type(module).__name__ != "DeepseekV3Attention" or not hasattr(module, "kv_b_proj"):
            name = f"{type(module).__module__}.{type(module).__qualname__}"
            raise TypeError(f"this conversion takes the DeepseekV3Attention of transformers, got {name}.")
        config: Any = module.config  # declares its numbers as possibly None
        rope = config.rope_parameters
        for name, value, plain in (
            ("q_lora_rank", config.q_lora_rank, None),
            ("attention_bias", config.attention_bias, False),
            ("attention_dropout", config.attention_dropout, 0.0),
            ("rope_type", rope.get("rope_type", "default"), "default"),
        ):
            if value != plain:
                raise ValueError(f"the module's config has {name}={value!r}: only {name}={plain!r} can be converted.")
        weight = module.o_proj.weight
        with torch.device("meta"):  # draws no random numbers for weights that are about to be replaced
            copy = cls(
                config.hidden_size,
                config.num_attention_heads,
                latent_dim=config.kv_lora_rank,
                head_dim=config.qk_nope_head_dim,
                rotary_dim=config.qk_rope_head_dim,
                value_dim=config.v_head_dim,
                rope_theta=float(rope["rope_theta"]),
                max_positions=max_positions,
                kernel=kernel,
            )
        copy.to_empty(device=weight.device).to(weight.dtype)
        copy.load_state_dict(copy._parts_of(module.state_dict(), config.rope_interleave))
        return copy.requires_grad_(weight.requires_grad).train(module.training)

    def _parts_of(self, state: dict[str, Tensor], interleaved: bool) -> dict[str, Tensor]:
        """The weights of transformers' module by the names of this class."""
        order = torch.arange(self.rotary_dim, device=self.cos.device)
        if interleaved:  # (0, 1), (2, 3), ... become pairs of the first and the second half
            order = order.view(-1, 2).T.flatten()
        by_head = state["q_proj.weight"].unflatten(0, (self.num_heads, -1))  # (h, d + r, m)
        up = state["kv_b_proj.weight"].unflatten(0, (self.num_heads, -1))  # (h, d + v, l)
        down = state["kv_a_proj_with_mqa.weight"]  # (l + r, m)
        return {
            "q_proj.weight": by_head[:, : self.head_dim].flatten(0, 1),
            "rotary_q_proj.weight": by_head[:, self.head_dim :][:, order].flatten(0, 1),
            "latent_proj.weight": down[: self.latent_dim],
            "rotary_k_proj.weight": down[self.latent_dim :][order],
            "latent_norm.weight": state["kv_a_layernorm.weight"],
            "k_proj.weight": up[:, : self.head_dim].flatten(0, 1),
            "v_proj.weight": up[:, self.head_dim :].flatten(0, 1),
            "out_proj.weight": state["o_proj.weight"],
        }
