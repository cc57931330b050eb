"""Mistakes between queries and weights: what is compared, how it is scaled, where softmax runs."""

from .mistake import MEASURED, Mistake, Origin, Step, Symptom

SCORES = (
    Mistake(
        "scores-from-values",
        "Queries are compared with the values instead of the keys.",
        "The product of scores takes the values, and the keys are computed for nothing. Keys say what a token can "
        "be found by, values what it gives; here the values do both. The shapes are equal, so nothing "
        "complains.",
        "The key projection gets no gradient; changing it changes nothing.",
        "A published notebook's single head.",
        "What is left if you follow the keys from their projection onwards?",
        "01",
        # The keys' projection is unused, that of the values is used twice, and values are not rotated.
        Origin(Step.PRODUCT, ("output-projection-missing", "projection-reused", "rotary-unused")),
    ),
    Mistake(
        "projection-reused",
        "One projection feeds two roles.",
        "A line was copied and its name not changed: keys come out of the query projection, or both heads mask "
        "the scores of an earlier cell. Each role needs a projection of its own. Shapes and row sums are right, "
        "and one parameter never learns.",
        "A projection gets no gradient, or two roles hold equal numbers.",
        "A published notebook re-uses the first head's scores in both heads.",
        "Which projection made the queries, which the keys, which the values?",
        "03",
        Origin(Step.PROJECTION, ("output-projection-missing",)),  # The unused matrix was meant.
    ),
    Mistake(
        "missing-scale",
        "The scores are not divided by the square root of head_dim.",
        "A dot product grows with the square root of its width, and softmax turns large scores into all or "
        "nothing. The division keeps the scores near 1 at every width. Without it small examples look fine and "
        "wide heads hardly learn.",
        "The scores' spread grows with head_dim; multiplying queries by head_dim ** -0.5 gives the right output.",
        "Any code written from memory.",
        "How large do the scores get when the head is twice as wide?",
        "01",
        Origin(Step.SCALE),
    ),
    Mistake(
        "wrong-scale",
        "The scores are divided by another number than the square root of head_dim.",
        "The width of the whole model, head_dim without its root, or the number of tokens stands in the division. "
        "It must be the width of one head, under the root, because that is the number of terms in the dot "
        "product. Attention gets too flat or too sharp, which training half repairs and nobody sees.",
        "The output equals attention whose scores are multiplied by a constant.",
        "Multi-head code made from a single head, where d_out used to be the head's width.",
        "How many terms are added up in one score?",
        "01",
        Origin(Step.SCALE),
    ),
    Mistake(
        "softmax-wrong-axis",
        "Softmax runs over the wrong axis.",
        "`dim=-2` or `dim=1` shares out what the keys get instead of what a query gives. Each query's weights "
        "over its keys must sum to 1, so softmax runs over the last axis. Columns sum to 1 instead of rows, and "
        "with a causal mask the future leaks through the division.",
        "Row sums differ from 1; column sums are 1.",
        "`nn.Softmax(dim=1)` kept from three axes when a fourth was added.",
        "Which sums should be 1: those of a query or those of a key?",
        "01",
        Origin(Step.SOFTMAX, (Step.MASK, Step.FILL, Step.SCALE)),  # Hidden pairs get a weight, and rows don't sum to 1.
    ),
    Mistake(
        "double-softmax",
        "Softmax is taken twice.",
        "Weights that are already between 0 and 1 go through softmax again. The second one sees scores that "
        "differ by at most 1, so no weight can be more than e times another. Rows still sum to 1, but all "
        "weights are blurred, and what a mask before the first softmax hid is seen again.",
        "The ratio of the largest to the smallest visible weight of a row never exceeds 2.72.",
        "A published notebook masks and softmaxes the weights of an earlier cell.",
        "How large can the largest weight of a row of two get?",
        "01",
        Origin(Step.SOFTMAX, (Step.FILL, Step.SCALE, "stale-cache")),  # It shows hidden tokens and empty slots.
    ),
    Mistake(
        "no-softmax",
        "There is no softmax.",
        "The values are multiplied by the scores themselves. A weighted mean needs weights that are positive and "
        "sum to 1. The output is linear in the keys, may have any size, and a published judge let it pass because "
        "the shape was right.",
        "Without the division rows don't sum to 1; without exp weights can be negative.",
        "A published judge for grouped-query attention accepts it.",
        "What turns scores into attention weights?",
        "01",
        # No scale is right, and the mask's fill value or the batch's largest score remains in the scores.
        Origin(Step.SOFTMAX, (Step.FILL, Step.SCALE, "overflow-half", "batch-mixed")),
    ),
    Mistake(
        "dropout-before-softmax",
        "Dropout is applied to the scores.",
        "A dropped score becomes zero, which softmax does not read as nothing but as an ordinary match, and a dropped "
        "score of a hidden token becomes nan. Dropout belongs on the weights, after softmax. In evaluation both are "
        "the same, so no test in evaluation mode sees it.",
        "In training no visible token has a weight of exactly 0, or the output is nan; the mean of many passes differs "
        "from evaluation.",
        "Code that puts all regularisation right after the product.",
        "In training, which weights are exactly zero?",
        "02",
        Origin(Step.SOFTMAX, symptom=Symptom.ELSEWHERE),
    ),
    Mistake(
        "overflow-half",
        "The scores overflow in half precision.",
        "The product is formed first and scaled afterwards, so a dot product beyond 65504 becomes infinite before "
        "it is divided. Scaling the queries before the product makes it smaller. In float32 nothing shows.",
        "Queries and keys of 60 and head_dim 64 in float16: the output is nan.",
        "Code that follows the formula as it is written, such as nanoGPT's, scales after the product.",
        "How large is the largest number between the product and the division?",
        "01",
        Origin(Step.PRODUCT, ("dtype-pinned", "nan-on-hidden-rows")),  # What overflows becomes inf, then nan.
    ),
    Mistake(
        "weights-transposed",
        "The weights are transposed before they multiply the values.",
        "Softmax is right, and then keys and queries change places. The row of a query must weigh the values of its"
        " keys. Shapes are equal because queries and keys are equally many, and a causal mask then shows the "
        "future.",
        "The weights that multiply the values do not sum to 1 in each row. Change the last token: earlier "
        "outputs move.",
        "`einsum('bhqk,bhqd->bhkd')`, two letters from the right one.",
        "Which axis of the weights meets the tokens of the values?",
        "01",
        # Keys in the place of queries turn the mask round, and may be one for all heads.
        Origin(Step.VALUES, (Step.MASK, Step.FILL, Step.SCALE, "softmax-wrong-axis", "heads-share-weights")),
    ),
    Mistake(
        "values-misaligned",
        "The weights multiply the values of other tokens.",
        "The rows of the values are in another order than those of the keys: one is flipped, shifted or joined with a "
        "memory at the other end. A weight belongs to the value of the token whose key it was computed from. Shapes "
        "and row sums are right, and a token is found by its key and answers with its neighbour's value.",
        "Change one token: the key and the value that change are in different rows.",
        "`cat([memory, keys])` beside `cat([values, memory])`.",
        "Which token's value stands in the row of this key?",
        "01",
        Origin(Step.VALUES, MEASURED),  # Values of other tokens look like other weights, other heads and another mask.
    ),
    Mistake(
        "roles-exchanged",
        "Weights play another role than their name says.",
        "The norm of the queries is applied to the keys and that of the keys to the queries, or `k_proj` makes the "
        "values. Weights must play the role that they are called by, because whoever loads or converts them goes by "
        "the names. A model trained so works, and weights of another give nonsense.",
        "Loaded weights give other outputs than in the model that they come from.",
        "`q, k = k_norm(q), q_norm(k)`.",
        "Which of the norms reaches the queries?",
        "05",
        Origin(Step.PROJECTION, symptom=Symptom.TEXT),
    ),
)
