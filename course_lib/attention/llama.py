"""Llama's attention: grouped-query attention with rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .cache import Cache
from .checks import check_at_least, check_divisible, check_positive
from .rotary import apply_rotary, rows_at_positions
from .rotary_base import RotaryAttention
from .soft_cap import check_cap
from .windows import window_keep

if TYPE_CHECKING:
    from transformers.models.llama.modeling_llama import LlamaAttention as TransformersLlamaAttention


class LlamaAttention(RotaryAttention):
    """Grouped-query attention whose queries and keys are rotated by their positions; no bias, always causal.

        queries, keys, values = rotary(x W_Q), rotary(x W_K), x W_V
        head_i = softmax(queries_i keys_g^T / sqrt(head_dim), masked, in float32) values_g
            where g = i * num_kv_heads // num_heads
        output = concat(head_0, ..., head_{h-1}) W_O

    Args:
        d_model: width of a token, in and out.
        num_heads: number of query heads.
        num_kv_heads: heads of keys and values; num_heads if None.
        head_dim: width of a head, even; d_model / num_heads if None.
        rope_theta: the larger, the more slowly the rotary angles grow; 10000.0 in Llama 2, 500000.0 in Llama 3.
        max_positions: rows of the table of rotary angles, for positions 0 to max_positions - 1.
        window: number of keys that a query attends to, itself included, see `window_keep`; None attends to all. With a
            window this is the attention of Mistral 7B.
        num_sinks: number of first tokens that every query attends to besides its window.
        learned_sinks: whether each head has a learned sink logit, see `softmax_with_sink`; needs kernel="explicit".
            With a window in every second layer, and biases, this is the attention of gpt-oss.
        rotary: whether queries and keys are rotated; without, this is a NoPE layer, as every fourth of SmolLM3.
        qk_norm: whether each query and each key is divided by its root mean square, and scaled by learned numbers, head
            by head, before the rotation: `q_norm` and `k_norm`, as in Qwen3.
        gate: whether the context is multiplied by sigmoid(x W_G) before W_O, as in Qwen3-Next: `gate_proj`.
        softcap: the limit that no score exceeds, see `soft_cap`, 50.0 in Gemma 2; needs kernel="explicit".
        kernel: "explicit" runs `attend`, "fused" runs `attend_fused`, which returns no attention weights.

    Raises:
        ValueError: a size below 1, a num_kv_heads that does not divide num_heads, a d_model that num_heads does not
            divide where head_dim is not given, an odd head_dim, a rope_theta that is not above 0, an unknown kernel,
            num_sinks without a window, a softcap that is not above 0, learned_sinks or a softcap with the fused kernel.
        TypeError: a size that is not an integer, an option that is not a bool, a softcap that is not a number.

    Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, section 2.2, and "Llama 2",
    2023, appendix A.2.1; equal to `transformers`' LlamaAttention with the same weights.

    Example:
        >>> module = LlamaAttention(8, num_heads=4, num_kv_heads=2)
        >>> module(torch.randn(1, 6, 8)).shape
        torch.Size([1, 6, 8])
    """

    softmax_dtype = torch.float32

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        rope_theta: float = 10000.0,
        max_positions: int = 4096,
        window: int | None = None,
        num_sinks: int = 0,
        learned_sinks: bool = False,
        rotary: bool = True,
        qk_norm: bool = False,
        gate: bool = False,
        softcap: float = torch.inf,
        kernel: str = "explicit",
    ) -> None:
        check_positive(d_model=d_model, num_heads=num_heads, max_positions=max_positions)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_positive(num_kv_heads=num_kv_heads)
        check_divisible(
            "num_heads", num_heads, "num_kv_heads", num_kv_heads, remedy=", or a num_kv_heads that divides it"
        )
        if head_dim is None:
            check_divisible("d_model", d_model, "num_heads", num_heads, remedy=", or pass head_dim")
            head_dim = d_model // num_heads
        check_sinks(window, num_sinks, learned_sinks, kernel)
        check_options(softcap, kernel, rotary=rotary, qk_norm=qk_norm, gate=gate)
        super().__init__(head_dim, rope_theta, max_positions, kernel)
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = self.value_dim = head_dim
        self.q_proj = nn.Linear(d_model, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, d_model, bias=False)
        self.window = window
        self.num_sinks = num_sinks
        self.sink_logits = nn.Parameter(torch.zeros(num_heads)) if learned_sinks else None
        self.rotary = rotary
        self.q_norm = nn.RMSNorm(head_dim, eps=1e-6) if qk_norm else None
        self.k_norm = nn.RMSNorm(head_dim, eps=1e-6) if qk_norm else None
        self.gate_proj = nn.Linear(d_model, num_heads * head_dim, bias=False) if gate else None
        self.softcap = softcap

    def forward(
        self,
        x: Tensor,
        *,
        keep: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Split into heads, rotate queries and keys by their positions, attend, merge.

        Args:
            x: (batch, token, d_model).
            keep: bool, True = may attend, broadcasts to (batch, head, query, key); combined with
                the causal mask by `&`.
            positions: integers, (token,) or (batch, token), such as those of a left-padded batch; if None they continue
                those in the cache, or begin at 0. On a GPU, the check that they are in the table synchronizes; under
                torch.compile it is left out.
            cache: keys and values of the tokens before x; those of x are appended, and x attends to all of them. A
                `RollingKVCache` needs the window and num_sinks of the module.
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

        queries = self.q_proj(x).view(batch, num_tokens, self.num_heads, self.head_dim)  # (b, t, m) -> (b, t, h, d)
        keys = self.k_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim)  # (b, t, m) -> (b, t, g, d)
        values = self.v_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim)

        if self.q_norm is not None and self.k_norm is not None:
            queries, keys = self.q_norm(queries), self.k_norm(keys)  # each head by itself
        queries_by_head = queries.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
        keys_by_head = keys.transpose(1, 2)  # (b, t, g, d) -> (b, g, t, d)
        values_by_head = values.transpose(1, 2)  # never rotated
        if self.rotary:
            queries_by_head = apply_rotary(queries_by_head, cos, sin)
            keys_by_head = apply_rotary(keys_by_head, cos, sin)
        if cache is not None:
            keys_by_head, values_by_head = cache.append(keys_by_head, values_by_head)  # (b, g, new, d) -> (b, g, k, d)

        if self.window is not None:
            in_window = window_keep(
                num_tokens, keys_by_head.shape[2], self.window, num_sinks=self.num_sinks, device=x.device
            )
            keep = in_window if keep is None else in_window & keep
        sinks = self.sink_logits
        context_by_head, weights = self.run_kernel(queries_by_head, keys_by_head, values_by_head, keep, sinks)

        context_by_token = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        output = context_by_token.reshape(batch, num_tokens, self.num_heads * self.head_dim)  # -> (b, t, h * d)
        if self.gate_proj is not None:
            output = output * self.gate_proj(x).sigmoid()
        output = self.out_proj(output)  # (b, t, h * d) -> (b, t, m)
        return (output, weights) if return_weights else output

    @classmethod
    def from_transformers(
        cls, module: TransformersLlamaAttention, *, max_positions: int = 4096, kernel: str = "explicit"
    ) -> LlamaAttention:
        """Copy `transformers`' LlamaAttention into the course's form.

        Args:
            module: a `transformers.models.llama.modeling_llama.LlamaAttention`.
            max_positions: as in the constructor.
            kernel: as in the constructor.

        Returns:
            A new `LlamaAttention` with copies of the weights, of the same dtype, on the same device.

        Raises:
            TypeError: a module that is not transformers' LlamaAttention.
            ValueError: a bias, dropout or scaled rotary positions, which this class does not have; a version of
                transformers before 5.
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
                raise ValueError(f"the module's config has {name}={value!r}: only {name}={plain!r} can be converted.")
        weight = module.q_proj.weight
        with torch.device("meta"):  # draws no random numbers for weights that are about to be replaced
            copy = cls(
                config.hidden_size,
                config.num_attention_heads,
                num_kv_heads=config.num_key_value_heads,
                head_dim=module.head_dim,
                rope_theta=float(rope["rope_theta"]),
                max_positions=max_positions,
                kernel=kernel,
            )
        copy.to_empty(device=weight.device).to(weight.dtype)
        copy.load_state_dict({name.replace("o_proj", "out_proj"): value for name, value in module.state_dict().items()})
        return copy.requires_grad_(weight.requires_grad).train(module.training)

    def to_transformers(self) -> TransformersLlamaAttention:
        """Copy the weights into `transformers`' LlamaAttention; the package must be installed.

        The forward method of that class expects the angles as an argument:
        `LlamaRotaryEmbedding(module.config)(x, positions)`.

        Returns:
            A new `transformers.models.llama.modeling_llama.LlamaAttention` with copies of the weights.

        Raises:
            ImportError: transformers is not installed, or older than version 5; the message says how to install it.
            ValueError: a d_model that num_heads does not divide, which transformers refuses; a window or learned sinks,
                or another option that its Llama does not have.
        """
        if self.window is not None or self.sink_logits is not None:
            raise ValueError(
                "transformers' LlamaAttention has neither a window nor learned sinks: copy the state_dict into its "
                "MistralAttention or GptOssAttention."
            )
        if not self.rotary or self.q_norm is not None or self.gate_proj is not None or self.softcap < torch.inf:
            raise ValueError(
                "transformers' LlamaAttention is always rotary, without norms, gate or softcap: copy the state_dict "
                "into its SmolLM3Attention, Qwen3Attention, Qwen3NextAttention or Gemma2Attention."
            )
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
            # The base class takes this keyword, but does not declare it.
            attn_implementation="eager" if self.kernel == "explicit" else "sdpa",  # pyright: ignore[reportCallIssue]
        )
        weight = self.q_proj.weight
        with torch.device("meta"):
            theirs = Theirs(config, layer_idx=0)
        theirs.to_empty(device=weight.device).to(weight.dtype)
        theirs.load_state_dict({name.replace("out_proj", "o_proj"): value for name, value in self.state_dict().items()})
        return theirs.requires_grad_(weight.requires_grad).train(self.training)


def check_sinks(window: int | None, num_sinks: int, learned_sinks: bool, kernel: str) -> None:
    """Refuse a window and sinks that don't go together, or with the kernel."""
    check_at_least(0, num_sinks=num_sinks)
    if window is not None:
        check_positive(window=window)
    elif num_sinks:
        raise ValueError(f"num_sinks={num_sinks} needs a window: without one, every query attends to the first tokens.")
    if not isinstance(learned_sinks, bool):
        raise TypeError(f"learned_sinks must be True or False, got {learned_sinks!r}.")
    if learned_sinks and kernel == "fused":
        raise ValueError("learned_sinks=True needs kernel='explicit': PyTorch's kernel takes no sink logits.")


def check_options(softcap: float, kernel: str, **switches: bool) -> None:
    """Refuse a softcap that is no limit, or that the kernel can't take, and a switch that is no bool."""
    check_cap(softcap, "softcap")
    if softcap < torch.inf and kernel == "fused":
        raise ValueError(f"softcap={softcap} needs kernel='explicit': PyTorch's kernel caps no scores.")
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise TypeError(f"{name} must be True or False, got {switch!r}.")
