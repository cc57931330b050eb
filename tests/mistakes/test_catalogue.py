"""The catalogue: every mistake is there, with everything a learner needs, in words that say something."""

import re
from pathlib import Path

import pytest

from course_lib.mistakes import CATALOGUE, FOLDER, Family

LESSONS = Path(__file__).parents[2] / "notebooks" / "sources"
# These ids stay: exercises, grades and outside readers rely on them.
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


def test_an_id_is_never_given_up():
    assert set(IDS) <= set(CATALOGUE)


def test_the_folder_of_a_mistake_holds_its_entry_and_its_example():
    folders = [path for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert {path.name for path in folders} == set(CATALOGUE)
    for path in folders:
        assert {file.name for file in path.iterdir()} == {"mistake.toml", "example.py"}, path


def test_families_come_in_their_order_and_in_each_the_earlier_step_first():
    order = [(list(Family).index(one.family), one.origin.step, one.id) for one in CATALOGUE.values()]
    assert order == sorted(order) and {one.family for one in CATALOGUE.values()} == set(Family)


@pytest.mark.parametrize("mistake", CATALOGUE.values(), ids=lambda mistake: mistake.id)
def test_an_entry_is_whole(mistake):
    sentences = re.findall(r"[.?!](?= |$)", mistake.explanation)
    assert len(sentences) == 3
    assert mistake.title.endswith(".") and mistake.title.count(". ") == 0
    assert mistake.hint.endswith("?"), "a hint is a question"
    lessons = {path.name[:2] for path in LESSONS.glob("[0-9][0-9]_*.py")}
    assert mistake.lesson in lessons
    assert len(set(mistake.notices)) == len(mistake.notices) >= 2
    for notice in mistake.notices:
        assert re.fullmatch(r"[^;!]+\.", notice)  # signs that an entry of an index takes for something else


@pytest.mark.parametrize("mistake", CATALOGUE.values(), ids=lambda mistake: mistake.id)
def test_an_entry_says_what_one_sees_and_not_what_right_code_does(mistake):
    """The book's list of mistakes shows it in the column "you see"."""
    assert not re.search(r"\b(must|should|look at|compare)\b", mistake.shows, re.IGNORECASE)


def test_no_two_entries_say_the_same():
    for field in ("title", "explanation", "hint", "shows"):
        texts = [getattr(mistake, field) for mistake in CATALOGUE.values()]
        assert len(set(texts)) == len(texts) or field == "shows"
