"""`sneak(name, answer, proof)` says whether a wrong answer gets past a lesson's proof."""

from collections.abc import Callable
from typing import Any

from .answering import is_empty
from .checking import SEED, exercise_named
from .input_generator import InputGenerator
from .local_answer import LocalAnswer
from .verdict import NOT_WRITTEN, PASSED, SIGNS

CAUGHT = SIGNS[NOT_WRITTEN]


def sneak(name: str, answer: Any, proof: Callable[[Any], object]) -> None:
    """Print whether a mistake that the learner planted gets past a proof.

    Args:
        name: name of the exercise that the answer would be an answer to, such as "MyHead".
        answer: a class or function with a mistake in it; `...` as long as there is none.
        proof: called with the answer; raises an error if it notices that the answer is wrong.

    Raises:
        ValueError: there is no exercise of that name.
    """
    exercise = exercise_named(name)
    if is_empty(answer):
        print(f"{CAUGHT} Nothing to sneak yet: put a class or function with a mistake in place of the dots.")
        return
    verdict = exercise.judge(LocalAnswer(answer), InputGenerator(SEED))
    if verdict.state == NOT_WRITTEN:
        print(f"{CAUGHT} Nothing to sneak yet: yours isn't written to its end.")
    elif verdict.passed:
        print(f"{CAUGHT} The check finds nothing wrong with yours: plant a mistake that shows at usual sizes.")
    elif error := _error_of(proof, answer):
        print(f"{CAUGHT} Caught: the proof stops yours with {type(error).__name__}. Try another mistake.")
    else:
        print(f"{SIGNS[PASSED]} You got past the proof. The check sees more: {verdict.message}")


def _error_of(proof: Callable[[Any], object], answer: Any) -> Exception | None:
    try:
        proof(answer)
    except Exception as error:  # a failed comparison, or whatever a learner's own code does
        return error
    return None
