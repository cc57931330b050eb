"""The exercises whose answer is a key-value cache, which is filled step by step."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from torch import Tensor

from course_lib.wording import counted, listed

from .answer import Answer, BuiltModule, Ran
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
    is full, once more, where it must raise a ValueError, and once in float32. One that has refused tokens must be as it
    was before; its room must be reserved in buffers, and stay there.

    Attributes:
        rolling: Whether it is built as (batch, num_kv_heads, window, head_dim, num_sinks), gets one token at a time,
            is never full, and returns the tokens that it keeps in any order.
    """

    rolling: bool = False

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        if answer.kind != "class":
            hint = "Which name do you give to `check`, and are there parentheses behind it?"
            return not_passed(f"The answer is a {answer.kind}; it should be the class itself, uncalled.", hint=hint)
        for sizes, steps in _draw_rolling(rng) if self.rolling else _draw(rng):
            names: dict[int, str] = dict(
                zip((sizes[0], sizes[1], sizes[3]), ("batch", "kv head", "head_dim"), strict=True)
            )
            ran: list[Ran] = []  # of each step so far
            try:
                if (wrong := self._filled(answer, sizes, steps, ran)) is not None:
                    return wrong
                refusal = None if self.rolling else _after_refusal(answer.build(sizes, seed=0), steps, ran[-1])
                if refusal is not None:
                    return refusal
                numbers = 2 * math.prod((*sizes[:2], sizes[2] + sum(sizes[4:]), sizes[3]))
                if (wrong := _not_reserved(answer.build(sizes, seed=0), numbers, ran)) is not None:
                    return wrong
            except LearnerError as error:
                before = (f"Before, it was called {_steps(steps, len(ran))}.",) if ran else ()
                return stopped(error, (self.name, answer.name), names, before)
        return passed("Right in every step, for caches of different sizes.", ())

    def _filled(self, answer: Answer, sizes: Sequence[int], steps: Sequence[Step], ran: list[Ran]) -> Verdict | None:
        """Judge a cache that is filled by the steps, whose runs are added to the list, and called once more."""
        module = answer.build(sizes, seed=0)
        if not module.forward:
            sentence = "The class has no method `forward`, so that the module can't be called."
            return not_passed(sentence, hint="Is it spelt `forward`, and indented inside the class?")
        for number, step in enumerate(steps):
            one = module.run({}, step, counted=True)
            result = copied(one.result)  # a later call may write into the same memory
            ran.append(one._replace(result=_in_order(result) if self.rolling else result))
            if one.changed:
                return not_passed("Your cache changes the new keys or values in place.", "input-modified")
            results = [each.result for each in ran]
            if found := _difference(results, self.solution, sizes, steps, self.rolling):
                return self._wrong(results, number, found, sizes, steps)
        if found := _difference_in_float32(answer.build(sizes, seed=0), steps[0]):
            seen = ("The first keys and values were float32.",)
            return not_passed(found.sentence, found.mistake, evidence=seen, hint=QUESTIONS[found.kind])
        for one, held in zip(ran, accumulate(keys.shape[2] for keys, _ in steps), strict=True):
            if one.length != held:
                return _uncounted(one.length, held)
        return None if self.rolling else _overfull(module, steps[1], 0)

    def _wrong(
        self, results: Sequence[Any], number: int, found: Difference, sizes: Sequence[int], steps: Sequence[Step]
    ) -> Verdict:
        evidence = (f"Seen in call {number + 1}: {_steps(steps, number + 1)}.",)
        for known in self.known:
            try:
                same = _difference(results, known.code, sizes, steps, self.rolling) is None
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
    """Draw two caches and their steps: some tokens, one, two, three, and one more, which fill it."""
    drawn = []
    for batch, kv_heads, width, first in rng.size_rows(2, 4, 2, 8):
        counts = [first, 1, 2, 3, 1]
        steps = [tuple(rng.normal(batch, kv_heads, count, width) for _ in range(2)) for count in counts]
        drawn.append(((batch, kv_heads, sum(counts), width), steps))
    return drawn


def _draw_rolling(rng: InputGenerator) -> list[tuple[tuple[int, ...], list[Step]]]:
    """Draw rolling caches with more sinks than a window, none and fewer, and their steps: one token each, 3 rounds."""
    drawn = []
    for index, (batch, kv_heads, one, width, other) in enumerate(rng.size_rows(3, 5, 2, 9)):
        few, many = sorted((one, other))
        window, num_sinks = ((few, many), (one, 0), (many, few))[index]
        steps = [
            (rng.normal(batch, kv_heads, 1, width), rng.normal(batch, kv_heads, 1, width))
            for _ in range(num_sinks + 3 * window + 1)
        ]
        drawn.append(((batch, kv_heads, window, width, num_sinks), steps))
    return drawn


