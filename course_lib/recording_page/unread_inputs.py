"""Find the tensors of which a call reads only the shape, dtype or memory: `q` in `x.type_as(q)`."""

from torch import Tensor

from course_lib.recorder import TO_TYPE, Step
from course_lib.tracing import tensors_in

MAKING = ("fill_", "zero_", "normal_", "uniform_", "random_", "exponential_", "bernoulli_", "trunc_normal_")


def unread_inputs(step: Step) -> list[Tensor]:
    """Return the tensors of a call whose numbers can't affect its result.

    Calls that make new numbers read none of their first tensor, those that change shape or type as another tensor has
    it none of that one, and none reads what `out` held.
    """
    args, out = list(step.call.args), step.call.kwargs.get("out")
    named = {name: value for name, value in step.call.kwargs.items() if name != "out"}
    first = args.pop(0) if args else named.pop("input", named.pop("self", None))
    others = [*tensors_in((args, named))]
    read = [] if is_making(step.op) else [first]
    read += [] if is_like_another(step.op) else others
    return [tensor for tensor in step.call.tensors if tensor is out or not _holds(read, tensor)]


def is_making(op: str) -> bool:
    """Return whether an operation makes new numbers in the shape of its first tensor, such as `new_zeros`."""
    return op in MAKING or op.startswith("new_") or op.endswith("_like")


def is_like_another(op: str) -> bool:
    """Return whether an operation takes only a shape or dtype from its second tensor, as `type_as` does."""
    return op in TO_TYPE or op.removesuffix("_").endswith("_as")


def _holds(read: list, tensor: Tensor) -> bool:
    return any(tensor is other for other in tensors_in(read))
