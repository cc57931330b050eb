"""Compare two outputs, and find the first module inside a model whose output differs between two runs."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.tracing import SourceLine, tensors_in

SAME = 1e-3  # of the outputs' standard deviation: two formulas for the same output, parts of which run in float32
UNTOUCHED = 1e-5  # of the outputs' standard deviation: the same formula, of which no input that counts has changed
ROUGH = 0.3  # in bfloat16, which keeps about three digits of each step


class Submodule(NamedTuple):
    """A module inside a model, and the line of its forward."""

    module: str
    kind: str
    where: SourceLine | None


def difference(reference: Tensor, other: Tensor) -> float:
    """Return the largest difference of two outputs of the same shape, in standard deviations of the first."""
    if reference.shape != other.shape:
        return torch.inf
    reference, other = reference.double(), other.double()
    finite = reference.isfinite()
    size = float(reference[finite].std()) if int(finite.sum()) > 1 else 1.0
    deviation = (reference - other).abs().nan_to_num(nan=torch.inf).where(finite, 0.0)
    return float(deviation.max()) / (size or 1.0)


def typical_difference(reference: Tensor, other: Tensor) -> float:
    """Return the median over tokens of their largest difference, for dtypes in which a token may change its expert."""
    if reference.shape != other.shape:
        return torch.inf
    deviation = (reference.double() - other.double()).abs().nan_to_num(nan=torch.inf)
    return float(deviation.flatten(2).amax(-1).median()) / (float(reference.double().std()) or 1.0)


def first_difference(
    module: nn.Module, first_run: Callable[[], object], second_run: Callable[[], object], tokens: slice = slice(None)
) -> Submodule | None:
    """Return the first module that gives different outputs in two runs although it is given the same.

    Args:
        module: the model; both runs use it.
        first_run, second_run: run it.
        tokens: those whose inputs and outputs are compared.
    """
    with _calls(module) as before:
        first_run()
    with _calls(module) as after:
        second_run()
    for (name, inputs, result), (other_name, other_inputs, other_result) in zip(before, after, strict=False):
        if name != other_name:  # the runs took different ways before any difference was seen
            break
        if _differ([result], [other_result], tokens) and not _differ(inputs, other_inputs, tokens):
            return submodule_named(name, module)
    return None


def _differ(tensors: list[Tensor], other: list[Tensor], tokens: slice) -> bool:
    return any(
        first.dim() == 3 and first.shape == second.shape
        and difference(first[:, tokens], second[:, tokens]) > UNTOUCHED
        for first, second in zip(tensors, other, strict=False)
    )  # fmt: skip


def submodule_named(name: str, model: nn.Module) -> Submodule:
    """Return the innermost module around a name that PyTorch does not define, and the line of its forward."""
    while name and type(model.get_submodule(name)).__module__.startswith("torch."):
        name = name.rpartition(".")[0]
    kind = type(model.get_submodule(name))
    forward = inspect.unwrap(kind.forward)
    try:
        path, (_, line) = inspect.getsourcefile(forward), inspect.getsourcelines(forward)
    except (OSError, TypeError):
        return Submodule(name, kind.__name__, None)
    return Submodule(name, kind.__name__, SourceLine(path, line) if path else None)


@contextmanager
def _calls(module: nn.Module) -> Iterator[list[tuple[str, list[Tensor], Tensor]]]:
    """Collect the calls of submodules in the order in which they finish: name, inputs, first output."""
    calls: list[tuple[str, list[Tensor], Tensor]] = []
    names = {submodule: name for name, submodule in module.named_modules() if name}

    def keep(submodule: nn.Module, words: tuple, options: dict, result: object) -> None:
        tensor = next(iter(tensors_in(result)), None)
        if tensor is not None and tensor.is_floating_point():
            inputs = [t.detach().clone() for t in tensors_in([words, options]) if t.is_floating_point()]
            calls.append((names[submodule], inputs, tensor.detach().clone()))

    handles = [submodule.register_forward_hook(keep, with_kwargs=True) for submodule in names]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()
