"""Run code without gradients, also code that puts hooks on them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

HOOKS = ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")  # each raises without a gradient


@contextmanager
def without_gradients() -> Iterator[None]:
    """Compute no gradients; what would wait for that of a tensor without one does nothing instead of raising."""
    attributes = vars(Tensor).copy()
    for name in HOOKS:
        setattr(Tensor, name, _unless_without_gradient(getattr(Tensor, name)))
    try:
        with torch.no_grad():
            yield
    finally:
        for name in HOOKS:
            if name in attributes:
                setattr(Tensor, name, attributes[name])
            else:
                delattr(Tensor, name)


def _unless_without_gradient(usual: Callable[..., Any]) -> Callable[..., Any]:
    def method(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        return usual(tensor, *args, **kwargs) if tensor.requires_grad else RemovableHandle(OrderedDict())

    return method
