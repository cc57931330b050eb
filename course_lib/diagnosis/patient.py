"""The code under examination: it is run on copies only, so that nothing of it or of its inputs changes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .copies import OnCopies
from .lines import OURS, Line, last_line
from .trace import Trace, write_down


class PatientFailed(RuntimeError):
    """The patient raised, or gave back something that is no tensor; the words say what and where.

    Attributes:
        line: "file.py:12" of the innermost line of the patient, or None.
    """

    def __init__(self, words: str, line: str | None = None) -> None:
        super().__init__(words)
        self.line = line


class Patient:
    """A module or function in 64 bits, in evaluation, with a random stream of its own.

    Args:
        code: a module, of which a copy is made, or a function.
        call: how to run it: (code, x) -> output, where the code takes or gives more than one tensor. Without it
            queries, keys and values are all x where three tensors are wanted, and the first of several results counts.

    Raises:
        TypeError: code that can't be called.
    """

    def __init__(self, code: Callable[..., Any], call: Callable[[Any, Tensor], Any] | None = None) -> None:
        if not callable(code):
            raise TypeError(f"module_or_function must be a module or a function, got {type(code).__name__}.")
        self.original = code
        self.code = self.copy(torch.float64)
        self.call = self._on_copies(call or _usual_call(code))
        self.examiner = getattr(call, "__code__", None)

    def _on_copies(self, call: Callable[[Any, Tensor], Any]) -> Callable[[Any, Tensor], Any]:
        """The same call; for a function on copies of what is around it."""
        if isinstance(self.original, nn.Module):
            return call

        def on_copies(code: Any, x: Tensor) -> Any:
            with OnCopies(x):
                return call(code, x)

        return on_copies

    def copy(self, dtype: torch.dtype, *, training: bool = False) -> Callable[..., Any]:
        """A copy of the module on the CPU, in a dtype; a function is itself."""
        if not isinstance(self.original, nn.Module):
            return self.original
        return copy.deepcopy(self.original, _kept(self.original)).to("cpu", dtype).train(training)

    def trace(self, x: Tensor, code: Callable[..., Any] | None = None) -> tuple[Trace, Any]:
        """Run it as `run` does and write down what it did; what came out may be an exception."""
        return write_down(lambda given: self.call(self.code if code is None else code, given), x, self.examiner)

    def run(self, x: Tensor, code: Callable[..., Any] | None = None, *, seed: int = 0) -> Tensor:
        """Run the patient on a copy of x.

        Args:
            x: (batch, token, d_in).
            code: a copy to run; a fresh one in 64 bits if None.
            seed: of the random numbers it may draw.

        Returns:
            Its output.

        Raises:
            PatientFailed: it raised, or did not give back a tensor.
        """
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            try:
                output = self.call(self.copy(torch.float64) if code is None else code, x.clone())
            except Exception as error:
                raise PatientFailed(f"{type(error).__name__}: {error}", line_of(error)) from error
        if not isinstance(output, Tensor):
            raise PatientFailed(f"it gave back {type(output).__name__} instead of a tensor")
        return output


def _kept(module: nn.Module) -> dict[int, Tensor]:
    """Copies of the results that modules keep: PyTorch copies no tensor that came out of a computation."""
    found: dict[int, Tensor] = {}
    todo = [value for one in module.modules() for value in vars(one).values()]
    while todo:
        thing = todo.pop()
        if isinstance(thing, Tensor) and not thing.is_leaf:
            found[id(thing)] = thing.detach().clone()
        elif isinstance(thing, (tuple, list)):
            todo.extend(thing)
        elif type(thing) is dict:
            todo.extend(thing.values())
    return found


def _usual_call(code: Callable[..., Any]) -> Callable[[Any, Tensor], Any]:
    if isinstance(code, nn.MultiheadAttention):
        return lambda code, x: _library_call(code, x)
    function = code.forward if isinstance(code, nn.Module) else code
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    count = 3 if len(needed) == 3 and [p.name[:1].lower() for p in needed] == ["q", "k", "v"] else 1
    return lambda code, x: first_tensor(code(*[x] * count))


def first_tensor(output: Any) -> Any:
    """The output of code that also gives back weights or a cache."""
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], Tensor):
        return output[0]
    return output


def _library_call(module: nn.MultiheadAttention, x: Tensor) -> Tensor:
    """nn.MultiheadAttention as this course uses it: causal by the mask that it is given."""
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    given = x if module.batch_first else x.transpose(0, 1)
    output, _ = module(given, given, given, attn_mask=hidden, need_weights=False)
    return output if module.batch_first else output.transpose(0, 1)


def line_of(error: BaseException) -> Line | None:
    """The innermost line that is the patient's own, not PyTorch's and not the doctor's: "attention.py:12"."""
    return last_line(error, OURS)
