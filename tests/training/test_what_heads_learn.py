"""What lesson 10 says of causes holds for models of other seeds and another learning rate, too."""

from functools import cache
from itertools import product

import pytest
import torch

pytestmark = pytest.mark.slow

ASSIGNED = ("alphabet", "num_tokens", "device", "test_letters", "test_known", "words", "both_ways")
RUNS = [pytest.param(seed, rate, id=f"seed {seed}, rate {rate}") for seed, rate in product((0, 1, 2), (5e-3, 3e-3))]


@pytest.fixture(scope="module")
def lesson(lesson_code):
    return lesson_code("10_what_heads_learn", *ASSIGNED)


@pytest.fixture(scope="module")
def trained(lesson):
    """A function that trains a model of the lesson, once for each seed, rate and kind."""

    @cache
    def trained(seed, rate, later=0, places=True):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        model = lesson.TinyModel(lesson.MultiHeadAttention).to(lesson.device)
        if not places:
            model.places.requires_grad_(False).weight.zero_()
        lesson.train(model, fastest=rate, later=later)
        torch.set_num_threads(threads)
        return model

    return trained


@pytest.mark.parametrize(("seed", "rate"), RUNS)
def test_the_keys_alone_carry_the_message(lesson, trained, seed, rate):
    """In some of these runs both heads of layer 0 look back, so the messages of both are exchanged."""
    model = trained(seed, rate)
    parts = {
        part: lesson.with_exchange_in(model, [0, 1], getattr(model.layers[1], part))
        for part in ("q_proj", "k_proj", "v_proj")
    }
    assert parts["k_proj"][1] > 0.9 and parts["k_proj"][0] < 0.1, parts
    assert min(parts["q_proj"][0], parts["v_proj"][0]) > 0.9, parts


@pytest.mark.parametrize(("seed", "rate"), RUNS)
def test_the_first_column_is_there_because_the_loss_rewards_it(lesson, trained, seed, rate):
    model, indifferent = trained(seed, rate), trained(seed, rate, later=1)
    assert lesson.accuracy(model) > 0.98
    assert lesson.first_column(model).min() > 0.7 and lesson.says_first(model) > 0.9
    assert lesson.first_column(indifferent).max() < 0.4 and lesson.says_first(indifferent) < 0.5


@pytest.mark.parametrize(("seed", "rate"), RUNS)
def test_without_places_the_order_is_read_from_the_bags(lesson, trained, seed, rate):
    blind = trained(seed, rate, places=False)
    assert lesson.accuracy(blind) > 0.75 and lesson.habits(blind)[0].max() < 0.45
    after, before = lesson.with_exchange(blind, [0, 1])
    assert before > 0.8 and after < 0.1, (after, before)
