"""The exercises whose answer is a function, and the one judge for all of them."""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from torch import Tensor

from course_lib.tracing import tensors_in
from course_lib.wording import counted

from .answer import Answer
from .answering import floating_tensors
from .axes import axis_names, named_shape
from .behaviour import behaviour
from .copies import built
from .differences import (
    FLOAT32_ROUNDING,
    TOLERANCE_FLOAT32,
    TOLERANCE_MEASURED,
    Difference,
    Expected,
    Kind,
    difference,
    distances,
    precision_note,
)
from .drawn_cases import WithDrawnCases
from .edges import FAR_ROWS, FLOAT32, ZEROS, edge_cases, in_float32, in_float64
from .exercise import Case
from .explanation import UNDEFINED, Explanations, gives
from .function_gradients import LEAVES, LEAVING, gradient_faults
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .relations import Relation, relation
from .verdict import Verdict, not_passed, passed, stopped
from .wrong_answers import WithWrongAnswers

BY_CALL = "Which numbers does your code compare in this call, and which of them is larger?"
OF_INPUTS = "All its numbers are right; its dtype should be that of the inputs."
SLIPPED = "Which line of your code does this?"
BY_HAND = "Which line gives this value? Compute one element by hand and compare."

QUESTIONS = {
    Kind.NONE_PART: "Which line makes this part, and for which arguments does it make None?",
    Kind.BOTH: "Which of the two is asked for?",
    Kind.COUNT: "Which of them are missing, or too many?",
    Kind.TYPE: "Of which type is the last line's value, and what makes the right type of it?",
    Kind.WORD: "Which words may be given back, and how are they spelt?",
    Kind.FRACTION: "Which operator makes a fraction, and which one an integer: `/` or `//`?",
    Kind.DTYPE: "Which line decides the dtype of your result?",
    Kind.SHAPE: "Which line decides this size?",
    Kind.NUMBER: "Of the smallest input that you can think of: which numbers go into the result, and which do not?",
    Kind.ELEMENTS: BY_HAND,
}


class WrongKind(TypeError):
    """A result from which the values to compare can't be extracted."""


