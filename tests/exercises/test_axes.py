"""Axes of a shape have names where a size belongs to one of them, or to two."""

import torch

from course_lib.exercises.axes import axis_names, named_shape, unique_names


def test_a_size_of_1_or_of_three_axes_has_no_name():
    pairs = {(1, "batch"), (4, "query"), (4, "key"), (5, "head"), (5, "token"), (5, "width")}
    assert unique_names(pairs) == {4: "key or query"}


def test_a_shape_is_written_with_names_if_all_are_known():
    axes = axis_names({"x": "batch token"}, {"x": torch.zeros(1, 4), "head_dim": 7, "causal": True})
    assert named_shape((4, 7), axes) == "(4, 7) = (token, head_dim)"
    assert named_shape((4, 1), axes) == "(4, 1)"
