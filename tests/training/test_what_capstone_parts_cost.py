"""What lesson 17 says of trained models holds for three seeds or four."""

import re

import pytest
import torch

from .conftest import SOURCES

pytestmark = pytest.mark.slow

ASSIGNED = (
    *("device", "texts", "END", "vocabulary", "numbers", "encoded", "max_len", "padding", "tokens", "lengths"),
    *("starts", "start", "width", "num_heads", "split"),
    *("MyLlamaAttention", "MyCache"),
)
SEEDS = (0, 1, 2)
RATE = 6e-3


@pytest.fixture(scope="module")
def capstone(lesson_code):
    """Lesson 17, with the functions of its second answer."""
    lesson = lesson_code("17_capstone", *ASSIGNED)
    source = (SOURCES / "17_capstone.py").read_text("utf-8")
    answer = re.search(r"^#    class WithoutAdding.*?(?=^#    for part in)", source, re.MULTILINE | re.DOTALL)[0]
    names = lesson.make_optimizer.__globals__
    exec(re.sub(r"^# ? ? ? ? ?", "", answer, flags=re.MULTILINE), names)
    lesson.trained_without = names["trained_without"]
    return lesson


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_good_start_lowers_the_loss_and_names_are_kept(capstone, seed):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    models = [capstone.trained_without(part, RATE, seed, 1500) for part in ("nothing", "start")]
    torch.set_num_threads(threads)
    with_start, without = map(capstone.held_out_loss, models)
    assert with_start < 0.41 and without > with_start + 0.03  # of the lesson's table
    kept = [capstone.facts_kept(story) for story in capstone.sixty(models[0])]
    assert sum(each.get("name", False) for each in kept) > 50 and sum(all(each.values()) for each in kept) > 30


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rotation_takes_the_place_of_the_table_and_does_more_than_the_mask(capstone, seed):
    torch.set_num_threads(1)

    def further(model, attention):
        other = capstone.TinyGPT(attention, positions=False)
        other.load_state_dict(model.state_dict(), strict=False)
        capstone.training_loop(other, capstone.batches(other, 400, seed=1), capstone.make_short)
        return capstone.held_out_loss(other)

    torch.manual_seed(seed)
    model = capstone.TinyGPT(capstone.MultiQueryWithCache)
    capstone.start_by_copying(model)
    capstone.training_loop(model, capstone.batches(model, 1500), capstone.make_optimizer)
    rotation, mask_alone = (further(model, one) for one in (capstone.RotaryMultiQuery, capstone.MultiQueryWithCache))
    assert rotation < capstone.held_out_loss(model) + 0.02
    assert mask_alone > rotation + 0.03
