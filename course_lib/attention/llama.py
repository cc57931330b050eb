"""Llama's attention: grouped heads with rotary positions, as millions of people run it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import Attention
from .checks import check_divisible, check_positive
from .kv_cache import KVCache
from .rotary import apply_rotary, rotary_table


class LlamaAttention(Attention):
    """Grouped-query attention whose queries and keys are turned by their positions; no bias, always causal.

        queries, keys, values = rotary(x W_Q), rotary(x W_K), x W_V
        head_i = softmax(queries_i keys_g^T / sqrt(head_dim), masked, in float32) values_g
            where g = i * num_kv_heads // num_heads
        output = concat(head_0, ..., head_{h-1}) W_O

    Args:
        d_model: width of a token, in and out.
        num_heads: number of query heads.
        num_kv_heads: heads of keys and values; num_heads if None.
        head_dim: width of a head, even; d_model / num_heads if None.
        rope_theta: how slowly the rotary angles grow; 10000.0 in Llama 2, 500000.0 in Llama 3.
        max_positions: rows of the table of rotary angles: positions 0 to max_positions - 1 can be used.
        kernel: "explicit" runs `attend`, "fused" runs `attend_fused`, which gives no weights.

    Raises:
        ValueError: a size below 1, a num_kv_heads that does not divide num_heads, a d_model that num_heads does not
            divide where head_dim is not given, an odd head_dim, a rope_theta that isn't above 0, a kernel of another
            name.
        TypeError: a size that is no whole number.

    Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, section 2.2, and "Llama 2",
    2023, appendix A.2.1; equal to `transformers`' LlamaAttention with the same weights.

    Example:
        >>> module = LlamaAttention(8, num_heads=4, num_kv_heads=2)
        >>> module(torch.randn(1, 6, 8)).shape
        torch.Size([1, 6, 8])
    """

    softmax_dtype = torch.float32
    width_name = "d_model"

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        rope_theta: float = 10000.0,
        max_positions: int = 4096,
        kernel: str = "explicit",
    ) -> None:
        super().__init__(causal=True, dropout=0.0, kernel=kernel)
        check_positive(d_model=d_model, num_heads=num_heads, max_positions=max_positions)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_positive(num_kv_heads=num_kv_heads)
        check_divisible(
            "num_heads", num_heads, "num_kv_heads", num_kv_heads, remedy=", or a num_kv_heads that divides it"
        )
        if head_dim is None:
            check_divisible("d_model", d_model, "num_heads", num_heads, remedy=", or give head_dim")
            head_dim = d_model // num_heads
        cos, sin = rotary_table(max_positions, head_dim, rope_theta=rope_theta)
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = self.value_dim = head_dim
        self.q_proj = nn.Linear(d_model, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, d_model, bias=False)
        self.rope_theta = rope_theta
        self.register_buffer("cos", cos, persistent=False)  # (position, pair)
        self.register_buffer("sin", sin, persistent=False)

    def forward(
        self,
        x: Tensor,
        *,
        keep: Tensor | None = None,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Split into heads, turn queries and keys by their positions, attend, merge.

        Args:
            x: (batch, token, d_model).
            keep: bool, True = may attend, broadcasts to (batch, head, query, key); and-ed with the causal mask.
            positions: whole numbers, (token,) or (batch, token), such as those of a left-padded batch; if None they
                count on from the tokens in the cache, or from 0. Checking that they are in the table waits for a GPU,
                and is left out under torch.compile.
            cache: the tokens before x; keys and values of x are appended, and x attends to all of them.
            return_weights: whether to return the weights too; the explicit kernel only.

        Returns:
            output (batch, token, d_model), or (output, weights) with weights (batch, head, query, key).

        Raises:
            ValueError, TypeError: an x, keep, positions or cache that does not fit; the sentence says why, and
                nothing is written to the cache.
        """
        self.prepare(x, self.num_heads, keep, return_weights, cache=cache)
        batch, num_tokens, _ = x.shape
        cos, sin = self.angles(batch, num_tokens, positions, cache)  # (t, pair) or (b, t, pair)

        queries = self.q_proj(x).view(batch, num_tokens, self.num_heads, self.head_dim)  # (b, t, m) -> (b, t, h, d)
        keys = self.k_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim)  # (b, t, m) -> (b, t, g, d)
        values = self.v_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim)

        queries_by_head = apply_rotary(queries.transpose(1, 2), cos, sin)  # (b, t, h, d) -> (b, h, t, d): turned
        keys_by_head = apply_rotary(keys.transpose(1, 2), cos, sin)  # (b, t, g, d) -> (b, g, t, d): turned
        values_by_head = values.transpose(1, 2)  # not turned
        if cache is not None:
            keys_by_head, values_by_head = cache.append(keys_by_head, values_by_head)  # (b, g, new, d) -> (b, g, k, d)

        context_by_head, weights = self.run_kernel(queries_by_head, keys_by_head, values_by_head, keep)  # bhtd, bhqk

        context_by_token = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        output = context_by_token.reshape(batch, num_tokens, self.num_heads * self.head_dim)  # -> (b, t, h * d)
        output = self.out_proj(output)  # (b, t, h * d) -> (b, t, m)
        return (output, weights) if return_weights else output

    def angles(
        self, batch: int, num_tokens: int, positions: Tensor | None, cache: KVCache | None
    ) -> tuple[Tensor, Tensor]:
        """The rows of the table for each token's position: cos and sin, (token, pair) or (batch, token, pair)."""
        max_positions = len(self.cos)
        if positions is None:
            start = 0 if cache is None else cache.length
            self._check_inside(start + num_tokens - 1, max_positions)
            return self.cos[start : start + num_tokens], self.sin[start : start + num_tokens]
        if not isinstance(positions, Tensor) or positions.dtype not in (torch.int64, torch.int32):
            kind = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
            raise TypeError(f"positions must be a tensor of whole numbers (torch.int64), got {kind}.")
        if tuple(positions.shape) not in ((num_tokens,), (batch, num_tokens)):
            raise ValueError(
                f"positions must be (token,) = ({num_tokens},) or (batch, token) = ({batch}, {num_tokens}), got the "
                f"shape {tuple(positions.shape)}."
            )
        if positions.device != self.cos.device:
            raise ValueError(
                f"positions are on {positions.device}, but the module is on {self.cos.device}: call "
                f"positions.to({str(self.cos.device)!r})."
            )
        if positions.numel() and not positions.is_meta and not torch.compiler.is_compiling():
            if positions.min() < 0:
                raise ValueError(
                    f"positions must be at least 0, got {int(positions.min())}: padding may have any, as 0."
                )
            self._check_inside(int(positions.max()), max_positions)
        return self.cos[positions], self.sin[positions]

    @staticmethod
    def _check_inside(last: int, max_positions: int) -> None:
        if last >= max_positions:
            raise ValueError(
                f"position {last} is beyond the table of max_positions={max_positions}: build the module with "
                f"max_positions={last + 1} or more."
            )

    def _apply(self, fn, recurse: bool = True) -> LlamaAttention:
        """What `to`, `half` and `cuda` call: the table moves along and stays float32, for rounding can't be undone."""
        super()._apply(fn, recurse)
        cos, sin = rotary_table(len(self.cos), self.head_dim, rope_theta=self.rope_theta, device="cpu")
        self.cos, self.sin = cos.to(self.cos.device), sin.to(self.cos.device)
        return self

    @classmethod
    def from_transformers(
        cls, module: nn.Module, *, max_positions: int = 4096, kernel: str = "explicit"
    ) -> LlamaAttention:
        """The course's form of `transformers`' LlamaAttention.

        Args:
            module: a `transformers.models.llama.modeling_llama.LlamaAttention`.
            max_positions: as of the class.
            kernel: as of the class.

        Returns:
            A new `LlamaAttention` with copies of the weights, of the same dtype, on the same device.

        Raises:
            TypeError: not a LlamaAttention of transformers.
            ValueError: a bias, a dropout or scaled rotary positions, which this class does not have; a transformers
                before version 5.
        """
        if type(module).__name__ != "LlamaAttention" or not hasattr(module, "o_proj"):
            name = f"{type(module).__module__}.{type(module).__qualname__}"
            raise TypeError(f"this conversion takes the LlamaAttention of transformers, got {name}.")
        config = module.config
        rope = getattr(config, "rope_parameters", None)
        if rope is None:
            raise ValueError("the module's config has no rope_parameters: update transformers to version 5 or later.")
        for name, value, plain in (
            ("attention_bias", config.attention_bias, False),
            ("attention_dropout", config.attention_dropout, 0.0),
            ("rope_type", rope.get("rope_type", "default"), "default"),
        ):
            if value != plain:
                raise ValueError(
                    f"the module's config has {name}={value!r}: only {name}={plain!r} can be carried over."
                )
        weight = module.q_proj.weight
        with torch.device("meta"):  # no random number is drawn for weights that are about to be replaced
            own = cls(
                config.hidden_size,
                config.num_attention_heads,
                num_kv_heads=config.num_key_value_heads,
                head_dim=module.head_dim,
                rope_theta=float(rope["rope_theta"]),
                max_positions=max_positions,
                kernel=kernel,
            )
        own.to_empty(device=weight.device).to(weight.dtype)
        own.load_state_dict({name.replace("o_proj", "out_proj"): value for name, value in module.state_dict().items()})
        return own.requires_grad_(weight.requires_grad).train(module.training)

    def to_transformers(self) -> nn.Module:
        """The same weights in `transformers`' LlamaAttention, which must be installed.

        Its forward takes the angles from outside: `LlamaRotaryEmbedding(module.config)(x, positions)`.

        Returns:
            A new `transformers.models.llama.modeling_llama.LlamaAttention` with copies of the weights.

        Raises:
            ImportError: transformers is not installed, or older than version 5; the sentence says how to get it.
            ValueError: a d_model that num_heads does not divide, which transformers refuses.
        """
        check_divisible("d_model", self.q_proj.in_features, "num_heads", self.num_heads)
        try:
            from transformers.modeling_rope_utils import RopeParameters  # new in version 5
            from transformers.models.llama.configuration_llama import LlamaConfig
            from transformers.models.llama.modeling_llama import LlamaAttention as Theirs
        except ImportError as error:
            raise ImportError(
                "to_transformers needs the package transformers, version 5 or later: pip install -U transformers."
            ) from error
        config = LlamaConfig(
            hidden_size=self.q_proj.in_features,
            num_attention_heads=self.num_heads,
            num_key_value_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            max_position_embeddings=len(self.cos),
            rope_parameters=RopeParameters(rope_type="default", rope_theta=self.rope_theta),
            attn_implementation="eager" if self.kernel == "explicit" else "sdpa",
        )
        weight = self.q_proj.weight
        with torch.device("meta"):
            theirs = Theirs(config, layer_idx=0)
        theirs.to_empty(device=weight.device).to(weight.dtype)
        theirs.load_state_dict({name.replace("out_proj", "o_proj"): value for name, value in self.state_dict().items()})
        return theirs.requires_grad_(weight.requires_grad).train(self.training)
