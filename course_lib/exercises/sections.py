"""The section of a lesson that explains a mistake, by the mistake's id; a test looks each up in its lesson."""

SECTIONS: dict[str, str] = {
    # lesson 01
    "scores-from-values": "A mistake that no one sees",
    "missing-scale": "Why divide by the square root of the width?",
    "wrong-scale": "Why divide by the square root of the width?",
    "overflow-half": "Why divide by the square root of the width?",
    "softmax-wrong-axis": "All tokens at once",
    "double-softmax": "One token by hand",
    "no-softmax": "One token by hand",
    "weights-not-applied": "One token by hand",
    "returns-none": "Into a module",
    # lesson 02
    "mask-discarded": "Does it work? Change the last token",
    "no-causal-mask": "The causal mask",
    "mask-inverted": "Two meanings of one mask",
    "mask-off-by-one": "The causal mask",
    "mask-transposed": "The causal mask",
    "mask-after-softmax": "Does it work? Change the last token",
    "mask-with-zero": "Does it work? Change the last token",
    "causal-top-left": "The causal mask",
    "mask-rank": "The padding mask",
    "nan-on-hidden-rows": "A row that may look at nothing",
    "dropout-before-softmax": "Dropout",
    "dropout-at-eval": "Dropout",
    "mask-scaled": "Does it work? Change the last token",
    "is-causal-with-mask": "Two meanings of one mask",
    # lesson 03
    "projection-reused": "A mistake: copy, paste, forget",
    "heads-share-scores": "A mistake: copy, paste, forget",
    "heads-share-weights": "Why more than one head",
    "heads-averaged": "Join the heads",
    "output-projection-missing": "What W^O does",
    # lesson 04
    "split-without-transpose": "The shortcut that scrambles",
    "merge-without-transpose": "The way back",
    # lesson 05
    "output-projection-shape": "Step 11: mix the heads",
    "fixed-length": "Step 7: a causal mask for as many tokens as there are",
    # lesson 06
    "kv-heads-tiled": "The middle ground: grouped queries",
    "kv-head-zero-only": "The middle ground: grouped queries",
    # lesson 07
    "rotary-unused": "Rotate a head",
    "rotary-wrong-turn": "Four mistakes that raise no error",
    "rotary-on-values": "Four mistakes that raise no error",
    "bias-wrong-sign": "A bias in place of the rotation",
    # lesson 08
    "stale-cache": "A cache, one token at a time",
    "token-missing-from-cache": "A cache, one token at a time",
    # lesson 09
    "window-off-by-one": "Fewer tokens: a sliding window",
    "window-lost-in-decode": "A cache that does not grow",
}
