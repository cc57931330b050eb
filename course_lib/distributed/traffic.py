"""Writes down what is sent between processes: which operation, which shape, how many bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

SENDING = ("_c10d_functional", "c10d")  # where PyTorch keeps the operations that send
NOTHING_SENT = ("wait_tensor", "_wrap_tensor_autograd")  # they stand there too


class Sent(NamedTuple):
    """One operation between all processes.

    Attributes:
        operation: such as "all_reduce", which adds up a tensor over the processes and gives each the sum.
        shape: of the tensor that each process puts in.
        nbytes: of that tensor. What goes over the wire depends on how the operation is done: a ring of n devices sends
            2 (n - 1) / n of it from each.
    """

    operation: str
    shape: tuple[int, ...]
    nbytes: int


class Traffic(TorchDispatchMode):
    """While it is entered, every operation between processes is written down, those of the backward pass too.

    Attributes:
        sent: in order.

    Example:
        >>> with Traffic() as traffic:
        ...     output = module(x)
        >>> traffic.sent
        [Sent(operation='all_reduce', shape=(2, 5, 24), nbytes=1920)]
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Sent] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Let DTensor do its part first, then write down what it calls."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        namespace, _, name = func.name().partition("::")
        name = name.partition(".")[0]
        if namespace in SENDING and name not in NOTHING_SENT:
            tensor = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
            operation = "all_reduce" if name == "allreduce_" else name  # the in-place one has another name
            self.sent.append(Sent(operation, tuple(tensor.shape), tensor.nbytes))
        return func(*args, **(kwargs or {}))
