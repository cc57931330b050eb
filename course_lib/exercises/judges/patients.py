"""Three modules of strangers and what speaks for and against each diagnosis."""

from __future__ import annotations

from ..names import NameJudge

PATIENT_A = NameJudge(
    "mask-discarded",
    "Change the last token: all outputs move, although there is a line that masks.",
    {
        "no-causal-mask": "Look again: there is a mask, and a line that applies it. What becomes of its result?",
        "mask-inverted": "Row 0 would then look at later tokens only. Print the weights of the first row.",
        "mask-after-softmax": "Then row sums would be less than 1. Print them.",
        "mask-with-zero": "The line fills with minus infinity. But where does its result go?",
        "scores-from-values": "Queries meet keys here, and all four projections get a gradient.",
    },
)


PATIENT_B = NameJudge(
    "merge-without-transpose",
    "Change token 3: outputs of earlier tokens move, although the weights are causal.",
    {
        "split-without-transpose": "The way in is right: view, then transpose. What about the way out?",
        "no-causal-mask": "Print the weights: nothing lies above the diagonal. The leak comes after the mix.",
        "mask-discarded": "The masked scores are what softmax gets. The leak comes after the mix.",
        "heads-averaged": "All heads reach the output with all their numbers. But in which rows?",
        "output-projection-missing": "`out_proj` is the last step of `forward`. What is it given?",
    },
)


PATIENT_C = NameJudge(
    "kv-heads-tiled",
    "Change kv head 1: query heads 1, 3 and 5 notice, where 3, 4 and 5 should.",
    {
        "kv-head-zero-only": "Both kv heads are read: change the second one and something moves. Who?",
        "heads-share-scores": "Each query head has its own scores. Which keys does it read?",
        "merge-without-transpose": "The way out is right: transpose, then reshape.",
        "split-without-transpose": "All three are split by view, then transpose.",
        "wrong-scale": "`head_dim**-0.5` is right.",
    },
)
