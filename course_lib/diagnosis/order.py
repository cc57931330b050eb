"""Which finding is the cause and which only follows from it."""

from __future__ import annotations

from .report import Finding

# What does not follow from numbers: seen in the code's behaviour, whatever its weights are.
OF_BEHAVIOUR = {
    "returns-none", "dropout-at-eval", "input-modified", "device-pinned", "dtype-pinned", "batch-mixed", "fixed-batch",
    "fixed-length", "dropout-before-softmax",
}  # fmt: skip
MASKED = {"no-causal-mask", "mask-with-zero", "mask-after-softmax"}
SCALED = {"missing-scale", "wrong-scale"}
SHARED = {"heads-share-scores", "heads-share-weights", "projection-reused", "kv-head-zero-only", "kv-heads-tiled"}

# A finding on the left explains those on the right; None stands for all that is read off the numbers. In this order.
EXPLAINS: dict[str, set[str] | None] = {
    "mask-rank": {
        "merge-without-transpose", "split-without-transpose", "nan-on-hidden-rows", "fixed-length", "fixed-batch",
        "batch-mixed", "heads-share-scores", "heads-averaged", *MASKED,
    },
    "dropout-at-eval": None,
    "split-without-transpose": None,
    "batch-mixed": None,
    "fixed-batch": None,
    "stale-cache": {
        "scores-from-values", "merge-without-transpose", "split-without-transpose", "causal-top-left",
        "mask-off-by-one", *SHARED, *MASKED,
    },
    "softmax-wrong-axis": {
        "nan-on-hidden-rows", "mask-inverted", "mask-off-by-one", "mask-discarded", "batch-mixed", *MASKED, *SCALED,
    },
    "no-softmax": {"overflow-half", *MASKED, *SCALED},
    "double-softmax": {*MASKED, *SCALED},
    "heads-share-scores": {"projection-reused", *SCALED},
    "heads-share-weights": {"projection-reused", "output-projection-missing"},
    "mask-off-by-one": {"nan-on-hidden-rows"},
    "mask-inverted": {"nan-on-hidden-rows"},
    "kv-head-zero-only": {"projection-reused", "output-projection-missing", "heads-share-weights"},
    "scores-from-values": {"output-projection-missing", "projection-reused"},
    "projection-reused": {"output-projection-missing"},
    "rotary-on-values": {"rotary-unused"},
    "overflow-half": {"dtype-pinned", "nan-on-hidden-rows"},
    "fixed-length": {"no-causal-mask"},
    "input-modified": {"stale-cache"},
    "heads-averaged": {"merge-without-transpose"},
    "dtype-pinned": {"wrong-scale"},
}  # fmt: skip


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """The causes, the likeliest first; what has no name only where nothing else was found.

    Args:
        findings: in the order of the rules.

    Returns:
        Each mistake once, without those that another one explains.
    """
    left = list(findings)
    for cause, effects in EXPLAINS.items():
        if any(finding.mistake == cause for finding in left):
            left = [finding for finding in left if finding.mistake == cause or _stays(finding.mistake, effects)]
    named: dict[str, Finding] = {}
    for finding in left:
        if finding.mistake is not None:
            named.setdefault(finding.mistake, finding)
    return tuple(named.values()) or tuple(left[:1])


def _stays(mistake: str | None, effects: set[str] | None) -> bool:
    return mistake in OF_BEHAVIOUR if effects is None else mistake not in effects
