"""Mistakes that show only in other circumstances: training, other sizes, devices and types, positions, caches."""

from .mistake import LOST_KEYS, MEASURED, Mistake, Origin, Step, Symptom

RUNNING = (
    Mistake(
        "dropout-at-eval",
        "Dropout stays on in evaluation.",
        "`F.dropout` without `training=self.training` drops weights always. Dropout belongs to training only. "
        "Answers then change from call to call, and everything else is larger by 1 / (1 - p).",
        "Two calls in eval differ.",
        "A published walk-through with dropout on: every number is 1.11 times too large.",
        "Do two calls in eval agree?",
        "02",
        Origin(Step.SOFTMAX, MEASURED, Symptom.BEHAVIOUR),  # With random weights no two runs can be compared.
    ),
    Mistake(
        "device-pinned",
        "A tensor is made on the CPU wherever the input is.",
        "A mask, or another tensor of more than one element, is built in forward without `device=`. It must be built "
        "where x is, or be a buffer. On the CPU nothing shows, and on a GPU the first masked_fill fails.",
        "On the CPU all is well; on a GPU, or on pretended CUDA tensors, the call fails.",
        "`torch.tril(torch.ones(t, t))` in forward.",
        "On which device is each tensor that forward makes?",
        "02",
        Origin(symptom=Symptom.ELSEWHERE),
    ),
    Mistake(
        "dtype-pinned",
        "A tensor of one dtype is forced on all.",
        "Something is made in, or cast to, float32 whatever the input's dtype is. The module must compute in the "
        "dtype it was given, or cast back. In float64 it is silently less exact, in float16 it fails or the "
        "output changes its dtype.",
        "In float16 or bfloat16 the call fails, or the output has another dtype. In float64 it is off by about 1e-7, "
        "unless the tensor of float32 holds exact numbers only, as a mask of 0 and minus infinity does.",
        "A published class rebuilds its scale as a float32 tensor in each forward.",
        "What is the dtype of the output for an input in float16?",
        "05",
        Origin(symptom=Symptom.ELSEWHERE),
    ),
    Mistake(
        "fixed-length",
        "Only one number of tokens works.",
        "A length is built into a view or a mask. Sizes must come from the input. Shorter or longer inputs fail, "
        "or a mask of size one is broadcast and hides nothing.",
        "With one token more or one fewer the call fails, or every token sees all others.",
        "A published class with context_length=1 accepts any length and shows the future.",
        "Where does the number of tokens come from?",
        "05",
        Origin(Step.ANY, ("no-causal-mask",), Symptom.ELSEWHERE),  # A mask of one length is broadcast for others.
    ),
    Mistake(
        "fixed-batch",
        "Only one batch size works.",
        "The number of samples is written into a view. It must come from the input. Other batches fail, or are "
        "folded into the tokens.",
        "With one sample or with three the call fails, or the output has another number of tokens.",
        "A published walk-through with `view(1, 3, ...)`.",
        "Where does the number of samples come from?",
        "05",
        Origin(Step.ANY, MEASURED, Symptom.ELSEWHERE),  # Samples that are folded into tokens attend to each other.
    ),
    Mistake(
        "rotary-unused",
        "Positions are prepared and never applied.",
        "A rotary embedding is built, or cosine and sine are computed, and queries, keys or both go on without it. "
        "They must be rotated before the scores are computed. Scores then depend on the place of one token, or on "
        "none, instead of the distance, and the model trains anyway.",
        "Repeat one token: with one of them rotated, scores of the same distance differ. Permute the tokens: with "
        "none rotated and no mask, the outputs are merely permuted.",
        "A published class of Llama's attention.",
        "Does the order of the words change anything?",
        "07",
        Origin(Step.POSITION, ("rotary-wrong-turn",)),  # What is turned on one side only is turned wrongly.
    ),
    Mistake(
        "rotary-on-values",
        "Positions are applied to the values.",
        "The values are rotated as well, or instead of the keys. Rotation makes *scores* depend on distance; "
        "values are summed and must stay as they are. The output then depends on absolute positions.",
        "Shift all positions by a constant: the output moves.",
        "Code that applies one function to all three.",
        "Which of the three need to know where they stand?",
        "07",
        Origin(Step.POSITION, ("rotary-unused",)),  # The rotation was meant for the queries and keys.
    ),
    Mistake(
        "stale-cache",
        "The cache gives old or misplaced keys.",
        "New keys are written over others, at the wrong place or with the angles of another place, or the length "
        "is not moved on. Cached decoding must give what the full pass gives. The first step is right and each "
        "later one drifts.",
        "Feed tokens one by one: the first output equals that of the full pass, and later ones do not.",
        "Caches that are kept between two prompts.",
        "After three steps, which keys does the fourth query see?",
        "08",
        # Keys of an earlier prompt look like missing ones, and like a wrong mask for later pieces.
        Origin(Step.CACHE, (*LOST_KEYS, "window-off-by-one", "mask-skipped-when-cached"), Symptom.PIECES),
    ),
    Mistake(
        "depends-on-length",
        "Earlier outputs change when tokens follow.",
        "A table is cut from the wrong end, or a number of the whole text goes into each row, although the mask hides "
        "what follows. In causal attention a token's output must not depend on how many tokens come later. What "
        "was trained on whole texts then computes something else while it generates.",
        "Leave out the last token: the outputs of the others change.",
        "`table[:num_tokens]` where the distances count from the end of the table.",
        "What is the same for the first token in a text of five and of six tokens?",
        "02",
        Origin(symptom=Symptom.PATHS),
    ),
)
