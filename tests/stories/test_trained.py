"""The trained storytellers: their files are those of the card, and they tell what it says."""

import hashlib
import json

import pytest
import torch

from course_lib.stories import FORMS, KINDS, facts_kept, load_storyteller, read_held_out
from course_lib.stories.forms import TRAINED, file_of

CARD = json.loads((TRAINED / "card.json").read_text(encoding="utf-8"))
BEGINNING = "Once there was an owl named Ida. Ida lived by the"


def shares(row):
    """Of each kind, the share of the written stories that keep it."""
    return {kind: row["kept"].get(kind, 0) / row["said"][kind] for kind in KINDS if row["said"].get(kind, 0) >= 20}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_the_one_that_the_card_describes(form):
    assert hashlib.sha256(file_of(form).read_bytes()).hexdigest() == CARD[form]["sha256"]
    model = load_storyteller(form)
    assert sum(one.numel() for one in model.parameters()) == CARD[form]["parameters"]
    assert FORMS[form].steps == CARD[form]["steps"] and len(CARD[form]["seeds"]) == 3


def test_sharing_keys_across_blocks_costs_little_under_each_seed():
    shared = json.loads((TRAINED / "sharing.json").read_text(encoding="utf-8"))["seeds"]
    assert len(shared) == 3
    for run, plain in zip(shared, CARD["llama"]["seeds"], strict=True):
        assert run["loss"] < plain["loss"] + 0.02 and run["sure"]["name"] > 0.95


def test_all_together_are_small():
    assert sum(path.stat().st_size for path in TRAINED.iterdir()) < 4e6


@pytest.mark.slow
def test_a_model_is_as_sure_as_the_card_says():
    model, expected = load_storyteller("multi-query"), CARD["multi-query"]["seeds"][0]
    assert read_held_out(model).loss == pytest.approx(expected["loss"], abs=2e-3)
    assert facts_kept(model) == pytest.approx(expected["sure"], abs=5e-3)


def test_both_measures_agree():
    pairs = [
        (share, row["sure"][kind])
        for form in CARD.values()
        for row in form["seeds"]
        for kind, share in shares(row).items()
    ]
    kept, sure = torch.tensor(pairs, dtype=torch.float64).T
    assert len(pairs) > 100 and torch.corrcoef(torch.stack([kept, sure]))[0, 1] > 0.85


def test_the_best_keeps_what_it_sets():
    for row in CARD["best"]["seeds"]:
        found = shares(row)
        assert min(share for kind, share in found.items() if kind != "order") >= 0.95, found


@pytest.mark.slow
def test_the_wrapper_tells_the_weight_splits_story():
    split, wrapper = load_storyteller("weight split"), load_storyteller("wrapper")
    torch.testing.assert_close(wrapper(split.encode(BEGINNING)), split(split.encode(BEGINNING)))
    assert wrapper.write(BEGINNING) == split.write(BEGINNING)
