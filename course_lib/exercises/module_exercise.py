"""The exercises whose answer is a class, and the one judge for all of them."""

import inspect
from dataclasses import dataclass
from typing import Any

from .answer import Answer
from .input_generator import InputGenerator
from .modules import ModuleJudge, Sizes, construction_sizes
from .verdict import Verdict, not_passed
from .wrong_answers import WithWrongAnswers


@dataclass(frozen=True, kw_only=True)
class ModuleExercise(WithWrongAnswers):
    """An exercise whose answer is a class, which is constructed and run with several sizes and weights.

    Attributes:
        causal: Whether later tokens are hidden.
        kv_heads: How many kv heads there are: "all" for as many as heads, "one", or "any" for the argument
            num_kv_heads.
        in_steps: Whether forward is `forward(x, cache)` and gives back output and cache; it is then called piece by
            piece, and the pieces must be what one pass over all tokens gives.
        cache: Source of a class of caches that takes (batch, num_kv_heads, max_len, head_dim), and its name, if
            forward also takes one as `cache=`; the class is then run in one pass and, without gradients, in pieces.
        keeps_keys: Whether the prompt says that the cache holds the keys and the values, and nothing else.
        any_layout: Whether the prompt names no parameters; then the solution's names mean nothing.
        biases: Whether the prompt allows biases, or says nothing of them.
        rotary: Whether queries and keys are rotated, so that head_dim is even, and other names and layouts of the
            weights are compared with the solution itself.
        any_device: Whether the module must work on any device, as the prompt says.
        in_tiles: Whether scores are computed in tiles; then scores far apart come with more tokens than a tile has.
    """

    causal: bool = True
    kv_heads: str = "all"
    in_steps: bool = False
    cache: tuple[str, str] | None = None
    keeps_keys: bool = False
    any_layout: bool = False
    biases: bool = True
    rotary: bool = False
    any_device: bool = False
    in_tiles: bool = False

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the arguments that the class is constructed with, such as ("d_in", "d_out", "num_heads").

        An argument with a default that is no size of the judge's keeps its default.
        """
        arguments = inspect.signature(self.solution).parameters.items()
        return tuple(name for name, one in arguments if one.default is one.empty or name in Sizes._fields)

    def example(self, rng: InputGenerator) -> list[Any]:
        """See `Exercise`."""
        sizes = construction_sizes(self.takes, self.kv_heads, rng, self.rotary)[0]
        return [*(getattr(sizes, name) for name in self.takes), rng.normal(2, 5, sizes.d_in).float()]

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        if answer.kind == "instance":
            sentence = "The answer is an instance; give the class itself, without parentheses."
            return not_passed(sentence, hint=f"What is the difference between `{self.name}` and `{self.name}(...)`?")
        if answer.kind != "class":
            hint = "Which name do you give to `check`, and what is it bound to?"
            return not_passed(f"The answer is a {answer.kind}; it should be the class itself.", hint=hint)
        return ModuleJudge(self, answer, rng).verdict()
