"""What an exercise asks of an answer, wherever its code runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Called(NamedTuple):
    """What one call of a function gave.

    Attributes:
        result: What it returned.
        changed: The indices of the arguments that it changed in place.
    """

    result: Any
    changed: Sequence[int]


class Backward(NamedTuple):
    """What a backward pass through a function gave.

    Attributes:
        gradients: For each floating-point tensor of the arguments, in order, its gradient, or None.
        failed: The text of the error with which PyTorch stopped, or "".
    """

    gradients: Sequence[Tensor | None]
    failed: str


class Ran(NamedTuple):
    """What one run of a module gave.

    Attributes:
        result: What it returned.
        changed: The indices of the inputs that it changed in place.
        gradients: Name of a parameter -> its gradient, or None where none arrived.
        made: The parameters that forward made while it ran, such as "Linear (24, 24)".
        length: What its attribute `length` is afterwards, if that is an integer, as in a cache.
        kept: The numbers in the cache after the last of several pieces, in ascending order.
        moved: The names of the buffers that are other memory than before.
        held: How many floating-point numbers fit into the memory that its attributes hold afterwards, if counted.
        products: The multiplications of the matrix products in each piece, if they were counted.
    """

    result: Any
    changed: Sequence[int]
    gradients: Mapping[str, Tensor | None]
    made: Sequence[str] = ()
    length: int | None = None
    kept: Tensor | None = None
    moved: Sequence[str] = ()
    held: int = 0
    products: Sequence[int] = ()


class Asked(NamedTuple):
    """One run that is asked of a module.

    Attributes:
        weights: Name of a parameter -> its values.
        inputs: The arguments of forward.
        options: Those of `answering.run_module`.
    """

    weights: Mapping[str, Tensor]
    inputs: Sequence[Any]
    options: Mapping[str, Any]


class BuiltModule(Protocol):
    """A module that was constructed from a learner's class."""

    @property
    def parameters(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape, in order of registration; a shared parameter is named once."""
        ...

    @property
    def forward(self) -> bool:
        """Whether its class defines `forward`."""
        ...

    @property
    def plain_modules(self) -> Sequence[str]:
        """The names of attributes that hold modules which are not registered."""
        ...

    @property
    def plain_tensors(self) -> Sequence[str]:
        """The names of attributes that hold floating-point tensors which are not registered."""
        ...

    @property
    def buffered(self) -> int:
        """How many floating-point numbers its buffers hold."""
        ...

    @property
    def shared(self) -> Mapping[str, str]:
        """Name of a parameter that is another one under a second name -> the first name."""
        ...

    @property
    def dtypes(self) -> Mapping[str, str]:
        """Name of a floating-point parameter -> its dtype, where that is not PyTorch's default."""
        ...

    def run(self, weights: Mapping[str, Tensor], inputs: Sequence[Any], **options: Any) -> Ran:
        """Load weights and run it in float64; the options are those of `answering.run_module`.

        Raises:
            LearnerError: If the code raises an error.
        """
        ...

    def runs(self, asked: Sequence[Asked]) -> Iterator[Ran]:
        """Run it several times, one after the other, as `run` does; a run that nobody waits for may not be made.

        Raises:
            LearnerError: In the turn of the run that raises an error.
        """
        ...


class Answer(Protocol):
    """A learner's answer to one exercise.

    Attributes:
        name: What its code is called; the exercise's name, if nothing else is known.
        kind: "function", "class", "instance" of a module or, for anything else, the name of its type.
        is_empty: Whether it is None, an ellipsis, or a function without a body.
    """

    name: str
    kind: str
    is_empty: bool

    def call(self, arguments: Sequence[Any], seed: int) -> Called:
        """Call the function on copies of its arguments.

        Raises:
            LearnerError: If the code raises an error.
        """
        ...

    def calls(self, calls: Sequence[Sequence[Any]]) -> Iterator[Called]:
        """Call the function several times, one after the other, with the seeds 0, 1, 2 and so on.

        Raises:
            LearnerError: In the turn of the call that raises an error.
        """
        ...

    def backwards(self, calls: Sequence[tuple[Sequence[Any], Sequence[Tensor]]]) -> Iterator[Backward]:
        """Call it with arguments and send gradients back from its result, as `answering.call_backward`; as in `calls`.

        Raises:
            LearnerError: In the turn of the call that takes too long.
        """
        ...

    def build(self, sizes: Sequence[int], seed: int) -> BuiltModule:
        """Construct the class.

        Raises:
            LearnerError: If the code raises an error, or what it builds is no `nn.Module`.
        """
        ...

    def diagnose(self, sizes: Sequence[int], x: Tensor, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the doctor's findings as plain data, of a module that is built with these sizes; [] if it has none.

        Raises:
            LearnerError: If the code raises an error.
        """
        ...
