"""Mistakes around the product of queries and keys: rotations, biases, norms and caps."""

from .mistake import Mistake, Origin, Step

POSITIONS = (
    Mistake(
        "rotary-wrong-turn",
        "Rotary positions turn queries and keys wrongly.",
        "A minus is missing, pairs and halves are mixed, or queries and keys turn in opposite directions. A query "
        "at place m and a key at place n must be turned so that their product depends on m - n alone. The shapes "
        "are right and a model trains, but it knows other distances at each place and fails on longer texts.",
        "Repeat one token: scores of the same distance differ.",
        "A `rotate_half` copied from a model that pairs neighbours, beside a table made for halves.",
        "If every token is the same, which scores may differ?",
        "07",
        Origin(Step.POSITION, (Step.SCALE,)),  # A turn that changes lengths changes the scale.
    ),
    Mistake(
        "bias-wrong-sign",
        "The bias favours tokens that are far away.",
        "A bias such as that of ALiBi is added with the wrong sign, so that scores rise with distance. A key must "
        "lose the more the further it is from the query. Steep heads look at the beginning of a long text, and the "
        "model learns, only worse.",
        "Repeat one token: the weights of a row rise with distance.",
        "`slopes * (query - key)` where the paper has key - query.",
        "Does a key gain or lose when it moves away from the query?",
        "07",
        Origin(Step.BIAS),
    ),
    Mistake(
        "mask-scaled",
        "The mask is too weak, or scaled together with the scores.",
        "A mask of a finite number or a bias is added before the scores are divided by the square root of head_dim,"
        " and must be added after that. A mask of -30 then hides far less than it says, and a bias is weaker the "
        "wider a head is. A number such as -10 hides too little from the start.",
        "With a bias, or a mask of about -30 that leaves hidden tokens a weight, the output changes when the scores "
        "are divided first. With -1e9 nothing shows.",
        "Code in which the scale moved from the queries to the line of the softmax.",
        "What has been done to the mask's number when softmax reads it?",
        "02",
        Origin(Step.FILL, (Step.FILL,)),  # A smaller number hides less.
    ),
    Mistake(
        "norm-wrong-axis",
        "Queries or keys are normalised over the wrong axis.",
        "A norm of queries and keys runs over the tokens or over the heads. It must run over the elements of one "
        "head, or of all heads together. Over tokens each query knows later ones, over heads each head depends on "
        "the others, and every shape is right.",
        "Change one token, or the weights of one head: queries of other tokens or heads move.",
        "`F.normalize(q, dim=1)`: axis 1 holds the tokens before the transpose and the heads after it.",
        "Which numbers are added up when a query's length is measured?",
        "12",
        Origin(Step.NORM, (Step.SCALE, "heads-share-scores")),  # Each head's scores then depend on the others.
    ),
    Mistake(
        "softcap-missing",
        "The soft cap of the scores is missing, incomplete or after the mask.",
        "`tanh` is applied without one of its two factors, after the mask, or not at all although a cap is set. A "
        "cap is c * tanh(scores / c), which leaves small scores as they are, and the mask comes after it. Without "
        "the outer factor weights are flat, without the inner one sharp, and after the mask minus infinity becomes "
        "minus c, which hides too little if c is small.",
        "Small scores come out of the cap changed, large ones come out uncapped, or, with a cap as small as 5, earlier "
        "outputs move with the last token. With a cap of 20 or 50 the weight of a hidden token is too small to see.",
        "Ports of Gemma 2, whose fused kernels have no cap.",
        "What does tanh make of minus infinity?",
        "12",
        Origin(Step.CAP, (Step.FILL, Step.SCALE)),  # A capped mask hides nothing; half a cap scales.
    ),
)
