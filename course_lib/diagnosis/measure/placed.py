"""Run a whole model and examine one attention inside it, with the masks and positions that the model makes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from course_lib.calling import first_tensor
from course_lib.tracing import Trace, trace_run, without_gradients

from .place import Place
from .subject import Subject
from .talking_heads import without


class PlacedSubject(Subject):
    """A module inside a whole: the whole runs on its own input, and the module on x.

    Args:
        whole: the code that the module is a part of.
        place: of the attention in it.
        template: the whole's input, (batch, token, d_in), which is cut or repeated to the sizes of x.
        num_context: how many tokens of the template, the last ones, are a context's.
    """

    def __init__(self, whole: Subject, place: Place, template: Tensor, num_context: int = 0) -> None:
        vars(self).update(vars(whole))
        self.whole, self.place, self.template, self._num_context = whole, place, template, num_context
        self.code = self.copy(torch.float64)

    @property
    def is_module(self) -> bool:
        return True

    def examined_in(self, code: Callable[..., Any]) -> Callable[..., Any]:
        return self._module_of(code)

    def dtype(self, x: Tensor) -> torch.dtype:
        return next((one.dtype for one in self._module_of(self.original).parameters()), x.dtype)

    def copy(self, dtype: torch.dtype, *, training: bool = False) -> Callable[..., Any]:
        code = self.whole.copy(dtype, training=training)
        return self.adapted(code, dtype) if isinstance(code, nn.Module) else code

    def with_code(self, code: Callable[..., Any]) -> Self:
        other = copy(self)
        other.original, other.whole = code, self.whole.with_code(code)
        other.code = other.copy(torch.float64)
        return other

    def call(self, code: Callable[..., Any], x: Tensor) -> Any:
        """Run the whole, with x as the module's input, and return the module's output."""
        feed = _Feed(self.place, x)
        self._run_whole(code, x, feed)
        return feed.output

    def trace(self, x: Tensor, code: Callable[..., Any] | None = None, *, modules: bool = False) -> tuple[Trace, Any]:
        """Trace the module's part of a run; all of it if the module is called in pieces or not reached."""
        code, traced = self.code if code is None else code, []
        if not self.place.in_pieces:
            feed = _Feed(self.place, x, lambda run, piece: traced.append(trace_run(run, piece)) or traced[0][1])
            with without_gradients(), torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(0)
                try:
                    self._run_whole(code, x, feed)
                except Exception as error:
                    if traced and isinstance(traced[0][1], Exception):
                        return traced[0]
                    return trace_run(partial(_raise, error), x)
            return traced[0] if traced else trace_run(partial(_raise, RuntimeError("its module is not called")), x)
        return super().trace(x, code, modules=modules)

    def _module_of(self, code: Any) -> nn.Module:
        found = self.place.module if self.place.path is None else code.get_submodule(self.place.path)
        if found is None:
            raise ValueError(f"{self.place.name} has no module.")
        return found

    def _run_whole(self, code: Callable[..., Any], x: Tensor, feed: "_Feed") -> None:
        num_tokens = x.shape[1] - self.place.num_context
        module = self._module_of(code)
        template = resized(self.template, x.shape[0], num_tokens, self._num_context).to(x.dtype)
        usual = module.forward

        def apart(*args: Any, **kwargs: Any) -> Any:
            with without(self.talking_heads, sys._getframe(), self.caller):
                return usual(*args, **kwargs)

        run = partial(feed.forward, apart if self.talking_heads else usual)
        with self.as_wide_as(x), forward_replaced(module, run):
            try:
                self.whole.call(code, template)
            except Exception:
                if not feed.complete:  # what comes after the module is not its fault
                    raise


