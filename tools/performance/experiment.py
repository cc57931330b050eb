"""Experiments, whose cases must give the same result and are measured together, and groups of experiments."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import torch
from torch import nn

from course_lib.timing import Case

FORWARD, BACKWARD = "forward", "forward and backward"

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Experiment:
    """Cases that are measured in the same rounds.

    Attributes:
        title: The heading of the table.
        dtype: "float32" or "bfloat16".
        cases: The ratios refer to the first one.
        sizes: Name -> size, such as {"batch": 8}.
        direction: FORWARD or BACKWARD, which means both.
        left_out: One sentence per missing case, with the reason.
        cold: Whether caches are flushed before every run, as the other layers of a model would do.
    """

    title: str
    dtype: str
    cases: list[Case]
    sizes: dict[str, int]
    direction: str = FORWARD
    left_out: list[str] = field(default_factory=list)
    cold: bool = False


class Group(NamedTuple):
    """Experiments on one question.

    Attributes:
        name: Its name on the command line.
        about: What it compares, for the list.
        experiments: (device, quick) -> the experiments, each built just before it runs; quick asks for small sizes.
    """

    name: str
    about: str
    experiments: Callable[[str, bool], Iterator[Experiment]]


def prepare(module: Module, device: str, dtype: str) -> Module:
    """Prepare a module for measurement in eval mode, with weights that do not depend on the caller's seed."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return module.to(device, getattr(torch, dtype)).eval()


def with_both_kernels(build: Callable[..., Module], device: str, dtype: str) -> tuple[Module, Module]:
    """Prepare the module that `build(kernel=...)` returns, with the explicit and the fused kernel and equal weights."""
    return prepare(build(kernel="explicit"), device, dtype), prepare(build(kernel="fused"), device, dtype)


def with_fields(cases: list[Case], **fields: object) -> list[Case]:
    """Return the cases with the same fields set in each, such as their leaves or their cost."""
    return [case._replace(**fields) for case in cases]
