"""What lessons 12 and 14 say of trained models holds for three seeds, at both learning rates that lesson 14 names."""

import math
import re
from functools import cache

import pytest
import torch

from .conftest import SOURCES

pytestmark = pytest.mark.slow

ASSIGNED = ("device", "text", "vocabulary", "numbers", "tokens", "width", "num_heads", "max_len", "seen", "held_out")
SEEDS = (0, 1, 2)
FAST, SLOW = 1e-2, 3e-3
OF_BIGRAMS, OF_LETTERS = 2.387, 3.081  # losses of tables that count the pairs of characters, and the characters
STORED = {  # the table in the second answer of lesson 14
    "nothing": (1.76, 1.91),
    "LayerNorm": (1.87, 2.16),
    "MLP": (2.04, 2.20),
    "positions": (2.20, 2.20),
    "attention": (2.39, 2.39),
    "residual": (3.08, 2.40),
}


@pytest.fixture(scope="module")
def capstone(lesson_code):
    """Lesson 14, with the functions of its second answer."""
    lesson = lesson_code("14_capstone", *ASSIGNED)
    source = (SOURCES / "14_capstone.py").read_text("utf-8")
    answer = re.search(r"^#    class WithoutAdding.*?(?=^#    for part in)", source, re.MULTILINE | re.DOTALL)[0]
    names = lesson.train.__globals__
    exec(re.sub(r"^# ? ? ? ? ?", "", answer, flags=re.MULTILINE), names)
    lesson.loss_without = names["loss_without"]
    return lesson


@pytest.fixture(scope="module")
def loss_without(capstone):
    """A function that trains a model without a part and returns its held-out loss, once for each seed and rate."""

    @cache
    def loss_without(part, rate, seed):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        loss = capstone.loss_without(part, rate, seed)
        torch.set_num_threads(threads)
        return loss

    return loss_without


def counted(lesson, pairs):
    """Return the held-out loss of a table that counts characters, after the one before or alone."""
    size = len(lesson.vocabulary)
    counts = torch.full((size, size), 1e-2)
    counts.index_put_((lesson.seen[:-1], lesson.seen[1:]), torch.ones(len(lesson.seen) - 1), accumulate=True)
    counts = counts if pairs else counts.sum(0, keepdim=True).expand_as(counts)
    return -(counts / counts.sum(1, keepdim=True)).log()[lesson.held_out[:-1], lesson.held_out[1:]].mean().item()


def test_the_tables_that_count_have_these_losses(capstone):
    assert counted(capstone, pairs=True) == pytest.approx(OF_BIGRAMS, abs=0.03)
    assert counted(capstone, pairs=False) == pytest.approx(OF_LETTERS, abs=0.03)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("part", STORED)
def test_what_a_part_costs_is_as_the_lesson_says(loss_without, part, seed):
    for rate, stored in zip((FAST, SLOW), STORED[part], strict=True):
        assert loss_without(part, rate, seed) == pytest.approx(stored, abs=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_additions_the_rate_decides_what_is_learned(loss_without, seed):
    assert loss_without("residual", FAST, seed) == pytest.approx(OF_LETTERS, abs=0.05)
    assert loss_without("residual", SLOW, seed) < OF_BIGRAMS + 0.15
    assert loss_without("attention", FAST, seed) == pytest.approx(OF_BIGRAMS, abs=0.03)
    assert loss_without("attention", SLOW, seed) == pytest.approx(OF_BIGRAMS, abs=0.03)


@pytest.mark.parametrize("seed", SEEDS)
def test_layer_norm_costs_more_than_twice_as_much_at_the_lower_rate(loss_without, seed):
    fast, slow = (loss_without("LayerNorm", rate, seed) - loss_without("nothing", rate, seed) for rate in (FAST, SLOW))
    assert 0.0 < 2.0 * fast < slow


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [FAST, SLOW])
def test_a_leak_makes_the_loss_better(lesson_code, rate, seed):
    assigned = ("device", "rotary_table", "rotate", "PLANTED", "kinds")
    lesson, best = lesson_code("12_debugging_attention", *assigned), math.log(16)
    assert lesson.train(lesson.Attention, seed=seed, rate=rate) == pytest.approx(best, abs=0.05)
    assert lesson.train(lesson.kinds["mask one too high"], seed=seed, rate=rate) < 0.5 * best
