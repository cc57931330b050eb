"""The least that attention must move and compute is counted right, also by PyTorch's own counter where both apply."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import KVCache, MultiHeadAttention, MultiQueryAttention, attend
from course_lib.timing import Case
from tools.performance.costs import attention_cost, module_cost
from tools.performance.experiment import prepare, with_fields


def counted(run):
    """What PyTorch counts. It knows no fused kernel of the CPU, and counts the pairs that a mask hides."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


def test_the_cost_of_attention_by_counting():
    queries, keys, values = torch.ones(2, 6, 3, 5), torch.ones(2, 1, 3, 5), torch.ones(2, 1, 3, 7)
    cost = attention_cost(queries, keys, values)
    assert cost == {"bytes": 4 * (180 + 30 + 42 + 252), "flops": 2 * 2 * 6 * 9 * 12}
    assert attention_cost(queries, keys, values, causal=True)["flops"] == 2 * 2 * 6 * 6 * 12  # 6 pairs of 9 are seen


def test_the_cost_of_a_module_by_counting():
    module = prepare(MultiQueryAttention(11, 13, 3, d_qk=6, d_v=15), "cpu", "float32")
    weights = 11 * 6 + 11 * 2 + 11 * 5 + 15 * 13
    x = torch.ones(2, 4, 11)
    assert module_cost(module, x) == {
        "bytes": 4 * (weights + 2 * 4 * 11 + 2 * 4 * 13),
        "flops": 2 * 2 * (4 * weights + 3 * 10 * 7),
    }
    step = module_cost(module, x[:, :1], cached=9)
    assert step["bytes"] == 4 * (weights + 2 * 11 + 2 * 13 + 2 * 9 * 7)
    assert step["flops"] == 2 * 2 * (weights + 3 * 10 * 7)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
def test_pytorch_counts_the_same_where_nothing_is_hidden(num_kv_heads):
    queries = torch.ones(2, 6, 3, 8)
    keys, values = torch.ones(2, num_kv_heads, 5, 8), torch.ones(2, num_kv_heads, 5, 4)
    cost = attention_cost(queries, keys, values)
    assert cost["flops"] == counted(lambda: attend(queries, keys, values))

    module, cache = MultiQueryAttention(11, 13, 3, d_qk=6, d_v=15), KVCache(2, 1, 10, 2, value_dim=5)
    with torch.no_grad():
        module(torch.ones(2, 9, 11), cache=cache)
    step = torch.ones(2, 1, 11)
    assert module_cost(module, step, cached=9)["flops"] == counted(lambda: module(step, cache=cache))


def test_weights_do_not_depend_on_the_callers_seed():
    first = prepare(MultiHeadAttention(6, 6, 2), "cpu", "float32")
    second = prepare(MultiHeadAttention(6, 6, 2), "cpu", "float32")
    assert torch.equal(first.q_proj.weight, second.q_proj.weight) and not first.training


def test_fields_are_set_in_all_cases():
    cases = with_fields([Case("a", lambda: None), Case("b", lambda: None)], bytes=3, flops=4)
    assert [(case.name, case.bytes, case.flops) for case in cases] == [("a", 3, 4), ("b", 3, 4)]
