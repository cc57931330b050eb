"""The steps of a forward pass as a list that can be searched, filtered, printed and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from course_lib.tracing import SourceLine, tensors_in

from .call import CallLog
from .reachability import reachable_from, reachable_tensors
from .step import Step
from .steps_builder import argument_names, build_steps
from .table import as_html, as_text


class Recording:
    """The steps of one run.

    Prints as a table, in a terminal and in a notebook. `len`, iteration and `recording[3]` give steps;
    `recording["queries"]` gives the last step of that name.

    Attributes:
        output: what the recorded code returned; None if it raised.
        error: type and message of the exception that it raised, or None.
        error_line: the line of the author's code that raised it, "file.py:12", or None.
    """

    def __init__(
        self,
        log: CallLog,
        called: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        named: list[tuple[str, nn.Module]],
        output: Any = None,
        error: str | None = None,
    ) -> None:
        self.output = output
        self.error = error
        self.error_line: SourceLine | None = None
        self._log = log
        self._called = (called, args, kwargs)
        for root in log.roots:
            if root is not called:  # the name of a module that a function called is its class
                named = [*named, *root.named_modules(prefix=type(root).__name__)]
        # Copied now: the modules may have changed by the time the steps are built.
        self._modules = [(name, module, dict(vars(module))) for name, module in named]
        self._only: Callable[[Step], bool] | None = None
        self._expanded = False

    @cached_property
    def all_steps(self) -> tuple[Step, ...]:
        """Every step of the run, even if the recording is filtered."""
        leaves = {id(tensor): name for name, tensor in self._parameters()} | argument_names(*self._called)
        modules = {id(module): name for name, module, _ in reversed(self._modules)}
        called, args, kwargs = self._called
        code = [module.forward for _, module, _ in self._modules] or [called]
        captured = [value for function in code for value in reachable_from(function)]
        attributes = [owner for _, _, owner in self._modules]
        kept = reachable_tensors([*args, *kwargs.values(), *captured, *attributes])
        return build_steps(self._log, leaves, modules, self.output, kept)

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that the recorded code was called with, in order."""
        return tuple(tensors_in(self._called[1:]))

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, module, _ in reversed(self._modules):
            yield from module.named_buffers(name, recurse=False)
            yield from module.named_parameters(name, recurse=False)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in the order in which they ran, without those that a filter removed."""
        return tuple(step for step in self.all_steps if self._only is None or self._only(step))

    def layout(self) -> Recording:
        """The same recording, with only the steps that gave elements a different shape, order or memory."""
        return self._view(lambda step: step.is_layout, self._expanded)

    def unused(self) -> Recording:
        """The same recording, with only the steps whose result nothing read: usually a mistake."""
        return self._view(lambda step: not step.used, self._expanded)

    def expand(self) -> Recording:
        """The same recording, showing below each step what PyTorch ran for it (`step.aten_ops`)."""
        return self._view(self._only, True)

    @property
    def title(self) -> str:
        """The name of what was recorded: a class, or a function."""
        called = self._called[0]
        return type(called).__name__ if isinstance(called, nn.Module) else getattr(called, "__name__", "recorded run")

    def save_page(
        self, path: str | PathLike[str], *, words: Sequence[object] | None = None, title: str | None = None
    ) -> Path:
        """Write a page for stepping through the run and following each number back and forth.

        The page is one file, which opens in any browser without a server and asks no other one for anything.

        Args:
            path: of the file to write, ending in .html; its folder must exist.
            words: labels of the tokens; their indices if None.
            title: of the page; the name of the recorded class or function if None.

        Returns:
            The path of the file.

        Raises:
            ValueError: path does not end in .html, or its folder does not exist.
            TypeError: path or title is not a text, or words is a single text.
        """
        # A package above this one, which imports it: tests/project names this exception to the one way of imports.
        from course_lib.recording_page import save_page

        return save_page(self, path, words=words, title=title)

    def _view(self, only: Callable[[Step], bool] | None, expanded: bool) -> Recording:
        other = object.__new__(Recording)
        other.__dict__.update(self.__dict__, all_steps=self.all_steps, _only=only, _expanded=expanded)
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
        return as_text(self.steps, self.error, expanded=self._expanded)

    def _repr_html_(self) -> str:
        return as_html(self.steps, self.error, expanded=self._expanded)