class _Feed:
    """Gives a module x, in the pieces in which it is called, and keeps what it returns."""

    def __init__(
        self, place: Place, x: Tensor, around: Callable[[Callable[[Tensor], Any], Tensor], Any] | None = None
    ) -> None:
        self._place, self._x, self._around = place, x, around
        self._called = self._fed = 0
        self._axis = 1
        self._outputs: list[Any] = []

    @property
    def complete(self) -> bool:
        return self._fed == self._x.shape[self._axis] and bool(self._outputs)

    @property
    def output(self) -> Any:
        """The output for all of x.

        Raises:
            RuntimeError: the module was not given each token once.
        """
        if not self.complete:
            raise RuntimeError(f"{self._place.name} is not called once for each token of an input")
        tensors = all(isinstance(one, Tensor) for one in self._outputs)
        return torch.cat(self._outputs, dim=self._axis) if len(self._outputs) > 1 and tensors else self._outputs[0]

    def forward(self, usual: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run the module on the next piece of x."""
        number, place = self._called, self._place
        self._called += 1
        if (place.calls and number not in place.calls) or (not place.in_pieces and self._outputs):
            return usual(*args, **kwargs)
        usual_input: Tensor = {**dict(enumerate(args)), **kwargs}[place.entries[0]]
        returned: list[Any] = []

        def run(piece: Tensor) -> Any:
            given = self._arguments(piece, usual_input)
            positions = [given.get(at, one) for at, one in enumerate(args)]
            names = {name: given.get(name, one) for name, one in kwargs.items()}
            returned.append(usual(*positions, **names))
            return self._as_rows(first_tensor(returned[0]), usual_input)

        piece = self._next_piece(usual_input)
        output = run(piece) if self._around is None else self._around(run, piece)
        if isinstance(output, Exception):
            raise output
        self._outputs.append(output)
        return _copied(returned[0])  # the whole may add to it in place

    def _next_piece(self, usual: Tensor) -> Tensor:
        if not self._place.in_pieces:
            self._fed = self._x.shape[1]
            return self._x
        shape = usual.shape if usual.dim() == 3 else (1, *usual.shape)
        self._axis = 1 if shape[0] == self._x.shape[0] and shape[1] < self._x.shape[1] else 0
        start, self._fed = self._fed, self._fed + shape[self._axis]
        return self._x.narrow(self._axis, start, shape[self._axis])

    def _arguments(self, piece: Tensor, usual: Tensor) -> dict[int | str, Tensor]:
        """Return the tensor for each argument that queries and keys are made from."""
        count, (width, of_context) = self._place.num_context, self._place.widths
        if not count:
            return dict.fromkeys(self._place.entries, self._as_given(piece, usual))
        tokens, context = piece[:, :-count, :width], piece[:, -count:, :of_context]
        found = dict.fromkeys(self._place.entries, self._as_given(tokens, usual))
        return found | dict.fromkeys(self._place.context, self._as_given(context, usual))

    def _as_given(self, piece: Tensor, usual: Tensor) -> Tensor:
        return (
            piece.transpose(0, 1).contiguous() if self._place.tokens_first else piece[0] if usual.dim() == 2 else piece
        )

    def _as_rows(self, output: Any, usual: Tensor) -> Any:
        if not isinstance(output, Tensor):
            return output
        rows = output.transpose(0, 1) if self._place.tokens_first else output[None] if usual.dim() == 2 else output
        if not self._place.num_context or rows.dim() != 3:
            return rows
        return torch.cat([rows, rows.new_zeros(len(rows), self._place.num_context, rows.shape[-1])], dim=1)


@contextmanager
def forward_replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let calls of a module run another function."""
    usual, own = module.forward, "forward" in vars(module)
    module.forward = forward
    try:
        yield
    finally:
        if own:
            module.forward = usual
        else:
            del module.forward


def resized(x: Tensor, batch: int, num_tokens: int, num_context: int = 0) -> Tensor:
    """Return x with a number of samples and tokens, cut off or repeated; the context's tokens behind them all stay."""
    own = x.shape[1] - num_context
    tokens = torch.cat([torch.arange(num_tokens) % own, torch.arange(own, x.shape[1])])
    return x[torch.arange(batch) % x.shape[0]][:, tokens]


def _copied(output: Any) -> Any:
    """Return what a module returned with a copy of its output."""
    if type(output) is tuple and output:
        return (_copied(output[0]), *output[1:])
    return output.clone() if isinstance(output, Tensor) else output


def _raise(error: Exception, x: Tensor) -> Any:
    raise error
