"""The table: what each of the 29 operators is, and what the doctor should call it."""

import inspect
from dataclasses import dataclass

from course_lib.mutations import built, edited

from . import right

SOURCE = "SigmaJahan/DEFaultplusplus-Transformer-Debugging@266d6da"


@dataclass(frozen=True)
class Operator:
    """One operator.

    Attributes:
        id: of DEFault++.
        cause: its root cause there.
        mistake: id in the doctor's catalogue, or words; "" where `why` says that it is out of reach.
        also: other ids that say the same of this code.
        causal: whether the code is a decoder.
        why: why nothing can be found in the code; "" otherwise.
    """

    id: str
    cause: str
    mistake: str = ""
    also: tuple[str, ...] = ()
    causal: bool = True
    why: str = ""

    def build(self) -> right.Decoder:
        """The right code with the edit of this operator in it."""
        return built(edited(inspect.getsource(right), EDITS[self.id]), getattr(right, self.form))()

    @property
    def form(self) -> str:
        """The class of the right code that it changes."""
        return "Cached" if self.id.startswith("C") else "Decoder" if self.causal else "Encoder"

    @property
    def accepted(self) -> set[str]:
        """The ids that name it."""
        return {name for name in (self.mistake, *self.also) if name and " " not in name}


# Each operator, from its description: what stands in the place of a step of `right.py`.
EDITS = {
    # Zero the attention mask, keeping its shape.
    "MZM": 'self.scores(queries, keys).masked_fill(~keep, float("-inf")) => self.scores(queries, keys) + torch.zeros(keep.shape, dtype=queries.dtype, device=queries.device)',
    # Invert the mask, keeping its shape and dtype.
    "MIM": 'masked_fill(~keep, float("-inf")) => masked_fill(keep, torch.finfo(queries.dtype).min)',
    # Lay the mask along the other axis, which broadcasting allows.
    "MRM": ".tril() => .tril().transpose(0, 1)",
    # Unmask a fraction of the future keys: here the first 30 % are visible to every query.
    "MCB": ".tril() => .tril() | (torch.arange(tokens, device=device) < max(1, round(0.3 * tokens)))",
    # Zero the weights of the query projection.
    "QZQ": "nn.Dropout(0.1) => nn.Dropout(0.1); nn.init.zeros_(self.q_proj.weight)",
    # Zero the weights of the key projection.
    "QZK": "nn.Dropout(0.1) => nn.Dropout(0.1); nn.init.zeros_(self.k_proj.weight)",
    # Zero the weights of the value projection.
    "QZV": "nn.Dropout(0.1) => nn.Dropout(0.1); nn.init.zeros_(self.v_proj.weight)",
    # Tie heads together: all compute what the first does.
    "QTH": "self.split(projection(x)) => self.split(projection(x))[:, :1].expand(-1, HEADS, -1, -1)",
    # Split the width into another number of heads.
    "QHD": "num_heads = HEADS => num_heads = 2 * HEADS",
    # Drop the scale of the scores.
    "SDS": " / queries.shape[-1] ** 0.5 => ",
    # Apply dropout to the scores, before softmax.
    "SPD": "F.softmax(scores => F.softmax(self.dropout(scores)",
    # Compute the scores in half precision.
    "SUC": "return queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5 => return (queries.half() @ keys.half().transpose(-1, -2) / queries.shape[-1] ** 0.5).to(queries.dtype)",
    # Omit the positions.
    "POE": "return torch.cat(turned, dim=-1) => return x",
    # Support fewer positions than there are tokens: the rest share the last one.
    "PTL": "return indices => return indices.clamp(max=2)",
    # Give the fused kernel a dropout of its own, which training's switch does not reach.
    "KMD": "return self.dropout(self.softmax(scores)) @ values => return F.scaled_dot_product_attention(queries, keys, values, attn_mask=keep, dropout_p=0.3)",
    # Accumulate the kernel's products in half precision.
    "KRP": "self.attend(queries, keys, values, self.keep(x.shape[1], x.device)) => self.attend(queries.half(), keys.half(), values.half(), self.keep(x.shape[1], x.device)).to(x.dtype)",
    # Mask heads so that one effective head remains.
    "VSH": "self.o_proj(heads. => self.o_proj((heads * (torch.arange(HEADS, device=heads.device) == 0).view(-1, 1, 1)).",
    # Apply a causal mask in an encoder.
    "VEC": "device=device) => device=device).tril()",
    # Serve the key and value of the step before instead of the new ones.
    "CST": "return self.kept_keys[:, :, : self.length], self.kept_values[:, :, : self.length] => served = [*range(self.length - 1), max(0, self.length - 2)]; return self.kept_keys[:, :, served], self.kept_values[:, :, served]",
    # Withhold the new key and value from the attention of this step.
    "CDU": ": self.length] => : max(1, self.length - 1)]",
    # Read the cache one place further than it was written.
    "COB": ": self.length] => 1 : self.length + 1]",
    # Keep fewer places of the cache than there are tokens.
    "CTR": ": self.length] => : self.length][:, :, -3:]",
    # Answer a request with what the cache holds of the request before.
    "CLK": 'self.start(x)\n => if not hasattr(self, "length") or len(self.kept_keys) != len(x) or self.length + x.shape[1] > MAX_TOKENS: self.start(x)\n',
}

