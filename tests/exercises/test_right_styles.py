"""Any right style passes with every seed: more than a hundred that nobody expects."""

import pytest

from course_lib.exercises import ALL, InputGenerator, LocalAnswer

from .right_styles import RIGHT

# The styles of an exercise take turns with the second seed, so that together they meet four.
CASES = [
    pytest.param(name, one, (0, 5 + 5 * (at % 3)), id=f"{name}-{at}")
    for name, found in RIGHT.items()
    for at, one in enumerate(found)
]


def test_there_are_at_least_a_hundred():
    assert len(CASES) >= 100


@pytest.mark.one_in(54)
@pytest.mark.parametrize(("name", "answer", "seeds"), CASES)
def test_an_unusual_style_passes_with_every_seed(name, answer, seeds):
    for seed in seeds:
        verdict = ALL[name].judge(LocalAnswer(answer), InputGenerator(seed))
        assert verdict.passed, (seed, verdict)
