"""The table: what each of the 29 operators is, and what the doctor should call it."""

from collections.abc import Callable
from dataclasses import dataclass

from . import wrong
from .right import Decoder

SOURCE = "SigmaJahan/DEFaultplusplus-Transformer-Debugging@266d6da"


@dataclass(frozen=True)
class Operator:
    """One operator.

    Attributes:
        id: of DEFault++.
        cause: its root cause there.
        mistake: id in the doctor's catalogue, or words; "" where `why` says that it is out of reach.
        also: other ids that say the same of this code.
        build: the code; None where it is out of reach.
        causal: whether the code is a decoder.
        why: why nothing can be found in the code; "" otherwise.
    """

    id: str
    cause: str
    mistake: str = ""
    also: tuple[str, ...] = ()
    build: Callable[[], Decoder] | None = None
    causal: bool = True
    why: str = ""

    @property
    def accepted(self) -> set[str]:
        """The ids that name it."""
        return {one for one in (self.mistake, *self.also) if one and " " not in one}


OPERATORS = (
    Operator("MZM", "mask_application", "no-causal-mask", build=wrong.MZM),
    Operator("MIM", "mask_application", "mask-inverted", build=wrong.MIM),
    Operator("MRM", "mask_generation", "mask-transposed", ("mask-rank",), wrong.MRM),
    Operator("MCB", "dynamic_mask", "part of the future is visible", ("no-causal-mask",), wrong.MCB),
    Operator("QZQ", "parameter_initialization", "dead-parameter", build=wrong.QZQ),
    Operator("QZK", "parameter_initialization", "dead-parameter", build=wrong.QZK),
    Operator("QZV", "parameter_initialization", "dead-parameter", build=wrong.QZV),
    Operator("QSW", "head_interaction", why="with its two matrices exchanged it is attention with other weights"),
    Operator("QTH", "head_interaction", "heads-share-weights", ("heads-share-scores",), wrong.QTH),
    Operator("QFG", "dynamic_parameter_registration", why="the forward pass is right; the fault is in training"),
    Operator("QHD", "dimension", "another number of heads than was asked for", build=wrong.QHD),
    Operator("SDS", "normalization", "missing-scale", build=wrong.SDS),
    Operator("SPD", "implementation", "dropout-before-softmax", build=wrong.SPD),
    Operator("SUC", "precision_handling", "dtype-pinned", ("overflow-half",), wrong.SUC),
    Operator("POE", "indexing", "rotary-unused", build=wrong.POE),
    Operator("PSI", "relative_position", why="rotary scores depend on distances, which a shift of all positions keeps"),
    Operator("PTL", "interpolation", "late tokens share one position", ("rotary-wrong-turn",), wrong.PTL),
    Operator("KSB", "silent_fallback", why="the output is right; another kernel is slower"),
    Operator("KMD", "feature_constraints", "dropout-at-eval", build=wrong.KMD),
    Operator("KFT", "hardware_incompatibility", why="the output is right; a fallback is slower"),
    Operator("KRP", "numerical_precision", "dtype-pinned", ("overflow-half",), wrong.KRP),
    Operator("KMC", "kernel_memory", why="the output is right; chunks need less memory"),
    Operator("VSH", "variant_configuration", "only one head is used", ("kv-head-zero-only",), wrong.VSH),
    Operator("VEC", "dynamic_dispatch", "a causal mask in an encoder", build=wrong.VEC, causal=False),
    Operator("CST", "cache_invalidation", "stale-cache", ("token-missing-from-cache",), wrong.CST),
    Operator("CDU", "update_synchronization", "token-missing-from-cache", ("stale-cache",), wrong.CDU),
    Operator("COB", "cache_position", "stale-cache", ("token-missing-from-cache",), wrong.COB),
    Operator("CTR", "memory_layout", "old keys are dropped from the cache", build=wrong.CTR),
    Operator("CLK", "distributed_synchronization", "stale-cache", build=wrong.CLK),
)
