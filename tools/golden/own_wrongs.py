"""A frozen test: what `check` says of the wrong answers that the exercises listed themselves when they were frozen."""

import pytest
from tests.frozen_exercises import ALL

from course_lib.exercises import check

LISTED = [
    pytest.param(name, wrong.code, id=f"{name}-{wrong.equals}")
    for name, exercise in ALL.items()
    for wrong in getattr(exercise, "wrong", ())
]


@pytest.mark.parametrize(("name", "code"), LISTED)
def test_listed(name, code, kernel):
    check(name, code)
