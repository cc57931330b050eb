"""Name the mistake behind a module's wrong numbers: by the numbers if they are known, else by the doctor."""

import contextlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from course_lib.exercises.answer import Answer, Ran
from course_lib.exercises.answering import build_module, run_module
from course_lib.exercises.differences import Difference, Expected, equal
from course_lib.exercises.exercise import Wrong
from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.learner_error import LearnerError
from course_lib.exercises.relations import relation
from course_lib.exercises.verdict import Verdict, not_passed
from course_lib.mistakes import CATALOGUE, Step, Symptom
from course_lib.mutations import RIGHT, WrongSteps, find_mistake

from .drawn_run import DrawnRun
from .gradients import is_zero
from .layouts import CandidateLayouts
from .registration import listed
from .row_orders import BIAS
from .sizes import Sizes
from .task import ModuleTask

FIRST_STEP = "Which step is the first that differs? Do it by hand."
ONE_PROJECTION = {"scores-from-values", "projection-reused"}
NO_DIGIT = 5e-5  # of a sum of weights
TILES = re.compile(r"repeat\(|tile|expand|cat\(")
# What the doctor finds in other runs than this one: on other devices, in other dtypes, in training, with a cache.
OF_OTHER_RUNS = {Symptom.PIECES, Symptom.PATHS, Symptom.ELSEWHERE}
OF_SEVERAL_HEADS = {Step.HEADS, Step.MERGE}