OPERATORS = (
    Operator("MZM", "mask_application", "no-causal-mask"),
    Operator("MIM", "mask_application", "mask-inverted"),
    Operator("MRM", "mask_generation", "mask-transposed", ("mask-rank",)),
    Operator("MCB", "dynamic_mask", "part of the future is visible", ("no-causal-mask",)),
    Operator("QZQ", "parameter_initialization", "dead-parameter"),
    Operator("QZK", "parameter_initialization", "dead-parameter"),
    Operator("QZV", "parameter_initialization", "dead-parameter"),
    Operator("QSW", "head_interaction", why="with its two matrices exchanged it is attention with other weights"),
    Operator("QTH", "head_interaction", "heads-share-weights", ("heads-share-scores",)),
    Operator("QFG", "dynamic_parameter_registration", why="the forward pass is right; the fault is in training"),
    Operator("QHD", "dimension", "another number of heads than was asked for"),
    Operator("SDS", "normalization", "missing-scale"),
    Operator("SPD", "implementation", "dropout-before-softmax"),
    Operator("SUC", "precision_handling", "dtype-pinned", ("overflow-half",)),
    Operator("POE", "indexing", "rotary-unused"),
    Operator("PSI", "relative_position", why="rotary scores depend on distances, which a shift of all positions keeps"),
    Operator("PTL", "interpolation", "late tokens share one position", ("rotary-wrong-turn",)),
    Operator("KSB", "silent_fallback", why="the output is right; another kernel is slower"),
    Operator("KMD", "feature_constraints", "dropout-at-eval"),
    Operator("KFT", "hardware_incompatibility", why="the output is right; a fallback is slower"),
    Operator("KRP", "numerical_precision", "dtype-pinned", ("overflow-half",)),
    Operator("KMC", "kernel_memory", why="the output is right; chunks need less memory"),
    Operator("VSH", "variant_configuration", "only one head is used", ("kv-head-zero-only",)),
    Operator("VEC", "dynamic_dispatch", "a causal mask in an encoder", causal=False),
    Operator("CST", "cache_invalidation", "stale-cache", ("token-missing-from-cache",)),
    Operator("CDU", "update_synchronization", "token-missing-from-cache", ("stale-cache",)),
    Operator("COB", "cache_position", "stale-cache", ("token-missing-from-cache",)),
    Operator("CTR", "memory_layout", "old keys are dropped from the cache"),
    Operator("CLK", "distributed_synchronization", "stale-cache"),
)
