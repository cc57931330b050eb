"""Copy arguments, so that a learner's code may change them."""

import copy
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from course_lib.tracing import map_instances

from .answering.from_source import FromSource


def copied(value: Any) -> Any:
    """Copy each tensor and module in a value."""
    return map_instances(nn.Module, copy.deepcopy, map_instances(Tensor, Tensor.clone, value))


def built(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of arguments, in which every `FromSource` is what it makes of copies of its own."""
    return tuple(
        replace(one, arguments=copied(one.arguments)).build() if isinstance(one, FromSource) else copied(one)
        for one in arguments
    )
