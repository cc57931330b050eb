"""Inputs that are drawn from the axes of an exercise's arguments."""

import re
from dataclasses import replace

import pytest
import torch

from course_lib.exercises import FunctionExercise, InputGenerator


def split(x, num_heads, keep=True):
    return x


def exercise(**declared):
    arguments = {"x": "batch token width"}
    about = {"title": "", "difficulty": 1, "minutes": 1, "prompt": "", "hints": ()}
    return FunctionExercise(split, **{"arguments": arguments, "inputs": {"keep": True}} | about | declared)


def shapes(drawn, seed=0):
    return [(*case.arguments[0].shape, case.arguments[1]) for case in drawn.cases(InputGenerator(seed))]


def test_sizes_differ_within_a_call_and_from_call_to_call():
    drawn = shapes(exercise(calls=5))
    assert len(drawn) == 5 and all(len({*row}) == 4 for row in drawn)
    assert all(len({*column}) == 5 for column in zip(*drawn, strict=True))


def test_an_axis_may_be_a_product_of_sizes_and_an_integer_argument_is_its_size():
    inputs = {"x": "batch token num_heads*head_dim", "keep": True}
    for *_, width, num_heads in shapes(exercise(inputs=inputs)):
        assert width % num_heads == 0 and width // num_heads >= 3


def test_a_function_gets_what_its_parameters_name():
    inputs = {
        "keep": lambda rng, x, more: x[..., 0] > rng.integer(1) + more,
        "x": lambda x: x.abs(),
        "num_heads": lambda group: 10 * group,
    }
    for x, num_heads, keep in (case.arguments for case in exercise(inputs=inputs).cases(InputGenerator(0))):
        assert (x > 0).all() and num_heads % 10 == 0 and not keep.any() and keep.shape == x.shape[:2]


def test_a_tuple_of_axes_is_a_tuple_of_tensors():
    inputs = {"x": ("batch token", "token 2*batch"), "keep": True}
    for (left, right), *_ in (case.arguments for case in exercise(inputs=inputs).cases(InputGenerator(0))):
        assert right.shape == (left.shape[1], 2 * left.shape[0])


def test_a_list_of_values_is_dealt_out():
    drawn = exercise(inputs={"keep": ["a", "b", "c"]}, also=({},) * 3).cases(InputGenerator(0))
    kept = [case.arguments[2] for case in drawn]
    assert {*kept[:3]} == {"a", "b", "c"} and kept[3:] == kept[:3]
    assert (
        len(
            {
                tuple(c.arguments[2] for c in exercise(inputs={"keep": [1, 2, 3]}).cases(InputGenerator(s)))
                for s in range(9)
            }
        )
        > 1
    )


def test_first_further_and_special_calls_say_what_differs():
    drawn = exercise(
        first={"token": "batch"},
        also=({"batch": 1, "num_heads": "token*token"},),
        special={"all are negative": {"x": lambda x: -x.abs(), "keep": False}},
    )
    first, second, _, also, special = drawn.cases(InputGenerator(0))
    assert first.arguments[0].shape[0] == first.arguments[0].shape[1] != second.arguments[0].shape[1]
    assert also.arguments[0].shape[0] == 1 and also.arguments[1] == also.arguments[0].shape[1] ** 2
    assert [case.about for case in (first, also, special)] == ["", "", "all are negative"]
    assert (special.arguments[0] < 0).all() and special.arguments[2] is False and also.arguments[2] is True


def test_a_call_is_repeated_for_each_integer_below_its_argument():
    inputs = {"num_heads": lambda group: group, "keep": True}
    drawn = exercise(inputs=inputs, calls=1, also=({"num_heads": 7},), each=("num_heads",)).cases(InputGenerator(0))
    *counted, alone = [case.arguments for case in drawn]
    assert sorted(number for _, number, _ in counted) == [*range(len(counted))] and len(counted) >= 3
    assert all(x is counted[0][0] for x, *_ in counted) and alone[1] == 7


def test_calls_at_the_edges_and_those_of_another_generator_are_drawn_the_same_way():
    (edge,) = exercise(draw_edges=({"batch": 2, "token": 20},)).edge_inputs(InputGenerator(0))
    assert edge.arguments[0].shape[:2] == (2, 20)
    rng = InputGenerator(0)
    drawn = exercise()
    before = shapes(drawn)
    drawn.cases(rng)
    assert [(*case.arguments[0].shape, case.arguments[1]) for case in drawn.cases(rng.with_same_sizes())] == before
    assert all(len({*case.arguments[0].shape}) == 1 for case in drawn.cases(rng.with_equal_sizes()))


def test_elements_have_the_standard_deviation_that_is_asked_for():
    wide = exercise(std=100.0, also=({"token": 300},)).cases(InputGenerator(0))[-1].arguments[0]
    assert 80 < float(wide.std()) < 120 and wide.dtype == torch.float64


def test_a_name_that_is_no_input_and_no_size_is_refused():
    drawn = replace(exercise(), also=({"tokens": 1},))
    said = "split draws nothing named 'tokens'; it draws batch, token, width, num_heads, keep, x."
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        drawn.cases(InputGenerator(0))
