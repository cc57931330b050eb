"""Mistakes with masks: who may look at whom."""

from .mistake import UNMOVED, Mistake, Origin, Step, Symptom

MASKS = (
    Mistake(
        "mask-discarded",
        "The mask is computed and then thrown away.",
        "`masked_fill` without an underscore returns a new tensor and leaves the old one as it was. The code "
        "calls it and keeps working with the unmasked scores. Shapes, row sums and the whole last row are right, "
        "so tests of these pass.",
        "Change the last token: every earlier output moves. A recording lists the result of `masked_fill` as "
        "never used.",
        "A published notebook's multi-head class; its output equals unmasked attention to the last digit.",
        "Which line makes the masked scores, and which line reads them?",
        "02",
        Origin(Step.FILL),
    ),
    Mistake(
        "no-causal-mask",
        "Nothing hides the future.",
        "The scores go to softmax without a causal mask, so every token sees all later ones. A model that "
        "predicts the next token may then copy it from its input. Training looks splendid and the written text is "
        "nonsense.",
        "Change the last token: every earlier output moves. The gradient of the first output reaches the last input.",
        "A published class takes an attention_mask and never reads it.",
        "What stops the first token from looking at the last one?",
        "02",
        Origin(Step.FILL, ("mask-discarded",)),  # A mask that no line reads is a reason that nothing is hidden.
    ),
    Mistake(
        "mask-inverted",
        "The mask hides what it should show.",
        "True means *may attend* to `F.scaled_dot_product_attention` and *hidden* to `nn.MultiheadAttention` and "
        "to `masked_fill`. Given in the other sense, a causal mask shows the future only. The shapes are the same "
        "and only the last token, left with nothing, may give it away by nan.",
        "The weights lie above the diagonal; the last row is nan, zero or uniform.",
        "Every code base that mixes both functions; masks from other libraries, where 1 means keep.",
        "For this mask, does True mean may look or must not look?",
        "02",
        # Empty rows are 0 or nan, and nothing moves nan.
        Origin(Step.MASK, ("nan-on-hidden-rows", "mask-after-softmax", *UNMOVED)),
    ),
    Mistake(
        "mask-off-by-one",
        "The mask's diagonal is one step off.",
        "`triu(diagonal=0)` hides a token from itself and `triu(diagonal=2)` shows it the next one. The causal "
        "mask hides what lies above the main diagonal, which is `triu(diagonal=1)`. One step too few gives the "
        "answer away; one too many leaves the first row with nothing to look at.",
        "Change token t: the output of t - 1 moves, or the first row is nan and no token attends to itself.",
        "`torch.tril` and `torch.triu` with a diagonal copied from code that counts the other way.",
        "May a token look at itself? May it look at the next one?",
        "02",
        Origin(Step.MASK, ("nan-on-hidden-rows",)),  # The first token is left with nothing to see.
    ),
    Mistake(
        "mask-transposed",
        "The mask has queries and keys exchanged.",
        "A causal mask is a triangle, and its transpose shows each token only itself and later ones. It appears "
        "when rows are taken for keys, or with `triu` where `tril` was meant. The last token sees only itself, "
        "every row still sums to 1, and nothing fails.",
        "Change the first token: only its own output moves. Change the last one: all outputs move.",
        "Masks built by comparing `arange` in the wrong order.",
        "In the mask, is a row one query or one key?",
        "02",
        Origin(Step.MASK),
    ),
    Mistake(
        "mask-after-softmax",
        "The mask comes after softmax.",
        "Weights of hidden tokens are set to zero after softmax has shared out the whole of each row. What they "
        "held is lost instead of going to the tokens that may be seen. Such a row sums to less than 1, and "
        "hidden scores still press on the visible weights.",
        "With a causal mask only the last row sums to 1. Earlier outputs move when a later token changes.",
        "Code that multiplies weights by a 0/1 mask.",
        "Do the weights of each row still sum to 1?",
        "02",
        Origin(Step.FILL),
    ),
    Mistake(
        "mask-with-zero",
        "Hidden scores are set to zero.",
        "A score of zero is not nothing: softmax makes exp(0) = 1 of it before it divides. The scores must become "
        "minus infinity, or so small that softmax gives them no weight. Hidden tokens keep a share, often more "
        "than the visible ones.",
        "Weights above the diagonal are equal and not zero. Change a hidden token's value: the output moves.",
        "`scores * mask` and `masked_fill(mask, 0)`.",
        "What does softmax make of a score of 0?",
        "02",
        Origin(Step.FILL),
    ),
    Mistake(
        "causal-top-left",
        "The causal mask is aligned to the first key instead of the last.",
        "With fewer queries than keys, as with a cache, the newest query stands at the end of the keys. A mask "
        "built from the query's own count puts it at the beginning, where it sees the first key only. Without a "
        "cache both are the same, so training never shows it.",
        "One query with five keys: the output is the first value alone.",
        "`is_causal=True` of `F.scaled_dot_product_attention` in decoding.",
        "If there are five keys and one query, which token is that query?",
        "02",
        Origin(Step.MASK, ("weights-not-applied",), Symptom.PIECES),  # A query that comes alone sees one key.
    ),
    Mistake(
        "mask-rank",
        "The mask has a shape that is broadcast to the wrong axes.",
        "A mask (batch, query, key) lines up with (head, query, key) as soon as there are as many samples as "
        "heads. A wrapper of `unsqueeze`s turns the usual (batch, 1, query, key) into five axes, and a `reshape` "
        "at the end hides it. The output has the right shape and belongs to other tokens.",
        "Give two samples different masks and swap the samples: the outputs do not swap with them.",
        "Two published classes: one applies a batch's mask per head, one scrambles heads and positions.",
        "Which axis of the scores does each axis of the mask meet?",
        "02",
        # It multiplies the scores, or hides along the wrong axis, and so crosses heads and samples.
        Origin(Step.MASK, (Step.FILL, Step.HEADS, Step.MERGE, "batch-mixed")),
    ),
    Mistake(
        "nan-on-hidden-rows",
        "A token that may look at nothing becomes nan.",
        "Padding on the left and a causal mask leave some rows with minus infinity everywhere, and softmax "
        "divides zero by zero. The loss may ignore these rows, but in the backward pass nan times zero is nan. "
        "One training step then puts nan into the value and output projections.",
        "Hide every key from one query: its output is nan, and after a backward pass so are gradients.",
        "A published class, and `nn.MultiheadAttention` when it returns weights.",
        "What is softmax of a row in which everything is minus infinity?",
        "02",
        Origin(Step.FILL),
    ),
)
