"""What lessons 12 and 14 say of trained models holds with three seeds and two learning rates, or at the rate that they name.


Minutes of training, so `course test --browser` (make test-all) runs it, and `course test` does not.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from .lesson_names import names_of

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


@cache
def capstone():
    return names_of("14_capstone", until="def train(", answer="class WithoutAdding(Block):")


@cache
def debugging():
    return names_of("12_debugging_attention", until="def train(")


@cache
def loss_without(part: str, rate: float, seed: int) -> float:
    torch.set_num_threads(1)
    return capstone()["loss_without"](part, rate, seed)


def counted(pairs: bool) -> float:
    """Return the held-out loss of a table that counts characters, after the one before or alone."""
    seen, held_out, size = (capstone()[name] for name in ("seen", "held_out", "vocabulary"))
    counts = torch.full((len(size), len(size)), 1e-2)
    counts.index_put_((seen[:-1], seen[1:]), torch.ones(len(seen) - 1), accumulate=True)
    counts = counts if pairs else counts.sum(0, keepdim=True).expand_as(counts)
    return -(counts / counts.sum(1, keepdim=True)).log()[held_out[:-1], held_out[1:]].mean().item()


def test_the_tables_that_count_have_these_losses():
    assert counted(pairs=True) == pytest.approx(OF_BIGRAMS, abs=0.03)
    assert counted(pairs=False) == pytest.approx(OF_LETTERS, abs=0.03)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("part", STORED)
def test_what_a_part_costs_is_as_the_lesson_says(part, seed):
    for rate, stored in zip((FAST, SLOW), STORED[part], strict=True):
        assert loss_without(part, rate, seed) == pytest.approx(stored, abs=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_additions_the_rate_decides_what_is_learned(seed):
    assert loss_without("residual", FAST, seed) == pytest.approx(OF_LETTERS, abs=0.05)
    assert loss_without("residual", SLOW, seed) < OF_BIGRAMS + 0.15
    assert loss_without("attention", FAST, seed) == pytest.approx(OF_BIGRAMS, abs=0.03)
    assert loss_without("attention", SLOW, seed) == pytest.approx(OF_BIGRAMS, abs=0.03)


@pytest.mark.parametrize("seed", SEEDS)
def test_layer_norm_costs_more_than_twice_as_much_at_the_lower_rate(seed):
    fast, slow = (loss_without("LayerNorm", rate, seed) - loss_without("nothing", rate, seed) for rate in (FAST, SLOW))
    assert 0.0 < 2.0 * fast < slow


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [FAST, SLOW])
def test_a_leak_makes_the_loss_better(rate, seed):
    lesson, best = debugging(), math.log(16)
    assert lesson["train"](lesson["Attention"], seed=seed, rate=rate) == pytest.approx(best, abs=0.05)
    assert lesson["train"](lesson["kinds"]["mask one too high"], seed=seed, rate=rate) < 0.5 * best