@dataclass(frozen=True)
class WrongRun:
    """A run whose output is wrong.

    Attributes:
        exercise, answer: What was asked for, and what answered.
        layouts: What the parameters may mean.
        run: What the module ran with.
        ran: What it gave.
        expected: What is right in the likeliest layout.
        found: How the two differ.
        about: What is known of this run and those before.
    """

    exercise: ModuleTask
    answer: Answer
    layouts: CandidateLayouts
    run: DrawnRun
    ran: Ran
    expected: Expected
    found: Difference
    about: tuple[str, ...]

    def verdict(self) -> Verdict:
        """Name the mistake if it is known, and say how the result differs."""
        odd = {name: self.layouts.shapes[name] for name in self.layouts.odd}
        own = (listed(odd, "Its own parameters"),) if odd else ()
        measured = (self.found.sentence, *self.about, *own)
        if (wrong := self._known_class()) is not None:
            return not_passed(f"Your result equals {wrong.equals}.", wrong.mistake, evidence=measured, hint=wrong.hint)
        known, findings = self._known(), self._findings()
        if known is not None:
            named = next((one for one in findings if one["mistake"] in known.mistakes), {})
            mistake = named.get("mistake") or next(iter(known.mistakes), None)
            sentence, hint = f"Your result equals {known.equals}.", known.hint or (None if mistake else FIRST_STEP)
            return not_passed(sentence, mistake, evidence=measured, where=named.get("where"), hint=hint)
        if finding := next((one for one in findings if self._explains(one)), None):
            entry = CATALOGUE[finding["mistake"]]
            seen = f"Seen: {finding['evidence']}."
            return not_passed(entry.title, entry.id, evidence=(seen, *measured), where=finding.get("where"))
        seen, hint = relation(self.ran.result, self.expected) or ("", FIRST_STEP)
        if self.run.in_pieces:
            hint = (
                "Is everything that a later piece needs in the cache, keys and values in the order in which they are "
                "taken out, and nothing in the module?"
            )
        return not_passed(measured[0], evidence=(*filter(None, [seen]), *measured[1:]), hint=hint)

    def _known_class(self) -> Wrong | None:
        """Find the exercise's known wrong class that gives this result with the learner's weights."""
        arguments = [getattr(self.layouts.sizes, name) for name in self.exercise.takes]
        named = self.layouts.named(self.run.weights)
        for known, weights in itertools.product(self.exercise.known, named):
            with torch.random.fork_rng(devices=[]), contextlib.suppress(RuntimeError):  # it may refuse a piece's shape
                module = build_module(known.code, arguments, 0)
                own = {name: weights[name] for name, _ in module.named_parameters()}
                given = run_module(module, own, (self.run.x,), steps=self.run.steps, cache=self.run.cache)
                if equal(self.ran.result, given["result"]):
                    return known
        return None

    def _known(self) -> WrongSteps | None:
        layouts = self.layouts
        with torch.no_grad():
            projected = layouts.projections(self.run.weights, self.run.x)
            known = find_mistake(
                projected, self.ran.result, layouts.sizes, self.exercise.causal, layouts.has_out_proj, self.run.steps
            )
        unused = [
            name for name, kind in layouts.kinds.items() if kind != BIAS and is_zero(self.ran.gradients.get(name))
        ]
        if known is None or layouts.by_name or not unused or not ONE_PROJECTION & {*known.mistakes}:
            return known
        # Which role the unused matrix should have had is not known where names and layout are the learner's own.
        equals = f"attention in which one projection feeds two roles, and `{unused[0][:60]}` is never used"
        return WrongSteps(equals, "projection-reused")

    def _findings(self) -> list[Mapping[str, Any]]:
        """Ask the doctor; what it finds names a mistake and never decides whether an answer passes."""
        if self.run.steps:
            return []
        found = ask_doctor(self.exercise, self.answer, self.layouts.sizes)
        if self.layouts.odd:  # a parameter of the learner's own may be a temperature, which the doctor doesn't know
            found = [one for one in found if CATALOGUE[one["mistake"]].origin.step is not Step.SCALE]
        return [_without_wrong_line(one) for one in found]

    def _explains(self, finding: Mapping[str, Any]) -> bool:
        """Return whether a mistake that the doctor found may have made the wrong numbers of this run."""
        mistake, sizes = finding["mistake"], self.layouts.sizes
        facts, origin = finding.get("facts", {}), CATALOGUE[mistake].origin
        if mistake == "dtype-pinned" and facts.get("rounds"):
            return self._is_nearly_right()
        if origin.step is Step.SCALE:
            return self._is_scaled(facts.get("factor", 1.0))
        if mistake == "softmax-wrong-axis" and facts.get("off", 1.0) < NO_DIGIT:
            return False  # the weights are as they should be: the doctor took one axis for another
        if mistake in ("nan-on-hidden-rows", "overflow-half"):
            return bool(self.ran.result.isnan().any())
        if mistake == "kv-heads-tiled":
            return facts.get("kv_heads", [])[:2] == [0, 1]  # not another order, such as 1, 1, 0, 0
        several, shared = sizes.num_heads > 1, sizes.num_kv_heads < sizes.num_heads
        return (
            origin.symptom not in OF_OTHER_RUNS
            and (several or origin.step not in OF_SEVERAL_HEADS)
            and (shared or origin.step is not Step.SHARING)
        )

    def _is_nearly_right(self) -> bool:
        right, result = self.expected.value, self.ran.result.double()
        return bool((result - right).abs().max() <= 0.01 * right.abs().max())

    def _is_scaled(self, factor: float) -> bool:
        """Return whether the scores, scaled as the doctor says, nearly give the result."""
        right, result = self.expected.value, self.ran.result.double()
        for layout in self.layouts.projections(self.run.weights, self.run.x):
            attention = replace(RIGHT, scale=lambda sizes, num_tokens: factor)
            with torch.no_grad():
                output = attention.output(layout, self.layouts.sizes, self.exercise.causal)
            if output.shape == result.shape and (output - result).abs().max() <= 0.02 * (right - result).abs().max():
                return True
        return False


def ask_doctor(exercise: ModuleTask, answer: Answer, sizes: Sizes) -> list[Mapping[str, Any]]:
    """Return the doctor's findings on a module of these sizes; none if its code raises an error."""
    counted = sizes._replace(positions=range(512))  # the doctor counts positions from 0, in steps of 1
    arguments = [getattr(counted, name) for name in exercise.takes]
    heads = sizes.num_heads if "num_heads" in exercise.takes else 1
    free = [size for size in range(2, 16) if size not in sizes.axes(1, 1)]  # that no size is taken for another
    x = InputGenerator(0).normal(*free[:2], sizes.d_in)
    options = {"causal": exercise.causal, "num_heads": heads, "num_kv_heads": sizes.num_kv_heads}
    try:
        found = answer.diagnose(arguments, x, options)
    except LearnerError:
        return []
    return [finding for finding in found if finding.get("mistake") in CATALOGUE]


def _without_wrong_line(finding: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the line of a finding that can't be the reason: the queries may be grouped otherwise."""
    where = finding.get("where")
    tiled = finding["mistake"] != "kv-heads-tiled" or TILES.search(getattr(where, "text", ""))
    return dict(finding) | {"where": where if tiled else None}
