"""The judgement of one class: constructions of several sizes, and runs of each with drawn weights and inputs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.answer import Answer, BuiltModule, Ran
from course_lib.exercises.answering.devices import prepare
from course_lib.exercises.differences import Difference, Expected, Kind, difference, equal, precision_note
from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.learner_error import LearnerError
from course_lib.exercises.verdict import NEEDS_REVIEW, NOT_PASSED, Verdict, not_passed, passed, stopped

from .biases import Run, adopt_biases, judge_vectors, kept_note
from .drawn_run import DrawnRun, built_anew, draw_run
from .gradients import is_zero, judge_gradients, no_gradient, without_gradient
from .layouts import CandidateLayouts
from .naming import WrongRun
from .parameters import bias_problem, find_problem, hides_projections, is_sane
from .registration import UNREADABLE, Problem, dtype_note, examine, listed, made_in_forward
from .sizes import RunSizes, Sizes, construction_sizes, run_sizes, special_runs, special_sizes
from .task import ModuleTask
from .verdicts import (
    find_spoiled,
    find_transposed,
    of_cache,
    of_kept,
    of_no_bias,
    of_other_kind,
    of_problem,
    of_transposed,
    unreadable,
    wrong_in_training,
)

AXES, SUBJECT = "batch token d_out", "Your module gives back"
MODULE_ROUNDING = 1e-3  # in float32
IN_FLOAT32 = "Which of your tensors is float64, whatever came in?"


class ModuleJudge:
    """The judgement of one answer.

    Args:
        exercise: What was asked for.
        answer: The learner's class.
        rng: Where sizes, weights and inputs come from.
        gradients: Whether gradients are compared, too.
        edges: Whether equal sizes, a batch or a text of 1, scores of thousands, and float32 are tried, too.
    """

    def __init__(
        self, exercise: ModuleTask, answer: Answer, rng: InputGenerator, *, gradients: bool = True, edges: bool = True
    ) -> None:
        self.exercise, self.answer, self.rng = exercise, answer, rng
        self.gradients, self.edges = gradients, edges
        self.layouts: CandidateLayouts | None = None  # of the last construction
        self.fitting: list[int] | None = None  # the candidate layouts that fit all runs so far
        self.readable = True
        self.right: list[str] = []  # descriptions of the runs whose result was compared and right
        self.notes: dict[str, None] = {}
        self.axes: dict[int, str] = {}
        self.about = ""  # the sizes of the last construction, and of the last run
        self.built = ""

    def verdict(self) -> Verdict:
        """Judge the answer; whatever is wrong, the sizes of the construction are named."""
        wrong = self._first_wrong()
        if wrong is None and not self.readable:
            return unreadable(self.exercise, self.answer, self.layouts)
        if wrong is None:
            return passed(
                f"Right on {len(self.right)} inputs of different sizes, with its gradients.", tuple(self.notes)
            )
        if self.gradients and self.fitting:
            wrong = replace(wrong, share=self._share())
        said = " ".join((wrong.message, *wrong.evidence))
        if wrong.state != NOT_PASSED or self.built in said or "The module was built with" in said:
            return wrong
        return replace(wrong, evidence=(*wrong.evidence, self._now()))

    def _share(self) -> float:
        """Return how much of the exercise is right in an answer whose output was right at least once."""
        for share, edges in ((self.exercise.without_gradients, True), (self.exercise.usual, False)):
            if ModuleJudge(self.exercise, self.answer, self.rng, gradients=False, edges=edges).verdict():
                return share
        return 0.0

    def _first_wrong(self) -> Verdict | None:
        exercise = self.exercise
        drawn_from = exercise.takes, exercise.kv_heads, self.rng, exercise.rotary
        try:
            for sizes in construction_sizes(*drawn_from):
                if (wrong := self._construction(sizes)) is not None:
                    return wrong
            for sizes in special_sizes(*drawn_from) if self.readable and self.edges else ():
                if (wrong := self._construction(sizes, self.layouts)) is not None:
                    return wrong
        except LearnerError as error:
            return self._stopped(error)
        return None

    def _stopped(self, error: LearnerError) -> Verdict:
        exercise, layouts = self.exercise, self.layouts
        if error.made:
            return of_problem(made_in_forward(error.made), error.where)
        if layouts and not exercise.any_layout and not error.unwritten and (transposed := find_transposed(layouts)):
            return of_transposed(transposed, error, self.built)
        return stopped(error, (exercise.name, self.answer.name), self.axes, self._right_so_far())

    def _build(self, sizes: Sizes) -> BuiltModule:
        return self.answer.build([getattr(sizes, name) for name in self.exercise.takes], self.rng.integer(2**31))

    def _construction(self, sizes: Sizes, earlier: CandidateLayouts | None = None) -> Verdict | None:
        exercise = self.exercise
        arguments = [getattr(sizes, name) for name in exercise.takes]
        self.about = self.built = f"{exercise.name}({', '.join(map(str, arguments))})"
        module = self._build(sizes)
        if not is_sane(module.parameters):
            return Verdict(NEEDS_REVIEW, UNREADABLE, evidence=(listed(module.parameters),))
        layouts = CandidateLayouts(
            exercise.solution,
            sizes,
            arguments,
            exercise.causal,
            module.parameters,
            exercise.any_layout,
            exercise.rotary,
            earlier,
        )
        if not layouts.clear:
            return None
        self.layouts = layouts
        if problem := find_problem(module, layouts, exercise.takes, exercise.biases):
            return self._of_problem(problem, module, layouts)
        if module.dtypes:
            self.notes[dtype_note(module.dtypes)] = None
        runs = run_sizes(sizes, self.rng, exercise.cache is not None, not self.right, exercise.in_tiles)
        if layouts.odd:
            adopt_biases(layouts, *self._anew(layouts, runs[0]))
        asked = special_runs(sizes, runs[1]) if earlier else runs if self.edges else [run for run in runs if run.usual]
        drawn = [draw_run(exercise, layouts, run, self.rng) for run in asked]
        # What is wrong without a cache is found first, so that nobody looks for it in a cache that is right.
        tried = [drawn[0].at_once, *drawn] if exercise.in_steps else drawn
        ran = module.runs([part for one in tried for part in one.asked()])
        for number, one in enumerate(tried):
            try:
                wrong = self._run(ran, layouts, one)
            except LearnerError as error:
                wrong = self._stopped(error)
            if wrong is not None:
                return of_kept(wrong) if number and self._passes_anew(layouts, one) else wrong
        if not self.readable or earlier:
            return None
        wrong = self._vectors(layouts, runs[0])
        return self._elsewhere(module, layouts, drawn[0]) if wrong is None and self.edges else wrong

    def _passes_anew(self, layouts: CandidateLayouts, run: DrawnRun) -> bool:
        """Return whether a module that ran nothing before passes a run."""
        try:
            return self._run(self._build(layouts.sizes).runs(run.asked()), layouts, run) is None
        except LearnerError:
            return False

    def _elsewhere(self, module: BuiltModule, layouts: CandidateLayouts, run: DrawnRun) -> Verdict | None:
        """Judge a run in float32, and one on another device if the prompt asks for that."""
        self.about = f"{self.built} and {run.about}, in float32"
        options = {"steps": run.steps, "cache": run.cache}
        result = module.run(run.weights, (run.x,), elsewhere="float32", **options).result
        with torch.no_grad():
            right = next(iter(layouts.outputs(run.weights, run.x, self.fitting).values())).float()
        expected = Expected(right, MODULE_ROUNDING, AXES, self.axes, exact_dtype=True, subject=SUBJECT)
        if found := difference(result, expected):
            return not_passed(found.sentence, found.mistake, evidence=self._right_so_far(), hint=IN_FLOAT32)
        if self.exercise.any_device:
            self.about = f"{self.built} on another device than the CPU"
            prepare()
            module.run(run.weights, (run.x,), elsewhere="meta")
        return None

    def _of_problem(self, problem: Problem, module: BuiltModule, layouts: CandidateLayouts) -> Verdict:
        """Run a module whose parameters are wrong once, for what that shows, unless they only can't be read."""
        if not module.forward:
            return of_problem(problem)
        if hides_projections(layouts):
            return Verdict(NEEDS_REVIEW, UNREADABLE, evidence=(listed(module.parameters),))
        x, cotangent = (self.rng.normal(2, 3, size) for size in (layouts.sizes.d_in, layouts.sizes.d_out))
        options = {"steps": [2, 1] if self.exercise.in_steps else [], "cotangent": cotangent}
        return of_problem(examine(problem, lambda: module.run({}, (x,), **options), layouts))

    def _run(self, results: Iterator[Ran], layouts: CandidateLayouts, run: DrawnRun) -> Verdict | None:
        """Judge the next of the results, which is that of the run; if it is repeated, the one after it is as well."""
        self.axes = layouts.sizes.axes(run.sizes.batch, run.sizes.num_tokens)
        if run.in_pieces:  # the sizes of pieces are numbers of tokens, too
            taken = {*run.steps, *accumulate(run.steps)}
            self.axes = {size: name for size, name in self.axes.items() if size not in taken}
        self.about = f"{self.built} and {run.about}"
        ran = next(results)
        evaluated = next(results).result if run.sizes.repeated else ran.result
        spoiled = find_spoiled(ran, evaluated, run.sizes.training)
        return spoiled if spoiled is not None else self._compare(ran, evaluated, layouts, run)

    def _compare(self, ran: Ran, evaluated: Any, layouts: CandidateLayouts, run: DrawnRun) -> Verdict | None:
        sizes = run.sizes
        with torch.no_grad():
            outputs = layouts.outputs(run.weights, run.x, self.fitting)
        likeliest = next(iter(outputs.values()), run.x.new_zeros(sizes.batch, sizes.num_tokens, layouts.sizes.d_out))
        causal = self.exercise.causal
        expected = Expected(likeliest, axes=AXES, sizes=self.axes, causal=causal, exact_dtype=True, subject=SUBJECT)
        found = difference(ran.result, expected)
        if not isinstance(ran.result, Tensor) or (found and found.kind in (Kind.SHAPE, Kind.DTYPE)):
            return of_other_kind(ran.result, found, expected, self._right_so_far())
        if not outputs:
            self.readable = False
            return without_gradient(ran, layouts) if run.cotangent is not None and not sizes.training else None
        fitting = [candidate for candidate, output in outputs.items() if equal(ran.result, output)]
        if not fitting:
            found = found or Difference("Your result is not right.")
            about = self._right_so_far()
            if sizes.training and any(equal(evaluated, output) for output in outputs.values()):
                return wrong_in_training(found, about)
            if not self.gradients:
                return not_passed(found.sentence)  # to name it takes long, and nobody reads it
            return WrongRun(self.exercise, self.answer, layouts, run, ran, expected, found, about).verdict()
        self.fitting = fitting
        if note := precision_note(ran.result, outputs[fitting[0]]):
            self.notes[note] = None
        if self.exercise.keeps_keys and (wrong := of_cache(ran, layouts, run)) is not None:
            return wrong
        return self._gradients(ran, layouts, run)

    def _gradients(self, ran: Ran, layouts: CandidateLayouts, run: DrawnRun) -> Verdict | None:
        cotangent = run.cotangent if self.gradients else None
        wrong = judge_gradients(ran, layouts, self.fitting or (), run.weights, run.x, cotangent)
        if wrong is not None:
            return wrong
        self.right.append(self.about)
        sizes = run.sizes
        unused = [name for name in layouts.odd if sizes.num_tokens > 1 and is_zero(ran.gradients.get(name))]
        asked = cotangent is not None and not sizes.training
        return no_gradient(unused, self.readable) if unused and asked else None

    def _vectors(self, layouts: CandidateLayouts, run: RunSizes) -> Verdict | None:
        """Judge the parameters that are no matrices, in modules that are built anew."""
        if not layouts.biases and not layouts.odd:
            return None
        self.about = f"{self.built} and {run.about}, biases that are not 0"
        vectors = judge_vectors(layouts, *self._anew(layouts, run), self.rng)
        if vectors.kept:
            self.notes[kept_note(vectors.kept)] = None
        if vectors.biases and not self.exercise.biases:
            return of_problem(bias_problem(layouts, vectors.biases[0], self.built))
        if not vectors.wrong:
            self.right.append(self.about)
            return None
        return of_no_bias(vectors.wrong, layouts.shapes[vectors.wrong])

    def _anew(self, layouts: CandidateLayouts, run: RunSizes) -> tuple[Run, dict[str, Tensor], Tensor]:
        return built_anew(self.exercise, self.answer, layouts, run, self.rng)

    def _right_so_far(self) -> tuple[str, ...]:
        if self.right:
            return (f"It was right for {self.right[-1]}, and is not for {self.about}.",)
        return (self._now(),)

    def _now(self) -> str:
        return f"The run: {self.about}." if self.about != self.built else f"The module was built as {self.built}."
