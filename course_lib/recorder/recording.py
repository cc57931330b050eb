"""What a forward pass did, as a list of steps that can be asked, filtered, printed and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from .build import argument_names, steps_of
from .call import Run, tensors_in
from .reach import reachable, tensors_within
from .step import Step
from .table import as_html, as_text


class Recording:
    """The steps of one run.

    Prints as a table, in a terminal and in a notebook. `len`, iteration and `recording[3]` give steps;
    `recording["queries"]` gives the last step of that name.

    Attributes:
        output: what the recorded code gave back; None if it raised.
        error: type and words of what it raised, or None.
    """

    def __init__(
        self,
        run: Run,
        called: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        named: list[tuple[str, nn.Module]],
        output: Any = None,
        error: str | None = None,
    ) -> None:
        self.output = output
        self.error = error
        self._run = run
        self._called = (called, args, kwargs)
        for root in run.roots:
            if root is not called:  # a function called it: its class is its name
                named = [*named, *root.named_modules(prefix=type(root).__name__)]
        # Now, not when somebody asks: the modules may have changed by then.
        self._modules = [(name, module, dict(vars(module))) for name, module in named]
        self._only: Callable[[Step], bool] | None = None
        self._unfolded = False

    @cached_property
    def all_steps(self) -> tuple[Step, ...]:
        """Every step of the run, also where this is a filtered view of it."""
        leaves = {id(tensor): name for name, tensor in self._parameters()} | argument_names(*self._called)
        modules = {id(module): name for name, module, _ in reversed(self._modules)}
        called, args, kwargs = self._called
        code = [getattr(module, "forward", None) for _, module, _ in self._modules] or [called]
        reached = [thing for one in code for thing in reachable(one)]
        kept = tensors_within([*args, *kwargs.values(), *reached, *(own for _, _, own in self._modules)])
        return steps_of(self._run, leaves, modules, self.output, kept)

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that the recorded code was called with, in order."""
        return tuple(tensors_in(self._called[1:]))

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, _, own in reversed(self._modules):
            for kind in ("_buffers", "_parameters"):
                for key, tensor in own[kind].items():
                    if tensor is not None:
                        yield (f"{name}.{key}" if name else key), tensor

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in the order in which they ran; after a filter, those that are left."""
        return tuple(step for step in self.all_steps if self._only is None or self._only(step))

    def layout(self) -> Recording:
        """The same recording, with only the steps that gave numbers another shape, order or place."""
        return self._view(lambda step: step.is_layout, self._unfolded)

    def unused(self) -> Recording:
        """The same recording, with only the steps whose result nothing ever read: usually a mistake."""
        return self._view(lambda step: not step.used, self._unfolded)

    def unfold(self) -> Recording:
        """The same recording, showing under each step what PyTorch ran for it (`step.underneath`)."""
        return self._view(self._only, True)

    def _view(self, only: Callable[[Step], bool] | None, unfolded: bool) -> Recording:
        other = object.__new__(Recording)
        other.__dict__.update(self.__dict__, all_steps=self.all_steps, _only=only, _unfolded=unfolded)
        return other

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, which: int | str) -> Step:
        if isinstance(which, str):
            named = [step for step in self.steps if step.name == which]
            if not named:
                names = ", ".join(dict.fromkeys(step.name for step in self.steps if step.name)) or "none"
                raise KeyError(f"no step is named {which!r}; the names are: {names}")
            return named[-1]
        return self.steps[which]

    def __repr__(self) -> str:
        return as_text(self.steps, self.error, unfolded=self._unfolded)

    def _repr_html_(self) -> str:
        return as_html(self.steps, self.error, unfolded=self._unfolded)
