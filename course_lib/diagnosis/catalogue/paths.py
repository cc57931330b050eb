"""Mistakes that show on one path of several: with an option, a cache, a window or another kernel."""

from .mistake import LOST_KEYS, Mistake, Origin, Step, Symptom

PATHS = (
    Mistake(
        "window-off-by-one",
        "The window is one token too wide or too narrow.",
        "The comparison of distance and window takes < for <=, or the cache is cut one place too early or too late."
        " A window of w tokens holds the query's own token and the w - 1 before it. Shorter texts fit into both "
        "windows, so nothing shows until one is as long, or longer.",
        "In a text longer than the window a query sees one token more or one fewer than the window holds.",
        "Many published models: `triu(-window)` keeps window + 1 tokens.",
        "How many tokens does the last query see, its own included?",
        "09",
        Origin(Step.MASK, (Step.FILL, "token-missing-from-cache")),  # It cuts keys from the cache.
    ),
    Mistake(
        "window-lost-in-decode",
        "The window is lost once there is a cache.",
        "The prompt is masked with the window and each later token sees the whole cache. Decoding must hide what "
        "one pass hides. Nothing shows until the text is longer than the window, and then it drifts away from what "
        "was trained.",
        "Decode word by word: once past the window, the outputs differ from those of one pass.",
        "Caches that skip the mask because a single query needs no causal one.",
        "Which of the cached keys may a single new query see?",
        "09",
        # It is seen in the mask, too.
        Origin(Step.MASK, (Step.MASK, Step.FILL, "token-missing-from-cache"), Symptom.PIECES),
    ),
    Mistake(
        "mask-lost-on-option",
        "An option switches the causal mask off.",
        "With weights returned, a padding mask, another kernel or in training the code takes a branch without a "
        "causal mask. Every branch must hide the future. The usual path is right, so tests of it pass.",
        "Change the last token once with each option: with one of them earlier outputs move.",
        "`is_causal=mask is None` for F.scaled_dot_product_attention, beside a mask that holds padding only.",
        "Which line hides the future when this argument is given?",
        "12",
        Origin(Step.MASK, symptom=Symptom.PATHS),
    ),
    Mistake(
        "mask-skipped-when-cached",
        "The mask is skipped once there is a cache.",
        "The mask is applied to the prompt alone, because one new token needs no causal mask. Several new tokens at"
        " once do, and padding must stay hidden from each. Decoding word by word without padding is right, and that"
        " is what was tried.",
        "Feed the text in chunks of three, or padded: the outputs differ from those of one pass.",
        "`if past is None: scores = scores + mask`.",
        "What hides the second of two new tokens from the first?",
        "08",
        Origin(Step.MASK, (Step.MASK, Step.FILL), Symptom.PIECES),  # It is seen in the mask, too.
    ),
    Mistake(
        "token-missing-from-cache",
        "Some tokens never reach the cache.",
        "The newest token, the prompt's last one or all but the newest are not joined to the cached keys, or are "
        "cut off. A query must be compared with its own key and all earlier ones. The text goes on fluently, as if "
        "a word had never been said.",
        "The query at place n is compared with fewer than n + 1 keys.",
        "Code that attends first and updates its cache afterwards.",
        "How many keys does the fourth query see?",
        "08",
        Origin(Step.CACHE, (*LOST_KEYS, "stale-cache"), Symptom.PIECES),  # Old keys may stand in its place.
    ),
    Mistake(
        "positions-restart-in-cache",
        "Each piece counts its positions from zero.",
        "Positions are made from the number of new tokens, so that every cached step stands at place 0. They must "
        "go on where the cache ends. The prompt is right, and from the first new token on all "
        "distances to cached tokens are wrong.",
        "Decode word by word: from the first new token on, the outputs differ from those of one pass.",
        "`torch.arange(x.shape[1])` in a forward that also takes a cache.",
        "At which place does the first token after the prompt stand?",
        "08",
        Origin(Step.POSITION, ("stale-cache", "rotary-unused"), Symptom.PIECES),  # Its angles are another's.
    ),
    Mistake(
        "is-causal-with-mask",
        "A mask and the causal flag are given together.",
        "F.scaled_dot_product_attention refuses both from PyTorch 2.14 on; before, some of its kernels combined them, "
        "and nn.MultiheadAttention may take the flag and leave the mask unread. Give one of them: the mask with the "
        "causal one in it, or the flag. Where only the flag is read, what else the mask hides, "
        "such as a window, is lost without a word.",
        "The call fails, or a token that the mask hides still moves the outputs. Where a kernel combines both, nothing "
        "shows.",
        "Callers that pass `is_causal=True` as a hint, and a mask with a window or padding in it.",
        "Which of the two does the kernel read?",
        "02",
        Origin(Step.MASK, (Step.MASK, Step.FILL)),  # The mask that is not read hides nothing.
    ),
    Mistake(
        "paths-differ",
        "Two paths of the same code compute different things.",
        "A branch for another kernel, for returned weights or for a cache has a scale, a norm, a gate or a "
        "projection that the other lacks. All paths must agree to rounding. Training takes one and the service the "
        "other, and nobody compares them.",
        "Run both on the same x: the outputs differ by more than 1e-5.",
        "Fused kernels that ignored the scale of their module for months.",
        "Which lines does only one of the two branches have?",
        "12",
        Origin(symptom=Symptom.PATHS),
    ),
)
