"""The recipes: the right one equals the library, every other one differs from it and from each other."""

from itertools import combinations

import pytest
import torch

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention
from course_lib.diagnosis import CATALOGUE
from tests.diagnosis.bank.recipes import RIGHT, WRONG, Weights, run

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
def test_the_right_recipe_is_the_library(form, options):
    module = modules(**options)[form]
    output = run(RIGHT, weights_of(module), X, causal=module.causal)
    torch.testing.assert_close(output, module(X), rtol=0, atol=1e-12)


def outputs_of(form, names):
    weights = weights_of(modules(bias=True)[form])
    outputs = {"right": run(RIGHT, weights, X)}
    for name in names:
        for number, recipe in enumerate(WRONG[name]):
            outputs[f"{name} {number}"] = run(recipe, weights, X).nan_to_num(nan=1e6)
    return outputs


SHARING = {"kv-heads-tiled", "kv-head-zero-only"}
EQUAL_WIDTHS = {"projection-reused"}  # queries can't stand for keys where these are narrower


@pytest.mark.parametrize(
    ("form", "names"), [("multi-head", WRONG.keys() - SHARING), ("grouped", WRONG.keys() - EQUAL_WIDTHS)]
)
def test_every_wrong_recipe_differs_from_the_right_one_and_from_the_others(form, names):
    outputs = outputs_of(form, sorted(names))
    assert len({output.shape for output in outputs.values()}) == 1
    for (one, a), (other, b) in combinations(outputs.items(), 2):
        assert (a - b).abs().max() > 1e-3, f"{one} and {other} are the same"


def test_wrong_recipes_are_named_in_the_catalogue():
    assert set(WRONG) < set(CATALOGUE)


def test_without_a_mask_the_wrong_masks_are_the_right_one():
    weights = weights_of(modules(causal=False)["multi-head"])
    right = run(RIGHT, weights, X, causal=False)
    same = {
        name
        for name, recipes in WRONG.items()
        if all(torch.equal(run(recipe, weights, X, causal=False), right) for recipe in recipes)
    }
    masks = {name for name in WRONG if name.startswith(("mask-", "no-causal"))}
    assert same == masks | {"kv-heads-tiled"}  # nothing is shared, so nothing can be laid out wrongly
