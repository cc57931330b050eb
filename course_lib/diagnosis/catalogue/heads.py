"""Mistakes with heads: cutting, keeping apart, sharing, merging."""

from .mistake import MEASURED, Mistake, Origin, Step

HEADS = (
    Mistake(
        "split-without-transpose",
        "The heads are cut by a view alone.",
        "`view(batch, heads, tokens, head_dim)` cuts memory into stretches, so a head gets whole tokens instead "
        "of a slice of each. The width must be split first and the axes exchanged afterwards. The shape is the "
        "one that was wanted, so nothing complains.",
        "Permute the tokens: the outputs do not permute with them. The picture of the layout shows scrambled colours.",
        "The most common question under every explanation of multi-head attention.",
        "After the view, which token does row 1 of head 0 come from?",
        "04",
        Origin(Step.HEADS, MEASURED),  # A head of several tokens has no queries and keys of its own.
    ),
    Mistake(
        "merge-without-transpose",
        "The heads are put back by a reshape alone.",
        "Without the transpose, `reshape` goes through all tokens of a head before the next head, instead of joining "
        "the heads of one token. The axes must be exchanged back before they are joined. The shape is right, and rows "
        "of the output hold other tokens.",
        "Change token t: outputs of other tokens move, also earlier ones.",
        "Walk-throughs that drop a line between two formulas.",
        "In the merged row of a token, whose numbers stand there?",
        "04",
        Origin(Step.MERGE),
    ),
    Mistake(
        "heads-share-scores",
        "All heads use the same scores.",
        "Scores are computed once, or summed over the heads, and every head weights its values with the same "
        "weights. Each head needs a softmax of its own, which is what several heads are for. All the "
        "parameters are there and used.",
        "The weights of all heads are equal although their queries differ.",
        "An einsum that lost the letter of the heads.",
        "In how many patterns do your heads look at the words?",
        "03",
        Origin(Step.HEADS, (Step.SCALE, "projection-reused")),  # Summed scores need the columns of all heads.
    ),
    Mistake(
        "heads-share-weights",
        "All heads use the same projection.",
        "A list was made by multiplication, `[head] * n`, or one Linear serves every head. Each head needs "
        "projections of its own. The model has fewer parameters than it should and all heads do the same thing.",
        "The module has fewer parameters than the formula says; the heads' outputs are equal.",
        "`nn.ModuleList([Head()] * num_heads)`.",
        "Which weights does head 1 read that head 0 does not?",
        "03",
        Origin(Step.HEADS, ("projection-reused", "output-projection-missing")),  # The other heads' are unused.
    ),
    Mistake(
        "heads-averaged",
        "The heads are averaged or added instead of joined.",
        "The heads' contexts are summed over the head axis. They must lie side by side, so that the output "
        "projection can weigh each of them. The width shrinks to that of one head, or is filled up again by the "
        "projection.",
        "Exchange the results of two heads: the output stays the same.",
        "`.mean(dim=1)` where a merge should be.",
        "Can the output projection still tell the heads apart?",
        "03",
        Origin(Step.MERGE, ("merge-without-transpose",)),  # A sum over heads also crosses rows.
    ),
    Mistake(
        "kv-heads-tiled",
        "Shared kv heads are laid out 0, 1, 0, 1 instead of 0, 0, 1, 1.",
        "`repeat` tiles the kv heads, while consecutive query heads should share one: `repeat_interleave`. Query "
        "heads then read the keys that were trained for others. Shapes and speed are the same, and only weights "
        "from elsewhere show it.",
        "With 2 kv heads for 4 query heads, change kv head 1: query heads 1 and 3 move instead of 2 and 3.",
        "Grouped-query code written with `repeat` or `expand` on the wrong axis.",
        "Which query heads read kv head 0?",
        "06",
        Origin(Step.SHARING),
    ),
    Mistake(
        "kv-head-zero-only",
        "Every query head reads the first kv head.",
        "An index or a broadcast takes kv head 0 for all, as multi-query attention would. With several kv heads "
        "each group must read its own. The other heads are computed, cached and never used.",
        "Change kv head 1: nothing moves; its rows of the projection get no gradient.",
        "Multi-query code stretched to groups.",
        "What happens if the second kv head is changed?",
        "06",
        # The other kv heads' weights are unused.
        Origin(Step.SHARING, ("projection-reused", "output-projection-missing", "heads-share-weights")),
    ),
)