def _in_order(result: Any) -> Any:
    """Sort tokens by the first number of their keys: the order of slots is free, if it is that of the values, too."""
    tensors = isinstance(result, (tuple, list)) and len(result) == 2 and all(isinstance(one, Tensor) for one in result)
    if not tensors or result[0].dim() != 4 or result[0].shape[:3] != result[1].shape[:3] or not result[0].numel():
        return result
    order = result[0][0, 0, :, 0].argsort()
    return tuple(one[:, :, order] for one in result)


def _uncounted(length: int | None, held: int) -> Verdict:
    """Judge a cache that holds the right tokens and doesn't say how many in `length`, where attention reads it."""
    given = "has no integer `length`" if length is None else f"says in `length` that it holds {length}"
    sentence = f"After {counted(held, 'token')} your cache {given}; `length` should be {held}."
    return not_passed(sentence, hint="Under which name do you count the tokens so far? The attention reads it.")


def _overfull(module: BuiltModule, step: Step, room: int) -> Verdict | None:
    """Judge what a cache does with more tokens than it has room for."""
    does = "is taken without an error"
    try:
        module.run({}, step)
    except LearnerError as error:
        if error.kind == "ValueError":
            return None
        does = f"raises the error {error.kind}"
    new = counted(step[0].shape[2], "new token")
    sentence = f"A call with {new} and room for {room} {does}; it should raise a ValueError."
    return not_passed(sentence, hint="Where is the new length compared with the room, before anything is written?")


def _after_refusal(module: BuiltModule, steps: Sequence[Step], last: Ran) -> Verdict | None:
    """Judge a cache that refuses two tokens where there is room for one, and takes one after that."""
    for step in steps[:-1]:
        module.run({}, step)
    if (wrong := _overfull(module, steps[2], 1)) is not None:
        return wrong
    try:
        ran = module.run({}, steps[-1])
        found = difference(ran.result, Expected(last.result, axes="keys values"))
        if ran.length == last.length and found is None:
            return None
        seen = f"its `length` is {ran.length}; it should be {last.length}." if found is None else found.sentence
        seen = f"Then one token came: {seen}"
    except LearnerError as error:
        seen = f"Then one token came, and there was room for it: {error.sentence}"
    sentence = "Your cache raises the ValueError for two tokens too late: it is no longer what it was before them."
    hint = "Where is the new length compared with the room, before anything is written or counted?"
    return not_passed(sentence, evidence=(seen,), hint=hint)


def _not_reserved(module: BuiltModule, wanted: int, ran: Sequence[Ran]) -> Verdict | None:
    """Judge a cache whose results are right by where it keeps them: in buffers that are made once, and nowhere else."""
    plain = [f"`{name}`" for name in module.plain_tensors]
    if module.buffered < wanted:
        sentence = (
            f"The results are right, but the buffers hold {module.buffered} numbers after `__init__`, not {wanted}."
        )
        seen = (f"What `.to(device)` leaves behind: {listed(plain)}.",) if plain else ()
        hint = "Which tensor did you register as a buffer, and for how many tokens does it have room?"
        return not_passed(sentence, evidence=seen, hint=hint)
    if ran[-1].held > wanted:
        sentence = (
            f"The results are right, but after {len(ran)} calls the cache keeps {ran[-1].held} numbers, not {wanted}."
        )
        return not_passed(sentence, hint="What does the module keep of a token that no later call returns?")
    if not (moved := ran[-1].moved):
        return None
    sentence = f"The results are right, but a call makes `{moved[0]}` anew, and copies all tokens so far."
    return not_passed(sentence, hint="How do you write into a slice of a tensor that is there?")


def _difference(
    results: Sequence[Any], code: Callable[..., Any], sizes: Sequence[int], steps: Sequence[Step], rolling: bool = False
) -> Difference | None:
    """Compare the results so far with those of a class that is built and called in the same way."""
    module = build_module(code, sizes, 0)
    for result, step in zip(results, steps, strict=False):
        expected = tuple(run_module(module, {}, step)["result"])
        expected = _in_order(expected) if rolling else expected
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
