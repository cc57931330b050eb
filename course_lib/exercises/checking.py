"""`check(name, answer)` judges one answer to one exercise."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

import torch

from .attempts import remember
from .catalogue import ALL, BLANKS, EXERCISES
from .exercise import Exercise
from .follow_up import follow_up
from .illustrated_verdict import illustrated
from .individual import exercise_of_sheet
from .input_generator import InputGenerator
from .local_answer import LocalAnswer
from .module_exercise import ModuleExercise
from .own_code import keep
from .progress_store import count_attempt, save
from .verdict import NEEDS_REVIEW, NOT_WRITTEN, PASSED, SIGNS, Verdict
from .written_exercise import written_exercises

SEED = 0  # of the inputs; the grader draws others


def check(name: str, answer: Any, *, sheet: int | None = None) -> Verdict:
    """Judge an answer, and count it as an attempt if it is new.

    If the same mistake comes back, the verdict says more each time. Progress is kept in the learner's workspace.

    Args:
        name: name of the exercise, such as "split_heads".
        answer: the function or class that the learner wrote.
        sheet: the number of a sheet that one student has alone, as its cells give it.

    Returns:
        Verdict, which a notebook shows as text: passed, or what is wrong and how to see it. It is true if the answer
        passes.

    Raises:
        ValueError: there is no exercise of that name; the message lists similar names, or all of them.

    Example:
        >>> check("split_heads", lambda x, num_heads: x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)).passed
        True
    """
    exercise = exercise_named(name) if sheet is None else own_exercise(name, sheet)
    verdict = _for_learner(exercise.judge(LocalAnswer(answer), InputGenerator(SEED)))
    if name in BLANKS and verdict.lesson == exercise.lesson:
        verdict = replace(verdict, lesson=None)  # a blank stands in the lesson to which the verdict would lead
    attempt = remember(answer, verdict)
    if name in EXERCISES and not attempt.unchanged and attempt.verdict.state != NOT_WRITTEN:
        count_attempt(name, attempt.verdict.passed)
    picture = exercise.picture(LocalAnswer(answer), InputGenerator(SEED))
    return illustrated(follow_up(exercise, attempt, warning=save()), picture)


def filled(name: str, answer: Any) -> Any:
    """Return a learner's answer if it passes, else the course's own, so that a lesson goes on either way.

    A right answer is also kept for later lessons (`from_earlier`). The verdict is printed: one line as long as nothing
    is written, and everything that `check` says of a wrong answer.

    Args:
        name: name of the exercise, which is that of the function or class.
        answer: the function or class that the learner wrote.

    Raises:
        ValueError: there is no exercise of that name.

    Example:
        >>> filled("causal_mask", ...).__name__
        … causal_mask: not written yet. The lesson goes on with the course's version.
        'causal_mask'
    """
    verdict = check(name, answer)
    if verdict.passed and (other := _other_state(ALL[name], answer)):
        print(f"{SIGNS[NOT_WRITTEN]} {name}: right, but {other}. The lesson goes on with the course's version.")
        return ALL[name].solution
    if verdict.passed:
        kept = keep(name, answer)
        later = f", kept for later lessons in {kept}" if kept else ""
        print(f"{SIGNS[PASSED]} {name}: passed. The lesson goes on with your code{later}.")
        return answer
    said = f"{SIGNS[NOT_WRITTEN]} {name}: {NOT_WRITTEN}. " if verdict.state == NOT_WRITTEN else f"{verdict!r}\n  "
    print(f"{said}The lesson goes on with the course's version.")
    return ALL[name].solution


def _other_state(exercise: Exercise, answer: Any) -> str:
    """Why a lesson can't load weights into a class that is right otherwise; "" if it can."""
    if not isinstance(exercise, ModuleExercise) or exercise.any_layout:
        return ""
    *arguments, _ = exercise.example(InputGenerator(SEED))
    with torch.random.fork_rng(devices=[]):  # a lesson's random numbers are the same whoever wrote the class
        own, wanted = (
            {name: tuple(tensor.shape) for name, tensor in module(*arguments).state_dict().items()}
            for module in (answer, exercise.solution)
        )
    if own == wanted:
        return ""
    return f"the lesson loads weights by name, and yours has {', '.join(own)} in place of {', '.join(wanted)}"


def exercise_named(name: str) -> Exercise:
    """The exercise of that name; a ValueError lists similar names, or all of them, if there is none."""
    exercise = ALL.get(name) or written_exercises().get(name)
    if exercise is None:
        near = difflib.get_close_matches(str(name), ALL, n=3, cutoff=0.4)
        rest = f"did you mean {', '.join(near)}?" if near else f"the exercises are {', '.join(EXERCISES)}."
        raise ValueError(f"there is no exercise {name!r}; {rest}")
    return exercise


def own_exercise(name: str, sheet: int) -> Exercise:
    """The exercise of that name as it stands on one student's sheet; a ValueError says what can't be."""
    if isinstance(sheet, bool) or not isinstance(sheet, int) or sheet < 0:
        raise ValueError(f"sheet is {sheet!r}: give the number in the sheet's cells, an integer from 0.")
    try:
        return exercise_of_sheet(name, sheet)
    except KeyError:
        return exercise_named(name)  # says which names there are


def _for_learner(verdict: Verdict) -> Verdict:
    """Say of what can neither be passed nor refused that in a course it goes to a teacher."""
    if verdict.state != NEEDS_REVIEW:
        return verdict
    note = "The check can neither pass nor refuse it; in grading, a teacher looks at such an answer."
    return replace(verdict, evidence=(*verdict.evidence, note))