@dataclass(frozen=True, kw_only=True)
class FunctionExercise(WithWrongAnswers, WithDrawnCases):
    """An exercise whose answer is a function, compared with the solution and with known wrong answers.

    Attributes:
        axes: The names of the result's axes, or of its parts if it is a tuple.
        fixed: Axes of the arguments that `edge_cases` doesn't shorten: other arguments follow from their size.
        least: The smallest value of an integer argument that may stand beside any others, such as {"num_prompt": 0};
            of a tensor or list of integers, that of its first element.
        most: A large value of such arguments.
        own_dtype: Whether the answer chooses a dtype itself, so that float32 needs no note.
        gradients: The names of the arguments that a gradient from the result reaches, as in a layer that is trained.
        trained: Whether gradients are what the exercise is about, as its text says: right numbers without them don't
            pass. Elsewhere they pass with a note.
        extract: (result, *arguments) -> the values to compare, if the result itself can't be compared.
    """

    axes: str = ""
    fixed: str = ""
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    own_dtype: bool = False
    gradients: tuple[str, ...] = ()
    trained: bool = False
    extract: Callable[..., Any] | None = None

    def example(self, rng: InputGenerator) -> list[Any]:
        """See `Exercise`."""
        return [*self.cases(rng)[0].arguments]

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        if answer.kind not in ("function", "class", "instance"):
            hint = "Which name do you give to `check`, and are there parentheses behind it?"
            return not_passed(f"The answer is a {answer.kind}; it should be the function itself, uncalled.", hint=hint)
        cases = self.cases(rng)
        results: list[Any] = []
        expected: list[Expected] = []
        if (wrong := self._judge_calls(answer, cases, results, expected)) is not None:
            return replace(wrong, share=self.usual * self._is_usual_right(cases, results))
        edges = self.edges(cases, [right.value for right in expected], rng)
        if (wrong := self._judge_calls(answer, [*cases, *edges], [*results], [*expected])) is not None:
            return replace(wrong, share=self.usual)
        verdict = self._right(answer, cases, results, expected, rng)
        return verdict if verdict else replace(verdict, share=self.without_gradients)

    def _is_usual_right(self, cases: Sequence[Case], results: Sequence[Any]) -> bool:
        """Return whether the calls of which nothing is special came before the wrong one, and are right."""
        drawn = cases if self.draw else cases[: self.calls]  # after these come axes of size 1 and other edges
        usual = list(itertools.takewhile(lambda case: not case.about, drawn))
        if not 0 < len(usual) <= len(results):
            return False
        return all(difference(own, self._expected(case)) is None for case, own in zip(usual, results, strict=False))

    def edges(self, cases: Sequence[Case], results: Sequence[Any], rng: InputGenerator) -> list[Case]:
        """Return calls at the edges of what may be asked, after the calls that were drawn and their right results."""
        axes = {name: self.arguments.get(name, "") for name in inspect.signature(self.solution).parameters}
        found = edge_cases(cases, results, self.cases, axes, self.axes, self.fixed.split(), self.least, self.most, rng)
        asked = (case for case in found if not (self.own_dtype and case.about == FLOAT32))
        edges = [case for case in asked if _stays_finite(self.solution, case)]
        return [*self.edge_inputs(rng), *edges]

    def _judge_calls(
        self, answer: Answer, cases: Sequence[Case], results: list[Any], expected: list[Expected]
    ) -> Verdict | None:
        """Judge the calls that have no result yet; results, and what they are compared with, are added to the lists."""
        asked = cases[len(results) :]
        try:
            for case, (result, changed) in zip(asked, answer.calls([one.arguments for one in asked]), strict=True):
                if changed:
                    return self._argument_changed(changed[0], case)
                results.append(self._extracted(result, case))
        except WrongKind as wrong:
            return not_passed(f"The answer can't be compared: {wrong}.", hint=f"What should `{self.name}` give back?")
        except LearnerError as error:
            wrong = self._first_wrong(answer, cases, results, expected)
            return self._stopped(answer, error, cases, len(results)) if wrong is None else wrong
        return self._first_wrong(answer, cases, results, expected)

    def _first_wrong(
        self, answer: Answer, cases: Sequence[Case], results: Sequence[Any], expected: list[Expected]
    ) -> Verdict | None:
        """Compare the results that were not yet; what they are compared with is added to `expected`."""
        for number in range(len(expected), len(results)):
            expected.append(self._expected(cases[number]))
            if found := difference(results[number], expected[-1]):
                return self._wrong(answer, cases, results, number, found)
        return None

    def _stopped(self, answer: Answer, error: LearnerError, cases: Sequence[Case], number: int) -> Verdict:
        sizes, before = self._sizes(cases[number]), self._right_so_far(cases, number)
        lists = {name: value for name, value in self._named(cases[number]).items() if isinstance(value, list)}
        held = {name: len([*tensors_in(value)]) for name, value in lists.items()}
        said = [f"In this call `{name}` holds {counted(count, 'tensor')}." for name, count in held.items() if count]
        about = (self.name, answer.name), sizes, (*said, *before)
        verdict = stopped(error, *about, self._argument_axes(cases[number]))
        return replace(verdict, hint=self._first_line()) if error.is_of_call else verdict

    def _right(
        self,
        answer: Answer,
        cases: Sequence[Case],
        results: Sequence[Any],
        expected: Sequence[Expected],
        rng: InputGenerator,
    ) -> Verdict:
        if (wrong := self._of_other_dtype(answer, cases, results, expected, rng)) is not None:
            return wrong
        own = [] if self.own_dtype else map(precision_note, results, [right.value for right in expected])
        notes = dict.fromkeys(filter(None, own))
        if self.gradients:
            wrong, note = self._backward(answer, cases, rng)
            if wrong is not None:
                return wrong
            notes |= dict.fromkeys(filter(None, [note]))
        count = f"Right on {len(cases)} inputs of different sizes." if len(cases) > 1 else "Right."
        return passed(count, tuple(notes))

    def _of_other_dtype(
        self,
        answer: Answer,
        cases: Sequence[Case],
        results: Sequence[Any],
        expected: Sequence[Expected],
        rng: InputGenerator,
    ) -> Verdict | None:
        """Refuse a result that PyTorch computed from the inputs in another dtype than theirs.

        One that no gradient reaches was made of Python's or NumPy's numbers, where float32 is PyTorch's own choice.
        """
        for case, result, right in zip(cases, results, expected, strict=True) if not self.own_dtype else ():
            found = difference(result, right._replace(exact_dtype=True))
            if found is None or found.kind is not Kind.DTYPE:
                continue
            pairs = zip(floating_tensors(result), floating_tensors(right.value), strict=False)
            sent = [rng.normal(*one.shape) * (own.dtype != one.dtype) for own, one in pairs]
            with contextlib.suppress(LearnerError):
                (backward,) = answer.backwards([(case.arguments, sent)])
                if any(one is not None and bool(one.any()) for one in backward.gradients):
                    evidence = (f"The call: {self._call(case)}.", OF_INPUTS)
                    return not_passed(found.sentence, evidence=evidence, hint=QUESTIONS[Kind.DTYPE])
            return None
        return None

    def _backward(self, answer: Answer, cases: Sequence[Case], rng: InputGenerator) -> tuple[Verdict | None, str]:
        """Compare gradients; return the verdict on wrong ones, and a note on what PyTorch can't send back."""
        plain = [one for one in cases if one.trains or not one.about]  # others may be all rounding
        faults = gradient_faults(self.solution, answer, [self._named(one) for one in plain], self.gradients, rng)
        for case in plain:
            try:
                fault = next(faults)
            except LearnerError as error:
                return stopped(error, (self.name, answer.name), self._sizes(case)), ""
            if fault and not (fault.wrong and self.trained):
                return None, f"{fault.sentence} {LEAVING}" if fault.wrong else fault.sentence
            if fault:
                seen = f"{self._call(case)}: one backward pass was made from the result."
                return not_passed(fault.sentence, evidence=(seen,), hint=LEAVES), ""
        return None, ""

    def _first_line(self) -> str:
        parameters = ", ".join(inspect.signature(self.solution).parameters)
        return f"The check calls it as {self.name}({parameters}): keep its first line."

    def _argument_changed(self, index: int, case: Case) -> Verdict:
        names = list(inspect.signature(self.solution).parameters)
        name = f"`{names[index]}`" if index < len(names) else "an argument"
        hint = "Which line changes a tensor instead of making one? Look for `+=`, `[...] =` and a `_` at the end."
        if isinstance(case.arguments[index], list):
            hint = "Which line changes the list itself? Look for `.sort()`, `.append()`, `.pop()` and `[...] =`."
        return not_passed(
            f"Your function changes its argument {name} in place.",
            "input-modified",
            evidence=(f"After the call, {name} holds other values than before.",),
            hint=hint,
        )

    def _wrong(
        self, answer: Answer, cases: Sequence[Case], results: Sequence[Any], number: int, found: Difference
    ) -> Verdict:
        call = self._call(cases[number])
        for known in self.known:
            if gives(known.code, cases, results, self._extracted):
                sentence = f"Your result equals {known.equals}."
                hint = known.hint or (None if known.mistake else self._question(found, False))
                return not_passed(sentence, known.mistake, evidence=(f"{call}: {found.sentence}",), hint=hint)
        again = partial(self._called, answer)
        if (mutant := self._explanations.find(cases, results, number, again)) is not None:
            hint = None if mutant.mistake else SLIPPED
            said = f"Your result is what comes out if {mutant.words}."
            return not_passed(said, mutant.mistake, evidence=(f"{call}: {found.sentence}",), hint=hint)
        related = self._related(answer, cases, results, number, found)
        evidence = (f"The call: {call}.", *self._right_so_far(cases, number))
        if related:
            evidence = (related.sentence, *evidence)
        fixed = (number > 0 and self._only_sizes_differ(*cases[number - 1 : number + 1])) or _same_size(results)
        hint = related.question if related else self._question(found, fixed)
        if isinstance(results[number], str) and results[number] in {self._expected(case).value for case in cases}:
            hint = BY_CALL
        return not_passed(found.sentence, found.mistake, evidence=evidence, hint=hint)

    def _related(
        self, answer: Answer, cases: Sequence[Case], results: Sequence[Any], number: int, found: Difference
    ) -> Relation | None:
        """Say what further calls show of a wrong answer, or how its results are related to the right ones."""
        if found.kind is Kind.DTYPE:
            return None
        seen = None
        if self.extract is None and found.kind in (Kind.SHAPE, Kind.NUMBER, Kind.ELEMENTS):
            seen = behaviour(answer, self.solution, cases[number])
        calls = [(result, self._expected(case)) for case, result in zip(cases, results, strict=False)]
        return seen or relation(results[number], calls[number][1], calls[:number] + calls[number + 1 :])

    def _question(self, found: Difference, fixed: bool) -> str:
        """Return a question about a difference; `fixed` says that a size in the code may be the reason."""
        if found.kind is Kind.NONE:
            return f"What does the last line of `{self.name}` give back?"
        question = QUESTIONS[found.kind]
        sized = fixed and found.kind in (Kind.SHAPE, Kind.NUMBER, Kind.ELEMENTS)
        return f"{question} Is a number written into your code in place of a size?" if sized else question

    @cached_property
    def _explanations(self) -> Explanations:
        return Explanations(self.solution, self.cases, self._extracted, self.arguments, self.axes.split())

    def _called(self, answer: Answer, cases: Sequence[Case]) -> list[Any] | None:
        """Call an answer that was called before; None if it stops now."""
        try:
            calls = answer.calls([case.arguments for case in cases])
            return [self._extracted(called.result, case) for called, case in zip(calls, cases, strict=True)]
        except (LearnerError, WrongKind):
            return None

    def _only_sizes_differ(self, *cases: Case) -> bool:
        """Return whether two calls differ in the sizes of floating-point tensors alone."""
        plain, sizes = [], []
        for case in cases:
            tensors = [one for one in case.arguments if isinstance(one, Tensor)]
            if case.about or not tensors or not all(one.is_floating_point() for one in tensors):
                return False
            plain.append([one for one in case.arguments if isinstance(one, (bool, int, float, str))])
            sizes.append([one.shape for one in tensors])
        return plain[0] == plain[1] and sizes[0] != sizes[1]

    def _extracted(self, result: Any, case: Case) -> Any:
        if self.extract is None or result is None:
            return result
        try:
            return self.extract(result, *built(case.arguments))
        except (TypeError, KeyError, AttributeError) as error:
            raise WrongKind(str(error)) from error

    def _expected(self, case: Case) -> Expected:
        arguments = built(case.arguments)
        value = self._extracted(self.solution(*arguments), case)
        rounding = self._rounding(case, value, FLOAT32_ROUNDING if case.about == FLOAT32 else 0.0)
        exact = not self.own_dtype and self.extract is None
        measured = exact and case.about != FLOAT32 and isinstance(value, Tensor)
        tolerance = TOLERANCE_MEASURED if measured else TOLERANCE_FLOAT32
        exact_dtype = exact and case.about == FLOAT32  # lists become float32 tensors, which is right where that came in
        return Expected(value, rounding, self.axes, self._sizes(case), exact_dtype=exact_dtype, tolerance=tolerance)

    def _rounding(self, case: Case, value: Any, least: float) -> Any:
        """Return how far the solution itself is off in float32, eight times, and `least` more.

        Where it makes float64 of its own, only its arguments are rounded to float32.
        """
        other = (in_float64 if case.about == FLOAT32 else in_float32)(case.arguments)
        for arguments in (other, in_float64(other)):
            try:
                return distances(self._extracted(self.solution(*built(arguments)), case), value, 8.0, least)
            except UNDEFINED:
                continue
        return least

    def _named(self, case: Case) -> dict[str, Any]:
        return dict(zip(inspect.signature(self.solution).parameters, case.arguments, strict=False))

    def _sizes(self, case: Case) -> dict[int, str]:
        return axis_names(self.arguments, self._named(case))

    def _argument_axes(self, case: Case) -> dict[Any, str]:
        """Map each argument to the names of its axes, by its name and by its shape."""
        shapes: dict[tuple[int, ...], set[str]] = {}
        for name, value in self._named(case).items():
            if isinstance(value, Tensor) and name in self.arguments:
                shapes.setdefault(tuple(value.shape), set()).add(self.arguments[name])
        return {**self.arguments, **{shape: min(axes) for shape, axes in shapes.items() if len(axes) == 1}}

    def _call(self, case: Case) -> str:
        """Describe a call by its arguments: numbers as they are, tensors by their shape."""
        if case.about:
            return f"{self.name} where {case.about}"
        sizes = self._sizes(case)
        parts = []
        for name, value in self._named(case).items():
            if isinstance(value, Tensor):
                axes = self.arguments.get(name, "").split()
                written = f"{tuple(value.shape)} = ({', '.join(axes)})"
                fits = len(axes) == value.ndim > 1
                parts.append(f"`{name}` {written if fits else named_shape(value.shape, sizes)}")
            elif isinstance(value, (bool, int, float, str)) or (isinstance(value, (list, tuple)) and _plain(value)):
                parts.append(f"{name}={value!r}")
        return f"{self.name} with {', '.join(parts)}" if parts else f"a call of {self.name}"

    def _right_so_far(self, cases: Sequence[Case], number: int) -> tuple[str, ...]:
        """Name the last call whose result was compared and right, if there is one."""
        if number == 0:
            return ()
        return (f"It was right for {self._call(cases[number - 1])}, and is not for {self._call(cases[number])}.",)


def _stays_finite(solution: Callable[..., Any], case: Case) -> bool:
    """Return whether the solution needs no guard against large scores or zeros, or has one: nan is no right result."""
    unusual = case.about in (FAR_ROWS, FLOAT32, ZEROS)
    return not unusual or not any(one.isnan().any() for one in tensors_in(solution(*built(case.arguments))))


def _same_size(results: Sequence[Any]) -> bool:
    """Return whether several tensors all have the same shape, although the sizes of all calls differ."""
    shapes = [tuple(result.shape) for result in results if isinstance(result, Tensor) and result.ndim]
    return len(shapes) > 1 and len(set(shapes)) == 1


def _plain(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (bool, int, float, str)) for value in values)
