"""Decide which finding is the cause and which are only its effects."""

from collections.abc import Set

from .catalogue import CATALOGUE
from .finding import Finding

# These are seen in the code's behaviour, and so remain valid if the weights can't be trusted.
OF_BEHAVIOUR = {
    "returns-none", "dropout-at-eval", "input-modified", "device-pinned", "dtype-pinned", "batch-mixed", "fixed-batch",
    "fixed-length", "dropout-before-softmax",
}  # fmt: skip
MASKS = {"no-causal-mask", "mask-with-zero", "mask-after-softmax"}
SCALES = {"missing-scale", "wrong-scale"}
SHARED = {
    "heads-share-scores", "heads-share-weights", "projection-reused", "kv-head-zero-only", "kv-heads-tiled",
}  # fmt: skip
LAYOUT = {"merge-without-transpose", "split-without-transpose"}
ALL_MEASURED = {None, *CATALOGUE} - OF_BEHAVIOUR  # everything measured from scores, weights and outputs

# cause -> the effects that are left out if the cause is found. The order matters, because an effect of an earlier cause
# suppresses nothing itself.
SUPPRESSES: dict[str, Set[str | None]] = {
    # A mask on the wrong axes multiplies the scores, or hides along the wrong axis, and so crosses heads and samples.
    "mask-rank": LAYOUT | MASKS | {
        "nan-on-hidden-rows", "fixed-length", "fixed-batch", "batch-mixed", "heads-share-scores", "heads-averaged",
    },
    "dropout-at-eval": ALL_MEASURED,  # With random weights no two runs can be compared.
    "split-without-transpose": ALL_MEASURED,  # A head of several tokens has no queries and keys of its own.
    "batch-mixed": ALL_MEASURED,  # Weights over other samples' tokens are not those of one sample.
    "fixed-batch": ALL_MEASURED,  # Samples that are folded into tokens attend to each other.
    # Missing keys, and keys of an earlier prompt, look like a wrong mask, shared heads or scrambled rows.
    "stale-cache": LAYOUT | SHARED | MASKS | {
        "scores-from-values", "causal-top-left", "mask-off-by-one", "weights-not-applied",
    },
    # If each query comes alone, it sees the first key only, and no output depends on another token.
    "causal-top-left": {"weights-not-applied"},
    # A softmax over the wrong axis gives hidden pairs a weight and leaves rows that don't sum to 1.
    "softmax-wrong-axis": MASKS | SCALES | {
        "nan-on-hidden-rows", "mask-inverted", "mask-off-by-one", "mask-discarded", "batch-mixed",
    },
    # Without a softmax no scale is right, and the mask's fill value remains in the scores.
    "no-softmax": MASKS | SCALES | {"overflow-half"},
    "double-softmax": MASKS | SCALES,  # The second softmax gives hidden tokens a weight again.
    # Scores that are summed over heads need the columns of all heads, and a different scale.
    "heads-share-scores": SCALES | {"projection-reused"},
    # One projection for all heads is a reused projection, and those of the other heads are unused.
    "heads-share-weights": {"projection-reused", "output-projection-missing"},
    "mask-off-by-one": {"nan-on-hidden-rows"},  # The first token is left with nothing to see.
    "mask-inverted": {"nan-on-hidden-rows"},  # The last token is left with nothing to see.
    # The other kv heads' weights are unused, and query heads share those of the first.
    "kv-head-zero-only": {"projection-reused", "output-projection-missing", "heads-share-weights"},
    # The projection of the keys is unused, and that of the values is used twice.
    "scores-from-values": {"output-projection-missing", "projection-reused"},
    # The matrix that does not change the output is the one that was meant.
    "projection-reused": {"output-projection-missing"},
    "rotary-on-values": {"rotary-unused"},  # The rotation was meant for the queries and keys.
    "overflow-half": {"dtype-pinned", "nan-on-hidden-rows"},  # What overflows becomes inf, then nan.
    "fixed-length": {"no-causal-mask"},  # A mask of one length is broadcast for others.
    "input-modified": {"stale-cache"},  # A second run on a changed x gives a different output.
    "heads-averaged": {"merge-without-transpose"},  # A sum over heads also crosses rows.
    "dtype-pinned": {"wrong-scale"},  # A rounded scale differs from the right one.
}  # fmt: skip


def root_causes(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return each cause once, the likeliest first; findings without a name stay only if nothing else was found."""
    left = list(findings)
    for cause, effects in SUPPRESSES.items():
        if any(finding.mistake == cause for finding in left):
            left = [finding for finding in left if finding.mistake == cause or finding.mistake not in effects]
    named: dict[str, Finding] = {}
    for finding in left:
        if finding.mistake is not None:
            named.setdefault(finding.mistake, finding)
    return tuple(named.values()) or tuple(left[:1])
