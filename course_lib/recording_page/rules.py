"""Explain by which rule some of a step's inputs do not count as sources."""

from collections.abc import Sequence

from .axes import ADDED_PRODUCTS
from .elementwise import ADDITIONS, ANDS, ORS
from .fused_attention import OP
from .gradients import CONTRACTIONS
from .masks import adds_to_hide
from .scatter import BY_ELEMENT, BY_SLICE
from .selection import RUNNING, TRUTHS, WITH_INDICES, WITHOUT_INDICES
from .shown_tensor import ShownTensor
from .softmax import is_lone
from .story import Stage

ZERO = "Where a factor is 0, the page does not count the other one as a source, because it adds nothing; the 0 counts."
WEIGHTS = (
    "A weight of exactly 0 comes from its own score alone. That score is hidden, and counts for the rest of its row."
)
LONE = (
    "The only score of a row that is not hidden has a weight of 1 whatever it is, so it is no source of that weight. "
    "What could hide it is one."
)
ADDED = "Where a mask adds -∞, or a number so large that the score does not matter, the score is no source."
FUSED = (
    "Keys and values with a weight of exactly 0 are no sources, because they add nothing; what hides them is one. "
    "A query that sees one key only is no source, nor is that key: the weight is 1 whatever they are."
)
SELECTED = (
    "A number comes from the one that was selected, or from all that equal it, not from those that lost the comparison."
)
DECIDED = (
    "Of `and` and `or`, one side that decides alone leaves the other no source; where both decide, neither is one."
)
INDEXED = "Each index that could have named the place of a number counts as one of its sources."


def rule_of(stage: Stage) -> str:
    """Return the sentence on a step's rule; "" if everything that it reads counts as a source."""
    op = stage.step.op.removesuffix("_")
    if op == OP:
        hides = any(mask is not None for mask in (*stage.step.call.args[3:4], stage.step.call.kwargs.get("attn_mask")))
        return FUSED if hides or _is_causal(stage) else ""
    if op in BY_ELEMENT + BY_SLICE:
        return INDEXED
    if op == "softmax":
        return _of_softmax(stage)
    if (op in WITH_INDICES and stage.step.part is not None and stage.step.part[0] == 0) or (
        op in WITHOUT_INDICES | TRUTHS and stage.step.part is None and len(stage.inputs) == 1
    ):
        return SELECTED if op not in RUNNING else SELECTED.replace("those", "the earlier ones")
    if op in CONTRACTIONS or op.removeprefix("i") == "mul":
        return ZERO if len(stage.inputs) > 1 and any(map(_has_zero, _factors(stage))) else ""
    if op in ANDS + ORS and len(stage.inputs) == 2:
        return DECIDED
    return ADDED if op in ADDITIONS and any(map(adds_to_hide, stage.inputs)) else ""


def _of_softmax(stage: Stage) -> str:
    lone = is_lone(stage.step.as_it_ran, stage.result, stage.inputs)
    sentences = [WEIGHTS] if _has_zero(stage.result) else []
    return " ".join([*sentences, LONE] if lone is not None else sentences)


def _is_causal(stage: Stage) -> bool:
    call = stage.step.call
    return bool(call.kwargs.get("is_causal", call.args[5] if len(call.args) > 5 else False))


def _factors(stage: Stage) -> Sequence[ShownTensor]:
    if stage.step.op in ADDED_PRODUCTS:
        return stage.inputs[-2:]
    return stage.inputs[:2] if stage.step.op == "linear" else stage.inputs


def _has_zero(tensor: ShownTensor) -> bool:
    return tensor.values is not None and bool((tensor.values == 0).any())
