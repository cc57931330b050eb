"""Who may look at whom: a mask that a reader paints, the weights under it, and what leaks or is left empty."""

from __future__ import annotations

from course_lib.attention import causal_keep, padding_keep, window_keep
from course_lib.inputs import dream_big
from course_lib.pictures.weights.masks import mask_conventions

from .figure import Figure
from .toy_head import toy_projections

WORDS = dream_big().words
MEANING = {  # of the masks that are no mistake and no leak where they belong
    "nothing hidden": "Right for a model that reads a whole text at once, and a leak in one that writes word by word.",
    "padding": "A text of four words, filled up to the length of a longer one: “for” and “it” stand for the padding, "
    "which nobody may look at. Nobody reads the outputs of its own rows either. Nothing is hidden from a model that "
    "reads; one that writes needs the causal mask, too.",
    "causal, padding on the left": "A text of four words, filled up on the left: “Dream” and “big” stand for the "
    "padding. Their rows see nothing and become nan, which no other row reads as long as the values stay finite.",
}
REAL, WINDOW = 4, 3  # words that are no padding; words within a window
TITLE = "Who may look at whom?"


def who_may_look() -> Figure:
    """Return the figure in which a reader paints a mask, and both conventions of a bool mask read the same table.

    The scores are those of the head of lessons 01 and 02. Words that look ahead are marked, and so are rows that are
    left with nothing.

    Example:
        >>> who_may_look().save("who_may_look.html")
        PosixPath('who_may_look.html')
    """
    queries, keys, _ = toy_projections()
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    count = len(WORDS)
    causal = causal_keep(count)
    masks = {
        "nothing hidden": causal | True,
        "causal": causal,
        f"window of {WINDOW}": window_keep(count, count, WINDOW),
        "padding": padding_keep([REAL], count)[0, 0].expand(count, count),
        "causal, padding on the left": causal & padding_keep([REAL], count, side="left")[0, 0],
    }
    data = {
        "words": WORDS,
        "scores": scores.tolist(),
        "masks": {name: keep.int().tolist() for name, keep in masks.items()},
        "meaning": MEANING,
        "first": "nothing hidden",
    }
    picture = mask_conventions(causal, words=WORDS, title="The causal mask, in both conventions")
    return Figure(TITLE, ("who_may_look.js",), data, picture)
