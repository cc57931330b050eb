"""The catalogue: every mistake is there, with everything a learner needs, in words that say something."""

import re
from pathlib import Path

import pytest

from course_lib.diagnosis import CATALOGUE, Step, Symptom

LESSONS = Path(__file__).parents[2] / "notebooks" / "sources"
# The ids are fixed: exercises, grades and outside readers rely on them.
IDS = [
    "mask-discarded",
    "no-causal-mask",
    "mask-inverted",
    "mask-off-by-one",
    "mask-transposed",
    "mask-after-softmax",
    "mask-with-zero",
    "scores-from-values",
    "projection-reused",
    "missing-scale",
    "wrong-scale",
    "softmax-wrong-axis",
    "double-softmax",
    "no-softmax",
    "split-without-transpose",
    "merge-without-transpose",
    "heads-share-scores",
    "heads-share-weights",
    "heads-averaged",
    "output-projection-missing",
    "output-projection-shape",
    "dropout-at-eval",
    "dropout-before-softmax",
    "nan-on-hidden-rows",
    "kv-heads-tiled",
    "kv-head-zero-only",
    "causal-top-left",
    "input-modified",
    "weights-not-applied",
    "returns-none",
    "batch-mixed",
    "device-pinned",
    "dtype-pinned",
    "fixed-length",
    "fixed-batch",
    "rotary-unused",
    "rotary-on-values",
    "mask-rank",
    "overflow-half",
    "stale-cache",
    "rotary-wrong-turn",
    "bias-wrong-sign",
    "mask-scaled",
    "norm-wrong-axis",
    "softcap-missing",
    "window-off-by-one",
    "window-lost-in-decode",
    "mask-lost-on-option",
    "mask-skipped-when-cached",
    "token-missing-from-cache",
    "positions-restart-in-cache",
    "is-causal-with-mask",
    "paths-differ",
    "weights-transposed",
    "gate-unused",
    "dead-parameter",
    "value-unused",
    "values-misaligned",
    "roles-exchanged",
    "depends-on-length",
]
KINDS = (Step, Symptom)
TO_COME = {"07"}  # lessons that are not written yet


def test_the_ids_are_the_agreed_ones():
    assert sorted(CATALOGUE) == sorted(IDS)
    assert all(name == mistake.id for name, mistake in CATALOGUE.items())


def test_effects_are_other_mistakes():
    for mistake in CATALOGUE.values():
        for effect in mistake.origin.effects:
            known = effect in CATALOGUE and effect != mistake.id if isinstance(effect, str) else type(effect) in KINDS
            assert known, f"{mistake.id} explains {effect}"


@pytest.mark.parametrize("mistake", CATALOGUE.values(), ids=lambda mistake: mistake.id)
def test_an_entry_is_whole(mistake):
    sentences = re.findall(r"[.?!](?= |$)", mistake.explanation)
    assert len(sentences) == 3
    assert mistake.title.endswith(".") and mistake.title.count(". ") == 0
    assert mistake.hint.endswith("?"), "a hint is a question"
    assert mistake.shows and mistake.seen
    lessons = {path.name[:2] for path in LESSONS.glob("[0-9][0-9]_*.py")}
    assert mistake.lesson in lessons | TO_COME
    for text in mistake[:-1]:
        assert text == " ".join(text.split()), "no double blank where a line was broken"


@pytest.mark.parametrize("mistake", CATALOGUE.values(), ids=lambda mistake: mistake.id)
def test_an_entry_says_what_one_sees_and_not_what_right_code_does(mistake):
    """The book's list of mistakes shows it in the column "you see"."""
    assert not re.search(r"\b(must|should|look at|compare)\b", mistake.shows, re.IGNORECASE)


def test_no_two_entries_say_the_same():
    for field in ("title", "explanation", "hint", "shows"):
        texts = [getattr(mistake, field) for mistake in CATALOGUE.values()]
        assert len(set(texts)) == len(texts) or field == "shows"
