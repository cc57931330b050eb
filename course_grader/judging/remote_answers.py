"""A student's answer in the sandbox, which exercises judge as they judge a learner's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from course_grader.sandbox import ModuleState, OpaqueValue
from course_grader.submissions import escape_hidden
from course_lib.exercises import Asked, Backward, Called, LearnerError, Ran

from .remote_notebook import RemoteNotebook, safe_texts

INVALID = "what it reported was not a valid answer"
EMPTY = ("NoneType", "ellipsis")


class RemoteAnswer:
    """A student's function or class, called with the same inputs as the solution; see `Answer` of the exercises.

    Args:
        notebook: Its notebook, which is loaded.
        name: Its name.
        diagnosed: Asks the doctor, in a sandbox of its own: (sizes, x, options) -> findings.
    """

    def __init__(self, notebook: RemoteNotebook, name: str, diagnosed: Callable[..., list[Mapping[str, Any]]]) -> None:
        self._notebook, self.name = notebook, name
        self.kind = notebook.kinds.get(name, "")
        self.is_empty = self.kind in EMPTY
        self.diagnose = diagnosed

    def call(self, arguments: Sequence[Any], seed: int) -> Called:
        """See `Answer`."""
        return next(self._called([{"arguments": list(arguments), "seed": seed}]))

    def calls(self, calls: Sequence[Sequence[Any]]) -> Iterator[Called]:
        """See `Answer`."""
        return self._called([{"arguments": list(call), "seed": seed} for seed, call in enumerate(calls)])

    def _called(self, calls: Sequence[dict[str, Any]]) -> Iterator[Called]:
        for message in self._notebook.ask_all([("call", {"name": self.name, **request}) for request in calls]):
            yield Called(plain_result(message.get("result")), _indices(message.get("changed")))

    def backwards(self, calls: Sequence[tuple[Sequence[Any], Sequence[Tensor]]]) -> Iterator[Backward]:
        """See `Answer`; the text of an error is a student's own and isn't passed on."""
        requests = [
            {"name": self.name, "arguments": list(arguments), "cotangents": list(cotangents), "seed": seed}
            for seed, (arguments, cotangents) in enumerate(calls)
        ]
        for message in self._notebook.ask_all([("backward", request) for request in requests]):
            gradients = message.get("gradients")
            if not isinstance(gradients, (list, tuple)):
                raise _invalid()
            failed = escape_hidden(str(message.get("failed") or ""), 240)
            yield Backward([gradient if isinstance(gradient, Tensor) else None for gradient in gradients], failed)

    def build(self, sizes: Sequence[int], seed: int) -> RemoteModule:
        """See `Answer`."""
        message = self._notebook.ask("build", name=self.name, sizes=tuple(sizes), seed=seed)
        if "no_module" in message:
            kind = escape_hidden(str(message["no_module"]), 60)
            reason = f"it gives a {kind}, no `nn.Module`: write `class {self.name}(nn.Module)`"
            raise LearnerError({"kind": "TypeError", "message": reason})
        return RemoteModule(self._notebook, message)


class RemoteModule:
    """A module constructed in the sandbox, which is lost when its process ends; see `BuiltModule`.

    Raises:
        LearnerError: If the process reported something else than parameters.
    """

    def __init__(self, notebook: RemoteNotebook, message: Mapping[str, Any]) -> None:
        self._notebook, self._session = notebook, notebook.session
        self._number = message.get("built")
        shapes = message.get("parameters")
        if not isinstance(shapes, dict) or not all(_is_shape(shape) for shape in shapes.values()):
            raise _invalid()
        self.parameters = {str(name): tuple(shape) for name, shape in shapes.items()}
        self.forward = message.get("forward") is not False
        self.plain_modules = safe_texts(message.get("plain_modules"))
        self.plain_tensors = safe_texts(message.get("plain_tensors"))
        buffered = message.get("buffered")
        self.buffered = buffered if type(buffered) is int else 0
        self.shared, self.dtypes = _texts(message.get("shared")), _texts(message.get("dtypes"))

    def run(self, weights: Mapping[str, Tensor], inputs: Sequence[Any], **options: Any) -> Ran:
        """See `BuiltModule`."""
        return next(self.runs([Asked(weights, inputs, options)]))

    def runs(self, asked: Sequence[Asked]) -> Iterator[Ran]:
        """See `BuiltModule`."""
        self._notebook.skip()
        if self._session is not self._notebook.session:
            raise LearnerError({"kind": "this", "message": "its process ended before"})
        requests = [
            {"weights": dict(run.weights), "inputs": list(run.inputs), "options": dict(run.options)} for run in asked
        ]
        return map(_ran, self._notebook.ask_all([("run", {"module": self._number, **request}) for request in requests]))


def plain_result(result: Any) -> Any:
    """Convert a result for the judges: anything but plain data becomes an object whose type has the right name."""
    if isinstance(result, OpaqueValue):
        return type(escape_hidden(result.kind) or "thing", (), {"__module__": "__main__"})()  # as at home
    if isinstance(result, ModuleState):
        return ModuleState(escape_hidden(result.kind, 60) or "module", result.state, result.settings)
    if isinstance(result, str):
        return escape_hidden(result, 200)
    if isinstance(result, (tuple, list, set)):
        return type(result)(plain_result(element) for element in result)
    if isinstance(result, dict):
        return {key: plain_result(value) for key, value in result.items()}
    return result


def _ran(message: Mapping[str, Any]) -> Ran:
    gradients = message.get("gradients")
    if not isinstance(gradients, dict):
        raise _invalid()
    sound = {name: g if isinstance(g, Tensor) else None for name, g in gradients.items() if isinstance(name, str)}
    changed, made = _indices(message.get("changed")), safe_texts(message.get("made"))
    length, kept = message.get("length"), message.get("kept")
    numbers = kept.flatten().double() if isinstance(kept, Tensor) and kept.is_floating_point() else None
    held = length if type(length) is int else None, numbers
    memory, products = message.get("held"), message.get("products")
    counts = [one for one in products if type(one) is int] if isinstance(products, (list, tuple)) else []
    kept_in = safe_texts(message.get("moved")), memory if type(memory) is int else 0, counts
    return Ran(plain_result(message.get("result")), changed, sound, made, *held, *kept_in)


def _indices(value: Any) -> list[int]:
    """Return indices that a student's process reports, if they are such."""
    if not isinstance(value, (list, tuple)) or not all(type(index) is int and 0 <= index < 20 for index in value):
        raise _invalid()
    return list(value)


def _texts(value: Any) -> dict[str, str]:
    """Return the pairs of texts in a dict that a student's process reports, made harmless."""
    pairs = (safe_texts(pair) for pair in (value if isinstance(value, dict) else {}).items())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(size) is int for size in value)


def _invalid() -> LearnerError:
    return LearnerError({"kind": "this", "message": INVALID})
