"""Each operator of DEFault++ is wrong in its output or listed with a reason, and the right code is right."""

import copy

import pytest
import torch
import torch.nn.functional as F

from benchmarks.default_operators.operators import EDITS, OPERATORS
from benchmarks.default_operators.right import WIDTH, Cached, Decoder, Encoder
from course_lib.mistakes import CATALOGUE

MEASURED = [operator for operator in OPERATORS if not operator.why]
WEIGHTS = {"QZQ", "QZK", "QZV"}  # wrong by what their weights are


def x_of(tokens=5):
    return torch.randn(2, tokens, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def with_weights_of(right, build):
    module = build().double().eval()
    module.load_state_dict(right.state_dict())
    return module


@pytest.fixture
def right():
    torch.manual_seed(0)
    return Decoder().double().eval()


def test_the_table_has_each_operator_once_and_mistakes_of_the_catalogue_or_words():
    assert len(OPERATORS) == len({operator.id for operator in OPERATORS}) == 29
    for operator in OPERATORS:
        assert (operator.id not in EDITS) == bool(operator.why) == (not operator.mistake)
        assert operator.accepted <= set(CATALOGUE)


def test_the_decoder_is_attention(right):
    x = x_of()
    queries, keys, values = right.project(x)
    places = torch.arange(5)
    queries, keys = right.rotate(queries, places), right.rotate(keys, places)
    heads = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    torch.testing.assert_close(right(x), right.o_proj(heads.transpose(1, 2).reshape(2, 5, WIDTH)))


def test_the_cached_decoder_computes_the_same_twice(right):
    cached = with_weights_of(right, Cached)
    for x in (x_of(), x_of(7)):
        torch.testing.assert_close(cached(x), right(x))


@pytest.mark.parametrize("operator", MEASURED, ids=lambda operator: operator.id)
def test_each_operator_changes_the_output(operator, right):
    module = operator.build().double().eval() if operator.id in WEIGHTS else with_weights_of(right, operator.build)
    expected = right if operator.causal else with_weights_of(right, Encoder)
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = [module(x_of()), module(x_of())]  # what is kept from the first call shows in the second
        differences = [float((output - expected(x_of())).abs().max()) for output in outputs]
    assert operator.id in {"SPD"} or max(differences) > 1e-6
    assert operator.id != "SPD" or not torch.equal(module.train()(x_of()), module(x_of()))


def test_a_shift_of_all_positions_changes_nothing(right):
    shifted = copy.deepcopy(right)
    shifted.positions = lambda indices: indices + 4
    torch.testing.assert_close(shifted(x_of()), right(x_of()))
