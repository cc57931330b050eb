"""A frozen test: what `check` says of the wrong answers that the exercises listed themselves when they were frozen."""

from importlib import import_module

import pytest

from course_lib.exercises import check

ALL = import_module("tests.frozen_exercises").ALL  # there only beside the other frozen cases

LISTED = [
    pytest.param(name, wrong.code, id=f"{name}-{wrong.equals}")
    for name, exercise in ALL.items()
    for wrong in getattr(exercise, "known", ())
]


@pytest.mark.parametrize(("name", "code"), LISTED)
def test_listed(name, code, kernel):
    check(name, code)
