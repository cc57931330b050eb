"""Decide which finding is the cause and which are only its effects."""

from collections.abc import Set

from .catalogue import CATALOGUE
from .finding import Finding, Kind

# These are seen in the code's behaviour, and so remain valid if the weights can't be trusted.
OF_BEHAVIOUR = {
    "returns-none", "dropout-at-eval", "input-modified", "device-pinned", "dtype-pinned", "batch-mixed", "fixed-batch",
    "fixed-length", "dropout-before-softmax",
}  # fmt: skip
# These show on another device, in another dtype, size or mode, and don't change the numbers of the plain run.
ELSEWHERE = {"device-pinned", "dtype-pinned", "fixed-batch", "fixed-length", "dropout-before-softmax"}
NOT_OF_MASKS = ELSEWHERE | {"dead-parameter", "value-unused"}  # which don't change what is hidden
MASKS = {"no-causal-mask", "mask-with-zero", "mask-after-softmax"}
SCALES = {"missing-scale", "wrong-scale"}
SHARED = {
    "heads-share-scores", "heads-share-weights", "projection-reused", "kv-head-zero-only", "kv-heads-tiled",
}  # fmt: skip
LAYOUT = {"merge-without-transpose", "split-without-transpose"}
LATER_PIECES = {"window-off-by-one", "window-lost-in-decode", "mask-skipped-when-cached", "positions-restart-in-cache"}
ALL_MEASURED = {None, *CATALOGUE} - OF_BEHAVIOUR  # everything measured from scores, weights and outputs

# cause -> the effects that are left out if the cause is found. The order matters, because an effect of an earlier cause
# suppresses nothing itself.
SUPPRESSES: dict[str, Set[str | None]] = {
    # Without a softmax no scale is right, the mask's fill value remains in the scores, and so does the largest score
    # of the batch if it is subtracted from all.
    "no-softmax": MASKS | SCALES | {"overflow-half", "batch-mixed"},
    # The second softmax gives a weight again to hidden tokens, and to slots of a cache that no token fills.
    "double-softmax": MASKS | SCALES | {"stale-cache"},
    # A mask on the wrong axes multiplies the scores, or hides along the wrong axis, and so crosses heads and samples.
    "mask-rank": LAYOUT | MASKS | {
        "nan-on-hidden-rows", "fixed-length", "fixed-batch", "batch-mixed", "heads-share-scores", "heads-averaged",
    },
    "dropout-at-eval": ALL_MEASURED,  # With random weights no two runs can be compared.
    "split-without-transpose": ALL_MEASURED,  # A head of several tokens has no queries and keys of its own.
    "batch-mixed": ALL_MEASURED,  # Weights over other samples' tokens are not those of one sample.
    "fixed-batch": ALL_MEASURED,  # Samples that are folded into tokens attend to each other.
    # Missing keys, and keys of an earlier prompt, look like a wrong mask, shared heads or scrambled rows.
    "stale-cache": LAYOUT | SHARED | MASKS | LATER_PIECES | {
        "scores-from-values", "causal-top-left", "mask-off-by-one", "weights-not-applied", "rotary-wrong-turn",
        "values-misaligned", "output-projection-missing",
    },
    "window-off-by-one": MASKS | {"token-missing-from-cache"},  # The keys that it cuts from the cache.
    "token-missing-from-cache": LAYOUT | SHARED | MASKS | {
        "scores-from-values", "causal-top-left", "mask-off-by-one", "weights-not-applied", "stale-cache",
        "values-misaligned",
    },
    # Values of other tokens look like other weights, other heads and another mask.
    "values-misaligned": ALL_MEASURED - {"stale-cache", "token-missing-from-cache"},
    "positions-restart-in-cache": {"stale-cache", "rotary-unused"},  # Each piece has the angles of another place.
    # What later pieces see beyond the prompt is seen in the mask, too.
    "window-lost-in-decode": MASKS | {
        "mask-skipped-when-cached", "window-off-by-one", "causal-top-left", "token-missing-from-cache", "mask-rank",
    },
    "mask-skipped-when-cached": MASKS | {
        "causal-top-left", "mask-off-by-one", "mask-rank", "mask-inverted",
    },
    # The mask that is not read hides nothing.
    "is-causal-with-mask": MASKS | {"mask-discarded", "mask-rank", "window-off-by-one"},
    # Keys in the place of queries turn the mask round, leave rows that don't sum to 1, and may be one for all heads.
    "weights-transposed": MASKS | SCALES | {
        "mask-transposed", "mask-inverted", "softmax-wrong-axis", "mask-off-by-one", "mask-discarded",
        "heads-share-weights",
    },
    "softcap-missing": MASKS | SCALES,  # A capped mask hides nothing, and half a cap is another scale.
    "mask-scaled": MASKS,  # A smaller number hides less.
    "norm-wrong-axis": SCALES | {"heads-share-scores"},  # Each head's scores then depend on the others.
    "rotary-unused": {"rotary-wrong-turn"},  # What is turned on one side only is turned wrongly.
    "rotary-wrong-turn": SCALES,  # A turn that changes lengths changes the scale.
    "gate-unused": {"output-projection-missing", "projection-reused"},  # The gate's projection is the unused one.
    # If each query comes alone, it sees the first key only, and no output depends on another token.
    "causal-top-left": {"weights-not-applied"},
    # A softmax over the wrong axis gives hidden pairs a weight and leaves rows that don't sum to 1.
    "softmax-wrong-axis": MASKS | SCALES | {
        "nan-on-hidden-rows", "mask-inverted", "mask-off-by-one", "mask-discarded", "batch-mixed",
    },
    # Scores that are summed over heads need the columns of all heads, and a different scale.
    "heads-share-scores": SCALES | {"projection-reused"},
    # One projection for all heads is a reused projection, and those of the other heads are unused.
    "heads-share-weights": {"projection-reused", "output-projection-missing"},
    "mask-off-by-one": {"nan-on-hidden-rows"},  # The first token is left with nothing to see.
    # Tokens are left with nothing to see: a row that is set to 0 afterwards does not sum to 1, and nothing moves nan.
    "mask-inverted": {
        "nan-on-hidden-rows", "mask-after-softmax", "weights-not-applied", "heads-averaged",
        "output-projection-missing",
    },
    # The other kv heads' weights are unused, and query heads share those of the first.
    "kv-head-zero-only": {"projection-reused", "output-projection-missing", "heads-share-weights"},
    # The projection of the keys is unused, that of the values is used twice, and values are not rotated.
    "scores-from-values": {"output-projection-missing", "projection-reused", "rotary-unused"},
    # The matrix that does not change the output is the one that was meant.
    "projection-reused": {"output-projection-missing"},
    "rotary-on-values": {"rotary-unused"},  # The rotation was meant for the queries and keys.
    "overflow-half": {"dtype-pinned", "nan-on-hidden-rows"},  # What overflows becomes inf, then nan.
    "no-causal-mask": {"mask-discarded"},  # A mask that no line reads is a reason that nothing is hidden.
    "fixed-length": {"no-causal-mask"},  # A mask of one length is broadcast for others.
    "dead-parameter": {"value-unused"},  # What is computed with it is read nowhere.
    "input-modified": {"stale-cache"},  # A second run on a changed x gives a different output.
    "heads-averaged": {"merge-without-transpose"},  # A sum over heads also crosses rows.
}  # fmt: skip


