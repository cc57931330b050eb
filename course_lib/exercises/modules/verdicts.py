"""Verdicts on modules whose result is spoiled, of another kind, or can't be read."""

from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.answer import Answer, Ran
from course_lib.exercises.differences import Difference, Expected, Kind
from course_lib.exercises.learner_error import LearnerError
from course_lib.exercises.relations import relation
from course_lib.exercises.verdict import NEEDS_REVIEW, Verdict, not_passed

from .drawn_run import DrawnRun
from .layouts import CandidateLayouts
from .naming import ask_doctor
from .registration import UNREADABLE, Problem, listed, made_in_forward
from .task import ModuleTask


def of_problem(problem: Problem, where: str | None = None) -> Verdict:
    """Return the verdict on a module with a problem of its parameters."""
    return not_passed(problem.sentence, problem.mistake, evidence=problem.evidence, where=where, hint=problem.question)


def find_spoiled(ran: Ran, again: Any, training: bool) -> Verdict | None:
    """Judge what a run did besides computing a result: None if nothing.

    Args:
        ran: The run.
        again: The result of the same call in evaluation, or the same result.
        training: Whether the run was in training mode, in which results may differ.
    """
    if ran.made:
        return of_problem(made_in_forward(ran.made))
    if ran.changed:
        return not_passed("Your module changes its input `x` in place.", "input-modified")
    if ran.result is None:
        hint = "What does the last line of `forward` give back?"
        return not_passed("Your module gives back None: is a `return` missing?", "returns-none", hint=hint)
    if training or _repeats(ran.result, again):
        return None
    hint = "What does `forward` keep in `self`, or draw at random?"
    return not_passed("The same call gives another result the second time.", hint=hint)


def find_transposed(layouts: CandidateLayouts) -> str | None:
    """Name the first parameter that has the solution's name, and its shape with the axes exchanged."""
    for name, shape in layouts.expected.items():
        own = layouts.shapes.get(name)
        if own == shape[::-1] != shape:
            return f"`{name}` is {own}; it should be {shape}."
    return None


def of_transposed(transposed: str, error: LearnerError, built: str) -> Verdict:
    """Return the verdict on code that stopped because a matrix has its sizes exchanged."""
    evidence = (error.sentence, f"The module was built as {built}.")
    hint = "In which order does `nn.Linear` take its two sizes, and in which order does it keep them?"
    return not_passed(transposed, evidence=evidence, where=error.where, hint=hint)


def of_no_bias(name: str, shape: tuple[int, ...]) -> Verdict:
    """Return the verdict on a parameter that is no matrix, and isn't added as a bias is."""
    sentence = f"With `{name[:60]}` {tuple(shape)} drawn at random, your result is not attention with a bias there."
    evidence = ("A bias is added once, to the queries, the keys, the values or the output.",)
    return not_passed(sentence, evidence=evidence, hint="How often, and to what, is it added?")


def of_kept(wrong: Verdict) -> Verdict:
    """Return the verdict on a run that is right in a module built anew, so that an earlier one left something."""
    seen = "A module built anew, which ran nothing before, gives the right result for this input."
    hint = "What does the first call leave in `self`, such as a mask, that later calls take?"
    return not_passed(wrong.message, evidence=(seen, *wrong.evidence), where=wrong.where, hint=hint)


def of_cache(ran: Ran, layouts: CandidateLayouts, run: DrawnRun) -> Verdict | None:
    """Judge what the cache holds after a run whose output is right; None if that is keys and values, as asked."""
    if ran.kept is None or not ran.kept.numel():  # a cache of a kind that can't be read
        return None
    wanted, given = sum(layouts.sizes.projected[1:]), ran.kept.numel() / (run.sizes.batch * run.sizes.num_tokens)
    if given != wanted:
        sentence = (
            f"The output is right, but the cache keeps {given:g} numbers per token; keys and values are {wanted}."
        )
        return not_passed(sentence, hint="What do you give back as the cache? Print the shape of each part.")
    if not layouts.rotary or run.sizes.num_tokens < 3:  # the first token isn't turned, and the last may be zero
        return None
    for layout in layouts.projections(run.weights, run.x):
        unrotated = torch.cat([role.flatten() for role in layout.roles[1:]]).sort().values
        if torch.allclose(ran.kept, unrotated, 1e-6, 1e-9):
            sentence = "The output is right, but your cache keeps the keys as they are before the rotation."
            seen = ("All of them are rotated again in each call; a key that is rotated first is rotated once.",)
            return not_passed(
                sentence, evidence=seen, hint="Which comes first in `forward`: the rotation or the cache?"
            )
    return None


def wrong_in_training(found: Difference, about: tuple[str, ...]) -> Verdict:
    """Return the verdict on a result that is right in evaluation only."""
    sentence = f"In evaluation it is right; in training mode it is not. {found.sentence}"
    hint = "Which of your lines does something else in training mode?"
    return not_passed(sentence, evidence=about, hint=hint)


def of_other_kind(result: Any, found: Difference | None, expected: Expected, about: tuple[str, ...]) -> Verdict:
    """Return the verdict on a result that is no tensor of the right shape."""
    sentence = found.sentence if found else "Your result is not what it should be."
    if found and found.kind is Kind.DTYPE:
        return not_passed(sentence, evidence=about, hint="Which line decides the dtype of your result?")
    related = relation(result, expected)
    seen, hint = related or ("", "What does the last line of `forward` give back, and in which shape?")
    evidence = (*filter(None, [seen]), *about)
    return not_passed(sentence, evidence=evidence, hint=hint)


def unreadable(exercise: ModuleTask, answer: Answer, layouts: CandidateLayouts | None) -> Verdict:
    """Leave an answer to the teacher whose parameters have the right sizes and no known meaning."""
    findings = ask_doctor(exercise, answer, layouts.sizes) if layouts else []
    seen = [f"Seen: {one['evidence']}." for one in findings[:2]] or ["Nothing wrong was found in what it computes."]
    shapes = listed(layouts.shapes) if layouts else ""
    probed = "The output has the right shape, and a gradient reaches every matrix and the input."
    return Verdict(NEEDS_REVIEW, UNREADABLE, evidence=(shapes, probed, *seen))


def _repeats(result: Any, again: Any) -> bool:
    if not isinstance(result, Tensor) or not isinstance(again, Tensor):
        return True
    return result.shape == again.shape and torch.allclose(result, again, 1e-6, 1e-6, equal_nan=True)
