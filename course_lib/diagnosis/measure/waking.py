"""Give weights that are all zeros, as before training, small random numbers, because nothing passes through zeros."""

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

SIZE = 0.3


def zero_weights(module: Any) -> list[str]:
    """Return the names of the parameters that are all zeros, without biases, which stop nothing."""
    named = module.named_parameters() if isinstance(module, nn.Module) else ()
    made = ((name, one) for name, one in named if not is_lazy(one))
    able = ((name, one) for name, one in made if one.is_floating_point() and one.numel())
    return [name for name, one in able if not name.endswith("bias") and not one.any()]


def woken(module: Any) -> Any:
    """Write the same numbers each time, in place, into the `zero_weights` of a copy, and return it."""
    with torch.no_grad():
        for seed, name in enumerate(zero_weights(module)):
            one = module.get_parameter(name)
            noise = torch.randn(one.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            one.copy_(SIZE * noise)
    return module