# These follow from many mistakes, and are told where nothing else was measured.
FALLBACKS = {
    "dead-parameter", "depends-on-length", "mask-lost-on-option", "paths-differ", "roles-exchanged", "value-unused",
}  # fmt: skip


def root_causes(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return each cause once, the likeliest first; findings without a name stay only if nothing else was found, if they
    are a difference from a reference that nothing else explains, or if they say that a window was not judged
    or that a later token comes in behind attention."""
    left = [one for one in findings if one.mistake not in FALLBACKS]
    left = findings if all(one.mistake in OF_BEHAVIOUR | {None} for one in left) else left
    if any(one.kind is Kind.RANDOM for one in left):  # as with dropout, no two runs can be compared
        left = [one for one in left if one.mistake in OF_BEHAVIOUR or one.kind is Kind.RANDOM]
    for cause, effects in SUPPRESSES.items():
        if any(finding.mistake == cause for finding in left):
            left = [finding for finding in left if finding.mistake == cause or finding.mistake not in effects]
    named: dict[str, Finding] = {}
    for finding in left:
        if finding.mistake is not None:
            named.setdefault(finding.mistake, finding)
    beside = {Kind.UNSEEN_WINDOW} | ({Kind.LEAK_BEHIND} if named.keys() <= NOT_OF_MASKS else set())
    unseen = tuple(one for one in left if one.kind in beside)
    if named.keys() <= ELSEWHERE:
        differing = [one for one in left if one.kind in (Kind.NOT_AS_EXPECTED, Kind.RANDOM)]
        measured = [one for one in left if one.mistake is None and one.examined]
        others = differing or [one for one in (measured if named else left) if one not in unseen][:1]
        found = (*named.values(), *others)
        return (*found, *unseen)
    return (*named.values(), *unseen)
