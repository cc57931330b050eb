"""The exercises whose answer is a class whose queries and keys come from two sequences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.wording import listed

from .answer import Answer, BuiltModule
from .answering import build_module, run_module
from .differences import Difference, Expected, difference
from .edges import in_float32
from .explanation import UNDEFINED
from .function_exercise import QUESTIONS
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .verdict import Verdict, not_passed, not_written, passed, stopped
from .wrong_answers import WithWrongAnswers

NO_MASK, MASK = "without a mask", "with the mask `keep`"
AXES = ("batch", "query", "d_in")


@dataclass(frozen=True, kw_only=True)
class CrossExercise(WithWrongAnswers):
    """An exercise whose answer is a module that is called as `module(x, context, keep)`, where `keep` may be left out.

    It is built as (d_in, d_context, num_heads), gets weights of its parameters' names, and is run without a mask, with
    one per sample, with one per head and query, and in float32; a gradient must reach each parameter.
    """

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        if answer.kind != "class":
            hint = "Which name do you give to `check`, and are there parentheses behind it?"
            return not_passed(f"The answer is a {answer.kind}; it should be the class itself, uncalled.", hint=hint)
        for batch, queries, keys, heads, head_dim, d_context in rng.size_rows(2, 6, 2, 8):
            sizes = heads * head_dim, d_context, heads
            names = {batch: "batch", queries: "query", keys: "key", heads: "head", sizes[0]: "d_in"}
            inputs = rng.normal(batch, queries, sizes[0]), rng.normal(batch, keys, d_context)
            real = rng.normal(batch, 1, 1, keys) > 0
            real[..., 0] = True
            each = rng.normal(batch, heads, queries, keys) > 0
            each[..., -1] = True
            try:
                module = answer.build(sizes, seed=0)
                if (wrong := self._misnamed(module, sizes)) is not None:
                    unwritten = self._unwritten(module, inputs)
                    return wrong if unwritten is None else unwritten
                weights = {name: rng.normal(*shape, std=0.7) for name, shape in module.parameters.items()}
                for asked in (inputs, (*inputs, real), (*inputs, each)):
                    if (wrong := self._wrong(module, sizes, weights, asked)) is not None:
                        return wrong
            except LearnerError as error:
                seen = f"The module was built as {self.name}{sizes}."
                return stopped(error, (self.name, answer.name), names, (seen,))
        return passed("Right with a mask and without, for several sizes.", ())

    def _unwritten(self, module: BuiltModule, inputs: tuple[Tensor, ...]) -> Verdict | None:
        """Say that `forward` is not written, if it is a stub."""
        if not module.forward:
            return None
        try:
            result = module.run({}, inputs).result
        except LearnerError as error:
            return not_written(self.stub) if error.kind == "NotImplementedError" else None
        return not_written(self.stub) if result is None else None

    def _misnamed(self, module: BuiltModule, sizes: Sequence[int]) -> Verdict | None:
        """Judge the parameters, whose names and shapes the prompt gives."""
        if not module.forward:
            sentence = "The class has no method `forward`, so that the module can't be called."
            return not_passed(sentence, hint="Is it spelt `forward`, and indented inside the class?")
        wanted = {name: tuple(one.shape) for name, one in build_module(self.solution, sizes, 0).named_parameters()}
        own = dict(module.parameters)
        built = f"The module was built as {self.name}{tuple(sizes)}."
        for name, shape in wanted.items():
            if name not in own:
                sentence = f"There is no parameter `{name}`; there should be {listed([f'`{one}`' for one in wanted])}."
                return not_passed(sentence, evidence=(built,), hint="What does `__init__` register, and as what?")
            if own[name] != shape:
                sentence = f"`{name}` is {own[name]}; it should be {shape}."
                hint = "Which of the two inputs does this projection read, and how wide is it?"
                return not_passed(sentence, evidence=(built,), hint=hint)
        if more := [name for name in own if name not in wanted]:
            sentence = f"`{more[0]}` is one parameter too many."
            return not_passed(sentence, evidence=(built,), hint="Which of them does the task name?")
        return None

    def _wrong(
        self, module: BuiltModule, sizes: Sequence[int], weights: dict[str, Tensor], asked: tuple[Any, ...]
    ) -> Verdict | None:
        """Judge one call."""
        right = _result(self.solution, sizes, weights, asked)
        ran = module.run(weights, asked, cotangent=torch.ones_like(right))
        if ran.changed:
            return not_passed(f"Your module changes its argument {ran.changed[0] + 1} in place.", "input-modified")
        about = MASK if len(asked) > 2 else NO_MASK
        seen = (f"The module was built as {self.name}{tuple(sizes)} and called {about}.",)
        if found := difference(ran.result, Expected(right, axes=" ".join(AXES))):
            return self._explained(ran.result, found, sizes, weights, asked, seen)
        if dead := [name for name, gradient in ran.gradients.items() if gradient is None and name in weights]:
            sentence = f"The numbers are right, and no gradient reaches `{dead[0]}`."
            return not_passed(sentence, evidence=seen, hint="Which line cuts it off: `detach`, `.data`, `.item()`?")
        in_single = module.run(weights, in_float32(asked), elsewhere="float32").result
        if found := difference(in_single, Expected(in_float32((right,))[0], rounding=1e-2, exact_dtype=True)):
            hint = QUESTIONS[found.kind]
            return not_passed(found.sentence, found.mistake, evidence=("It was run in float32.",), hint=hint)
        return None

    def _explained(
        self,
        result: Any,
        found: Difference,
        sizes: Sequence[int],
        weights: dict[str, Tensor],
        asked: tuple[Any, ...],
        seen: tuple[str, ...],
    ) -> Verdict:
        """Name what a wrong module computes, if it is one of the known wrong answers."""
        for known in self.known:
            try:
                same = difference(result, Expected(_result(known.code, sizes, weights, asked))) is None
            except UNDEFINED:
                continue
            if same:
                sentence = f"Your module gives back {known.equals}."
                return not_passed(sentence, known.mistake, evidence=(found.sentence, *seen), hint=known.hint)
        hint = "Give it one sample, one query and one key: which line gives another number than you expect?"
        return not_passed(found.sentence, found.mistake, evidence=seen, hint=hint)


def _result(code: Callable[..., Any], sizes: Sequence[int], weights: dict[str, Tensor], asked: tuple[Any, ...]) -> Any:
    return run_module(build_module(code, sizes, 0), weights, asked)["result"]
