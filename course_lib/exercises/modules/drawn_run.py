"""One run of a module: the weights and inputs that are drawn for it, and what is asked of the learner's module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from course_lib.exercises.answer import Answer, Asked
from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.input_generator import InputGenerator

from .biases import Run
from .layouts import CandidateLayouts
from .sizes import RunSizes, Sizes, draw_pieces, make_cache
from .task import ModuleTask


@dataclass(frozen=True)
class DrawnRun:
    """One run, before it is made.

    Attributes:
        sizes: Its numbers of samples and tokens, and its mode.
        weights: Name of a parameter -> its values.
        x: (batch, token, d_in).
        cotangent: The gradient of the output, (batch, token, d_out); None runs no backward pass.
        steps: The numbers of tokens of the pieces of x, or none.
        cache: What makes the cache that is handed in, or None.
    """

    sizes: RunSizes
    weights: Mapping[str, Tensor]
    x: Tensor
    cotangent: Tensor | None
    steps: Sequence[int]
    cache: FromSource | None

    @property
    def about(self) -> str:
        """Say what is special about the run."""
        return self.sizes.about + (f" in pieces of {', '.join(map(str, self.steps))}" if self.in_pieces else "")

    @property
    def in_pieces(self) -> bool:
        """Whether there are several pieces, so that a cache is read."""
        return len(self.steps) > 1

    @property
    def at_once(self) -> DrawnRun:
        """The same run in one piece, in which no cache is read."""
        return replace(self, steps=[self.sizes.num_tokens])

    def asked(self) -> list[Asked]:
        """Return the run, and the same one in evaluation if its result must be the same."""
        options = {"steps": self.steps, "cotangent": self.cotangent, "cache": self.cache}
        modes = (self.sizes.training, False) if self.sizes.repeated else (self.sizes.training,)
        return [Asked(self.weights, (self.x,), {"training": training, **options}) for training in modes]


def draw_run(task: ModuleTask, layouts: CandidateLayouts, run: RunSizes, rng: InputGenerator) -> DrawnRun:
    """Draw what one run is made with."""
    sizes: Sizes = layouts.sizes
    weights = layouts.draw_weights(rng)
    x = rng.normal(run.batch, run.num_tokens, sizes.d_in, std=run.std)
    if run.std > 1:
        x[:, -1] = 0.0  # whose scores are 0, too, and must not be taken for hidden ones
    cotangent = None if run.cached or run.far else rng.normal(run.batch, run.num_tokens, sizes.d_out)
    steps = _pieces(task, run, rng)
    return DrawnRun(run, weights, x, cotangent, steps, make_cache(task.cache, run, sizes))


def built_anew(
    task: ModuleTask, answer: Answer, layouts: CandidateLayouts, run: RunSizes, rng: InputGenerator
) -> tuple[Run, dict[str, Tensor], Tensor]:
    """Return what runs a new module with given weights on x, weights for it, and x."""
    x, steps = rng.normal(run.batch, run.num_tokens, layouts.sizes.d_in), _pieces(task, run, rng)
    seed = rng.integer(2**31)
    arguments = [getattr(layouts.sizes, name) for name in task.takes]

    def result(weights: Mapping[str, Tensor]) -> Any:
        return answer.build(arguments, seed).run(weights, (x,), steps=steps).result

    return result, layouts.draw_weights(rng), x


def _pieces(task: ModuleTask, run: RunSizes, rng: InputGenerator) -> list[int]:
    return draw_pieces(run.num_tokens, rng) if task.in_steps or run.cached else []
