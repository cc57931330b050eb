"""Solutions whose right answer follows from a property: it is computed here in another way."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import apply_rotary
from course_lib.attention import rotary_table as library_table
from course_lib.distributed import assign_heads
from course_lib.exercises import ALL, InputGenerator
from course_lib.exercises.module_exercise import ModuleExercise

SOLUTIONS = {name: exercise.solution for name, exercise in ALL.items()}


def draw(*shape):
    return InputGenerator(sum(shape)).normal(*shape)


def rotate_neighbours(x, cos, sin):
    """Rotate elements 0 and 1, 2 and 3, as Meta's own code does: by a product of complex numbers."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


def test_permuted_weights_give_the_scores_of_neighbours():
    num_heads, head_dim, d_in = 3, 8, 5
    x, w_q, w_k = draw(6, d_in), draw(num_heads * head_dim, d_in), draw(num_heads * head_dim, d_in)
    cos, sin = SOLUTIONS["rotary_table"](6, head_dim, 100.0)

    def scores(q_weight, k_weight, rotate):
        heads = ((x @ weight.T).unflatten(1, (num_heads, head_dim)).transpose(0, 1) for weight in (q_weight, k_weight))
        queries, keys = (rotate(one, cos, sin) for one in heads)
        return queries @ keys.mT

    permuted = (SOLUTIONS["permute_meta_weights"](weight, num_heads) for weight in (w_q, w_k))
    as_halves = scores(*permuted, SOLUTIONS["rotate"])
    torch.testing.assert_close(as_halves, scores(w_q, w_k, rotate_neighbours))
    assert not torch.allclose(as_halves, scores(w_q, w_k, SOLUTIONS["rotate"]))


def test_the_rotation_is_the_librarys():
    x = draw(2, 3, 5, 8)
    table = SOLUTIONS["rotary_table"](5, 8, 10000.0)
    torch.testing.assert_close(table, library_table(5, 8), check_dtype=False)
    torch.testing.assert_close(SOLUTIONS["rotate"](x, *table), apply_rotary(x, *table))


def test_scores_depend_on_the_distance_alone():
    query, key = draw(8), draw(8) + 1.0
    cos, sin = SOLUTIONS["rotary_table"](12, 8, 100.0)
    by_distance = SOLUTIONS["scores_by_distance"](query, key, 5, 100.0)
    for distance in range(5):
        for key_at in (0, 3, 7):
            at = key_at + distance
            rotated = SOLUTIONS["rotate"](query, cos[at], sin[at]) @ SOLUTIONS["rotate"](key, cos[key_at], sin[key_at])
            torch.testing.assert_close(rotated, by_distance[distance])


@pytest.mark.parametrize("block", [1, 3, 7, 9])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_in_blocks_is_attention(block, causal):
    queries, keys, values = draw(7, 4), draw(7, 4) * 2, draw(7, 5)
    whole = F.scaled_dot_product_attention(queries, keys, values, is_causal=causal)
    context, computed = SOLUTIONS["blocked_attention"](queries, keys, values, block, causal)
    torch.testing.assert_close(context, whole)
    table = SOLUTIONS["causal_blocks"](7, block, block)
    assert computed == (int(table.sum()) if causal else table.numel())


def test_merged_halves_are_attention_over_all_keys():
    scores, values = draw(4, 9), draw(9, 3)
    halves = zip(scores.split(5, 1), values.split(5), strict=True)
    parts = [part for s, v in halves for part in (s.softmax(-1) @ v, s.logsumexp(-1))]
    merged, lse = SOLUTIONS["merge_partial"](*parts)
    torch.testing.assert_close(merged, scores.softmax(-1) @ values)
    torch.testing.assert_close(lse, scores.logsumexp(-1))


@pytest.mark.parametrize("num_devices", [1, 2, 4])
def test_the_parts_of_all_devices_add_up(num_devices):
    x, w_o = draw(2, 5, 6), draw(10, 12)
    weights = [draw(12, 6) + shift for shift in (0.0, 0.5, 1.0)]
    outputs = []
    for device in range(num_devices):
        rows = (SOLUTIONS["cut_rows"](weight, device, num_devices) for weight in weights)
        outputs.append(SOLUTIONS["partial_output"](x, *rows, SOLUTIONS["cut_columns"](w_o, device, num_devices), 3))
    torch.testing.assert_close(sum(outputs), SOLUTIONS["partial_output"](x, *weights, w_o, 3))


@pytest.mark.parametrize(("num_devices", "num_kv_heads"), [(4, 2), (2, 4), (3, 3), (4, 1), (1, 4)])
def test_kv_heads_are_dealt_out_as_the_library_does(num_devices, num_kv_heads):
    for device in range(num_devices):
        first, count = SOLUTIONS["kv_heads_of_device"](device, num_devices, num_kv_heads)
        heads = assign_heads(device, num_devices, num_devices * num_kv_heads, num_kv_heads).kv_heads
        assert range(first, first + count) == heads


MODULES = [exercise for exercise in ALL.values() if isinstance(exercise, ModuleExercise)]
SIZES = {"d_in": 64, "d_out": 128, "num_heads": 2, "num_kv_heads": 1, "head_dim": 64, "base": 10000.0}
SIZES |= {"positions": range(512), "max_len": 512}


@pytest.mark.parametrize("exercise", MODULES, ids=lambda exercise: exercise.name)
def test_a_solution_runs_in_half_precision_where_the_unscaled_scores_overflow(exercise):
    torch.manual_seed(0)
    module = exercise.solution(*(SIZES[name] for name in exercise.takes)).half()
    x = 150 * torch.randn(2, 5, 64)
    output = module(x.half())
    output = output[0] if exercise.in_steps else output
    assert output.dtype == torch.float16 and output.isfinite().all()
