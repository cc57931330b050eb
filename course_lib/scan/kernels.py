"""Build or switch a copy of a model for another kernel: the formula written out, the fused kernel, flex_attention."""

import copy
import inspect
import re
from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from course_lib.calling import KERNEL_WORDS, SWITCH, WRITTEN_OUT, parameters_of
from course_lib.diagnosis import copy_of
from course_lib.tracing import DispatchWatch, operation_name

Kernel = Literal["eager", "sdpa", "flex_attention"]
PAIRS = {"explicit": "fused", "eager": "sdpa", "math": "flash"}  # of the same vocabulary


def implemented(model: Any, kernel: Kernel) -> nn.Module:
    """Return a model of transformers with the same weights that was built for another kernel.

    It is built anew because some families choose the classes of their attention when they are built.

    Raises:
        ValueError, ImportError, NotImplementedError: it does not support the kernel.
    """
    module = type(model)._from_config(copy.deepcopy(model.config), attn_implementation=kernel)
    module.load_state_dict(model.state_dict(), strict=False)
    module = module.to(next(model.parameters()).dtype)
    module.eval()
    return module


def switched(model: nn.Module, kernel: Kernel, flags: Callable[..., Any]) -> tuple[nn.Module, dict[str, bool]] | None:
    """Return a copy with its switches set for a kernel, and the flags of its call that do so; None if it has none.

    Args:
        model: a module whose attributes or arguments choose a kernel.
        kernel: the one to choose.
        flags: what takes the arguments.
    """
    module = copy_of(model)
    switches = sum([_switch(submodule, kernel) for submodule in module.modules()])
    options = {parameter.name: _is_on(parameter.name, kernel) for parameter in parameters_of(flags)
             if isinstance(parameter.default, bool) and SWITCH.fullmatch(parameter.name)}  # fmt: skip
    return (module, options) if switches or any(_chooses(name, kernel) for name in options) else None


def _switch(module: nn.Module, kernel: Kernel) -> bool:
    """Set the switches of a module; return whether any of them chooses between kernels."""
    is_switched = False
    for name, value in list(vars(module).items()):
        if isinstance(value, bool) and SWITCH.fullmatch(name):
            setattr(module, name, _is_on(name, kernel))
            is_switched = is_switched or _chooses(name, kernel)
        elif isinstance(value, str) and KERNEL_WORDS.fullmatch(value):
            # Its other values are unknown; the usual word of the same vocabulary is tried.
            setattr(module, name, _word(value, kernel))
            is_switched = True
    return is_switched


def _chooses(name: str, kernel: Kernel) -> bool:
    return ("flex" in name.lower()) == (kernel == "flex_attention")


def _is_on(name: str, kernel: Kernel) -> bool:
    """Return the value of a switch: only that of the wanted kernel is on."""
    if WRITTEN_OUT.search(name):
        return kernel == "eager"
    return kernel != "eager" and _chooses(name, kernel)


def _word(value: str, kernel: Kernel) -> str:
    if kernel == "flex_attention":
        return "flex_attention" if value.endswith("attention") or value in ("eager", "sdpa") else "flex"
    pairs = PAIRS if kernel == "sdpa" else {fused: plain for plain, fused in PAIRS.items()}
    return pairs.get(value, value)


def attribute_built_too_late(error: BaseException | None) -> str:
    """Return the attribute that a switched copy lacks because its class makes it when it is built; "" for none.

    A model that chooses its kernel in its constructor has made what that kernel needs, such as no mask.
    """
    if not isinstance(error, AttributeError) or not isinstance(error.obj, nn.Module) or not error.name:
        return ""
    try:
        source = inspect.getsource(type(error.obj))
    except (OSError, TypeError):
        return ""
    assignment = rf"self\.{error.name}\s*(:[^=\n]+)?=[^=]|register_(buffer|parameter)\(\s*[\"']{error.name}[\"']"
    return error.name if re.search(assignment, source) else ""


class FlexCalls(DispatchWatch):
    """Counts the calls of flex_attention."""

    count = 0

    def call(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation."""
        self.count += operation_name(func) == "flex_attention"
        return func(*args, **kwargs)
