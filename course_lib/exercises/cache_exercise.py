"""The exercises whose answer is a key-value cache, which is filled step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .answer import Answer, BuiltModule
from .answering import build_module, run_module
from .copies import copied
from .differences import Difference, Expected, difference
from .edges import in_float32
from .explanation import UNDEFINED
from .function_exercise import QUESTIONS
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .verdict import Verdict, not_passed, passed, stopped
from .wrong_answers import WithWrongAnswers

Step = tuple[Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class CacheExercise(WithWrongAnswers):
    """An exercise whose answer is a module without parameters: `cache(keys, values)` gives all keys and values so far.

    It is built as (batch, num_kv_heads, max_len, head_dim), called with the new keys and values of each step until it
    is full, once more, where it must raise a ValueError, and once in float32.
    """

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        if answer.kind != "class":
            hint = "Which name do you give to `check`, and are there parentheses behind it?"
            return not_passed(f"The answer is a {answer.kind}; it should be the class itself, uncalled.", hint=hint)
        for sizes, steps in _draw(rng):
            names: dict[int, str] = dict(
                zip((sizes[0], sizes[1], sizes[3]), ("batch", "kv head", "head_dim"), strict=True)
            )
            results: list[Any] = []
            counts: list[tuple[int | None, int]] = []  # what `length` is after each step, and should be
            try:
                module = answer.build(sizes, seed=0)
                if not module.forward:
                    sentence = "The class has no method `forward`, so that the module can't be called."
                    return not_passed(sentence, hint="Is it spelt `forward`, and indented inside the class?")
                for number, step in enumerate(steps):
                    ran = module.run({}, step)
                    results.append(copied(ran.result))  # a later call may write into the same memory
                    if ran.changed:
                        return not_passed("Your cache changes the new keys or values in place.", "input-modified")
                    if found := _difference(results, self.solution, sizes, steps):
                        return self._wrong(results, number, found, sizes, steps)
                    counts.append((ran.length, sum(keys.shape[2] for keys, _ in steps[: number + 1])))
                if found := _difference_in_float32(answer.build(sizes, seed=0), steps[0]):
                    seen = ("The first keys and values were float32.",)
                    return not_passed(found.sentence, found.mistake, evidence=seen, hint=QUESTIONS[found.kind])
                if (wrong := _full(module, steps[1], counts)) is not None:
                    return wrong
            except LearnerError as error:
                before = (f"Before, it was called {_steps(steps, len(results))}.",) if results else ()
                return stopped(error, (self.name, answer.name), names, before)
        return passed("Right in every step, for caches of different sizes.", ())

    def _wrong(
        self, results: Sequence[Any], number: int, found: Difference, sizes: Sequence[int], steps: Sequence[Step]
    ) -> Verdict:
        evidence = (f"Seen in call {number + 1}: {_steps(steps, number + 1)}.",)
        for known in self.known:
            try:
                same = _difference(results, known.code, sizes, steps) is None
            except UNDEFINED:
                continue
            if same:
                evidence = (found.sentence, *evidence)
                return not_passed(
                    f"Your cache gives back {known.equals}.", known.mistake, evidence=evidence, hint=known.hint
                )
        hint = "What are `self.length` and the two tensors after each call? Print them."
        return not_passed(found.sentence, found.mistake, evidence=evidence, hint=hint)


def _draw(rng: InputGenerator) -> list[tuple[tuple[int, ...], list[Step]]]:
    """Draw two caches and their steps: some tokens, one, one, two, and three more, which fill it."""
    drawn = []
    for batch, kv_heads, width, first in rng.size_rows(2, 4, 2, 8):
        counts = [first, 1, 1, 2, 3]
        steps = [tuple(rng.normal(batch, kv_heads, count, width) for _ in range(2)) for count in counts]
        drawn.append(((batch, kv_heads, sum(counts), width), steps))
    return drawn


def _uncounted(length: int | None, held: int) -> Verdict:
    """Judge a cache that holds the right tokens and doesn't say how many in `length`, where attention reads it."""
    given = "has no integer `length`" if length is None else f"says in `length` that it holds {length}"
    sentence = f"Your cache holds {held} tokens and {given}; `length` should be {held}."
    return not_passed(sentence, hint="Under which name do you count the tokens so far? The attention reads it.")


def _full(module: BuiltModule, step: Step, counts: Sequence[tuple[int | None, int]]) -> Verdict | None:
    """Judge what a full cache does with one more token, and what it said in `length` on the way."""
    for length, held in counts:
        if length != held:
            return _uncounted(length, held)
    does = "is taken without an error"
    try:
        module.run({}, step)
    except LearnerError as error:
        if error.kind == "ValueError":
            return None
        does = f"raises the error {error.kind}"
    sentence = f"A token for which there is no room {does}; it should raise a ValueError."
    return not_passed(sentence, hint="Where is the new length compared with the room, before anything is written?")


def _difference(
    results: Sequence[Any], code: Callable[..., Any], sizes: Sequence[int], steps: Sequence[Step]
) -> Difference | None:
    """Compare the results so far with those of a class that is built and called in the same way."""
    module = build_module(code, sizes, 0)
    for result, step in zip(results, steps, strict=False):
        expected = tuple(run_module(module, {}, step)["result"])
        if found := difference(result, Expected(expected, axes="keys values")):
            return found
    return None


def _difference_in_float32(module: BuiltModule, step: Step) -> Difference | None:
    """Compare what the first call gives in float32 with what came in."""
    given = in_float32(step)
    result = module.run({}, given, elsewhere="float32").result
    return difference(result, Expected(given, axes="keys values", exact_dtype=True))


def _steps(steps: Sequence[Step], count: int) -> str:
    tokens = [keys.shape[2] for keys, _ in steps[:count]]
    return f"with {', then '.join(map(str, tokens))} new token{'s' * (tokens[-1] > 1)}"
