"""Classes are judged by numbers alone: a doctor that runs beside a student's code could be fooled by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from course_lib.exercises.differences import difference, equal
from course_lib.exercises.modules import ModuleJudge
from course_lib.exercises.running import Stopped, same
from course_lib.exercises.verdict import LOOK, Verdict, not_passed, not_written, passed

from .drawn.constructions import constructions
from .drawn.draw import Draw
from .drawn.readings import Readings

AXES = "batch token width"
LARGEST = 1_000_000  # numbers in all parameters; the largest right answer has less than ten thousand


class RemoteModule(Protocol):
    """A student's module, in 64 bits and in evaluation, somewhere else.

    Attributes:
        parameters: name -> shape, in order of registration; a parameter that is shared is named once.
    """

    parameters: Mapping[str, tuple[int, ...]]

    def run(self, weights: dict[str, Tensor], x: Tensor) -> tuple[Any, Tensor]:
        """Load the weights, run it on x; give back its output and x as it is afterwards.

        Raises:
            Stopped: the student's code raised.
        """


class RemoteClass(Protocol):
    """A student's class, somewhere else."""

    def build(self, sizes: tuple[int, ...], seed: int) -> RemoteModule:
        """Build it, with PyTorch's random stream seeded.

        Raises:
            Stopped: the student's code raised, or what it made is no `nn.Module`.
        """


def judge_class(judge: ModuleJudge, remote: RemoteClass, draw: Draw) -> Verdict:
    """Judge a class by what it computes, with sizes, weights and inputs that were drawn after it was loaded.

    It is built twice and run twice each time. Where its matrices have the reference's names and shapes, the reference
    gets the same weights. Where they don't, they are read in every layout that is known, and one reading must hold in
    all four runs. Biases are drawn as zero: the exercises ask for none, and what they add is not looked at.

    Args:
        judge: of the exercise: the reference and the public sizes.
        remote: the student's class.
        draw: where everything comes from; secret.

    Returns:
        Passed or not, without the name of a mistake; LOOK where the parameters are laid out in no known way.
    """
    try:
        return _judged(judge, remote, draw)
    except Stopped as stopped:
        if stopped.unwritten:
            return not_written()
        return not_passed(stopped.says, where=stopped.where, evidence=stopped.remark)


def _judged(judge: ModuleJudge, remote: RemoteClass, draw: Draw) -> Verdict:
    holding: list[int] | None = None  # the readings that held in all runs so far
    readable, right = True, 0
    for sizes, inputs in constructions(judge.sizes, draw):
        module = remote.build(sizes, draw.below(2**31))
        shapes = dict(module.parameters)
        if not _may_be_drawn(shapes):
            return _look(shapes)
        readings = Readings(judge, sizes, shapes)
        for batch, num_tokens in inputs:
            weights, x = readings.weights(draw), draw.numbers(batch, num_tokens, sizes[0])
            result, after = module.run(weights, x.clone())
            if not isinstance(after, Tensor) or after.dtype != x.dtype or not same(x, after):
                return not_passed("Your module changes its input in place.", "input-modified")
            if result is None:
                return not_passed("Your module gives back None: is a `return` missing?", "returns-none")
            expected = readings.outputs(weights, x, holding)
            likeliest = next(iter(expected.values()), x.new_zeros(batch, num_tokens, sizes[1]))
            found = difference(result, likeliest, AXES)
            if not isinstance(result, Tensor) or result.shape != likeliest.shape:
                return not_passed(*found, evidence=_since(right))
            if not expected:
                readable = False
                continue
            holding = [number for number, one in expected.items() if equal(result, one)]
            if not holding:
                # What is drawn as zero may have been a factor.
                return _look(shapes) if readings.odd else not_passed(*found, evidence=_since(right))
            right += 1
    return passed(f"Equal to the reference on {right} inputs of different sizes.") if readable else _look(shapes)


def _may_be_drawn(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the grader dares to make tensors of shapes that a student's code names."""
    sane = all(len(shape) <= 8 and all(0 < size <= LARGEST for size in shape) for shape in shapes.values())
    return sane and sum(map(math.prod, shapes.values())) <= LARGEST


def _since(right: int) -> tuple[str, ...]:
    words = f"Inputs right so far: {right}. The next one has other sizes: is a size written into it?"
    return (words,) if right else ()


def _look(shapes: Mapping[str, tuple[int, ...]]) -> Verdict:
    listed = ", ".join(f"{name[:60]} {tuple(shape)}" for name, shape in list(shapes.items())[:12])
    return Verdict(
        LOOK,
        "Its parameters are laid out in a way that can't be compared with the reference's.",
        evidence=(f"Its parameters: {listed or 'none'}{', ...' if len(shapes) > 12 else ''}.",),
    )
