"""The judge of exercises whose answer is a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .differences import coarser, difference, equal
from .running import Stopped, copied, run, same
from .stubs import is_empty
from .verdict import Verdict, not_passed, not_written, passed


@dataclass(frozen=True)
class Wrong:
    """A known wrong answer.

    Attributes:
        is_: what the result then equals, such as "softmax over the queries".
        code: gives it.
        mistake: id of the catalogue, where it has one.
        hint: a question, where the catalogue's own doesn't fit.
    """

    is_: str
    code: Callable[..., Any]
    mistake: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class FunctionJudge:
    """Compares a function with a reference on several inputs, and with known wrong answers where they differ.

    Attributes:
        reference: the right answer.
        inputs: the arguments of each call; sizes differ from each other and from call to call.
        wrong: known wrong answers, the likeliest first.
        axes: names of the result's axes, or of its parts where it is a tuple.
        see: (result, *arguments) -> what is compared, where the result itself can't be.
    """

    reference: Callable[..., Any]
    inputs: Callable[[], Sequence[tuple]]
    wrong: tuple[Wrong, ...] = ()
    axes: str = ""
    see: Callable[..., Any] | None = None

    def __call__(self, answer: Any) -> Verdict:
        if is_empty(answer):
            return not_written()
        if not callable(answer):
            return not_passed(f"The answer is a {type(answer).__name__}; it should be the function itself, uncalled.")
        inputs = self.inputs()
        results, expected = [], [self._seen(self.reference(*copied(given)), given) for given in inputs]
        for number, given in enumerate(inputs):
            mine = copied(given)
            try:
                result = run(answer, *mine)
                if not all(map(same, given, mine)):
                    return not_passed(
                        "Your function changes its input in place.",
                        "input-modified",
                        evidence=("After the call, the tensor that was given holds other numbers.",),
                    )
                results.append(run(self._seen, result, given))
            except Stopped as stopped:
                if stopped.unwritten:
                    return not_written()
                return not_passed(
                    stopped.says, where=stopped.where, evidence=(*_since(number, inputs), *stopped.remark)
                )
        return self._compare(inputs, results, expected)

    def _seen(self, result: Any, given: tuple) -> Any:
        return result if self.see is None or result is None else self.see(result, *copied(given))

    def _compare(self, inputs: Sequence[tuple], results: list, expected: list) -> Verdict:
        found = [difference(one, other, self.axes) for one, other in zip(results, expected, strict=True)]
        if not any(found):
            remarks = dict.fromkeys(filter(None, map(coarser, results, expected)))
            return passed(_count(len(inputs)), tuple(remarks))
        first = next(at for at, words in enumerate(found) if words)
        says, mistake = found[first]
        for known in self.wrong:
            if self._equals(known, inputs, results):
                words = f"Your result equals {known.is_}."
                return not_passed(words, known.mistake, evidence=(says,), hint=known.hint)
        return not_passed(says, mistake, evidence=_since(first, inputs))

    def _equals(self, known: Wrong, inputs: Sequence[tuple], results: list) -> bool:
        try:
            return all(
                equal(result, self._seen(known.code(*copied(given)), given))
                for given, result in zip(inputs, results, strict=True)
            )
        except (RuntimeError, ValueError, IndexError, TypeError, ZeroDivisionError):  # it can't be had for these sizes
            return False


def _count(number: int) -> str:
    return f"Right on {number} inputs of different sizes." if number > 1 else "Right."


def _since(number: int, inputs: Sequence[tuple]) -> tuple[str, ...]:
    """Where an earlier input went well, say which one was the first that did not."""
    if number == 0:
        return ()
    return (f"Input {number} of {len(inputs)} was right, the next one has other sizes: is a size written into it?",)
