"""The table of wrong steps: the right ones are the library's, every wrong one differs from them and from the others."""

from itertools import combinations

import pytest
import torch

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention
from course_lib.mistakes import CATALOGUE
from course_lib.mutations import RIGHT, WRONG_STEPS
from tests.diagnosis.bank.weights import Weights, run

B, T, M, H, G, D = 2, 5, 11, 6, 3, 7  # all different, also their products
X = torch.randn(B, T, M, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def weights_of(module):
    def part(name):
        linear = getattr(module, name)
        return (None, None) if linear is None else (linear.weight.T, linear.bias)

    (q, q_bias), (k, k_bias), (v, v_bias), (o, o_bias) = map(part, ("q_proj", "k_proj", "v_proj", "out_proj"))
    return Weights(q, k, v, o, module.num_heads, k.shape[1] // module.head_dim, q_bias, k_bias, v_bias, o_bias)


def modules(**options):
    torch.manual_seed(1)
    built = {
        "multi-head": MultiHeadAttention(M, H * D, H, **options),
        "grouped": GroupedQueryAttention(M, H * D, H, num_kv_heads=G, **options),
        "multi-query": MultiQueryAttention(M, H * D, H, **options),
    }
    for module in built.values():
        module.double().requires_grad_(False)
        module.q_proj.weight *= 4  # attention that is neither flat nor all or nothing
        module.k_proj.weight *= 4
    return built


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"causal": False}, {"out_proj": False}], ids=str)
@pytest.mark.parametrize("form", ["multi-head", "grouped", "multi-query"])
def test_the_right_steps_are_the_library(form, options):
    module = modules(**options)[form]
    output = run(RIGHT, weights_of(module), X, causal=module.causal)
    torch.testing.assert_close(output, module(X), rtol=0, atol=1e-12)


def outputs_of(form):
    weights = weights_of(modules()[form])
    outputs = {"right": run(RIGHT, weights, X)}
    for wrong in WRONG_STEPS:
        try:
            outputs[wrong.equals] = run(wrong.attention, weights, X).nan_to_num(nan=1e6)
        except RuntimeError:
            # Queries can't stand for narrower keys, and fewer, wider heads don't share keys of another width.
            assert form == "grouped" and {"roles", "split"} & wrong.steps.keys(), wrong.equals
    return outputs


def changes_nothing(name, form):
    """A fill that is low enough for scores of this size, or an order of kv heads where each serves one head."""
    return any(fill in name for fill in ("-50", "-100")) or (form == "multi-head" and "0, 1, 0, 1" in name)


@pytest.mark.parametrize("form", ["multi-head", "grouped"])
def test_every_wrong_step_differs_from_the_right_one_and_from_the_others(form):
    outputs = {name: output for name, output in outputs_of(form).items() if not changes_nothing(name, form)}
    for (one, a), (other, b) in combinations(outputs.items(), 2):
        assert a.shape != b.shape or (a - b).abs().max() > 1e-9, f"{one} and {other} are the same"


def test_wrong_steps_are_named_in_the_catalogue():
    named = {mistake for wrong in WRONG_STEPS for mistake in wrong.mistakes}
    assert len(named) > 20 and named < set(CATALOGUE)
    assert all(wrong.mistakes or wrong.hint or "hidden score" in wrong.equals for wrong in WRONG_STEPS)


def test_without_a_mask_the_wrong_masks_are_the_right_one():
    weights = weights_of(modules(causal=False)["multi-head"])
    right = run(RIGHT, weights, X, causal=False)
    masks = ("mask-", "no-causal")
    for wrong in WRONG_STEPS:
        if (
            wrong.mistakes
            and wrong.mistakes[0].startswith(masks)
            and wrong.mistakes[0] not in ("mask-off-by-one", "mask-inverted")
        ):
            assert torch.equal(run(wrong.attention, weights, X, causal=False), right), wrong.equals
