"""Say what was measured and found to be right."""

from collections.abc import Iterator

from course_lib.wording import counted

from .measure.attention import Attention
from .measure.attention_sinks import TokenlessWeights, has_sink
from .measure.stages import Stages


def confirm(stages: Stages) -> Iterator[str]:
    """Yield what was found to be right in an attention without mistakes."""
    attention = stages.reach(Attention)
    if attention is None:
        return
    batch, num_tokens = attention.dependence.sizes
    heads = counted(attention.rows.num_heads, "head")
    context = attention.options.num_context
    tokens = f"{num_tokens - context} tokens" + (f" and a context of {context}" if context else "")
    width = "" if attention.structure.is_additive else f" of width {attention.structure.head_dim}"
    yield f"{heads}{width}, traced with {batch} samples of {tokens}"
    hides = (~attention.expected & attention.present[..., None])[..., num_tokens - context if context else 0 :].any()
    if not attention.options.normalised:
        yield from ["hidden tokens get 0"] * bool(hides)
        return
    rows, hidden = attention.expected.any(-1), ", and hidden tokens get 0" if hides else ""
    sums = (attention.weights.sum(-1), attention.applied_weights.sum(-1))  # a gate changes the first alone
    error = min(float((one - 1).abs()[rows].max()) for one in sums)
    if error > 1e-6 and has_sink(attention):
        yield f"each head keeps part of its weights for no token, as an attention sink{hidden}"
    elif error > 1e-6 and TokenlessWeights(attention.rows).is_prefix:
        yield f"each query's weights and those of learned keys, or of a memory's, sum to 1{hidden}"
    elif error > 1e-5:  # as those of slots or of a difference, of which the report says that they do not
        yield from ["hidden tokens get 0"] * bool(hides)
    else:
        digits = "9 digits or more" if error < 1e-9 else f"{error:.0e}"
        yield f"each query's weights sum to 1 (to {digits}){hidden}"
