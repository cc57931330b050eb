"""A probe for parameters that nothing trains."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


class _Patient(nn.Module):
    """A head in which some projections go without a gradient."""

    def __init__(self, unused: str = "", hushed: str = "") -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(4)
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                setattr(self, name, nn.Linear(6, 6, bias=False).double())
        self.unused, self.hushed = unused, hushed

    def _through(self, name: str, x: Tensor) -> Tensor:
        if name == self.unused:
            return x
        return getattr(self, name)(x) * (0.0 if name == self.hushed else 1.0)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys, values = (self._through(name, x) for name in ("q_proj", "k_proj", "v_proj"))
        if self.hushed == "k_proj":
            keys = keys + x
        scores = queries @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
        return self._through("out_proj", scores.softmax(-1) @ values)


def _gradients(module: nn.Module, x: Tensor) -> dict[str, Tensor | None]:
    module(x).square().sum().backward()
    return {name: parameter.grad for name, parameter in module.named_parameters()}


def _without(module: nn.Module, x: Tensor) -> tuple[str, ...]:
    return tuple(name for name, grad in _gradients(module, x).items() if grad is None or not grad.any())


def _as_names(result: object, *_: object) -> object:
    return tuple(sorted(str(name) for name in result)) if isinstance(result, (list, tuple, set, dict)) else result


WITHOUT_GRADIENT = FunctionJudge(
    reference=_without,
    inputs=lambda: [
        (_Patient(**how), numbers(2, 5, 6))
        for how in ({}, {"unused": "k_proj"}, {"unused": "out_proj"}, {"hushed": "k_proj"}, {"unused": "q_proj"})
    ],
    see=_as_names,
    wrong=(
        Wrong(
            "the parameters that do get a gradient",
            lambda m, x: [name for name, grad in _gradients(m, x).items() if grad is not None and grad.any()],
            hint="Which of the two lists is the suspicious one?",
        ),
        Wrong(
            "the parameters whose gradient is None: one that is all zeros teaches nothing, either",
            lambda m, x: [name for name, grad in _gradients(m, x).items() if grad is None],
            hint="What does a gradient of zeros change?",
        ),
        Wrong(
            "no parameter at all, whatever the module does",
            lambda m, x: [],
            hint="Was `backward` called on its output?",
        ),
        Wrong(
            "all parameters",
            lambda m, x: [n for n, _ in m.named_parameters()],
            hint="Was `backward` called before you looked?",
        ),
        Wrong(
            "the names of the submodules, not of the parameters",
            lambda m, x: [name.removesuffix(".weight") for name in _without(m, x)],
            hint="What does `named_parameters` call them?",
        ),
        Wrong(
            "the parameters whose gradient is there and all zeros; None is no gradient, either",
            lambda m, x: [name for name, grad in _gradients(m, x).items() if grad is not None and not grad.any()],
            hint="What is `parameter.grad` where nothing arrived?",
        ),
        Wrong("how many there are, not which", lambda m, x: len(_without(m, x)), hint="What would you like to read?"),
    ),
)
