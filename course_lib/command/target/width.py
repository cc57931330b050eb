"""Find the width of a token that a module accepts, by running the module."""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from .example_arguments import widths_in

ANY = 12  # for code that takes every width; 1, 2, 3, 4 and 6 heads divide it


def width_of(
    code: Any, call: Callable[..., Any] | None, batch: int, tokens: int, named: tuple[int, ...] = ()
) -> int | None:
    """Return the first candidate width that a module or function runs with, called by `call` if x is not enough.

    The candidates are those `named`, which the code was built with; attributes that are called a width; the widths of
    Linears, the most frequent first; and the sizes of other parameters. If nothing can be run, it is the width of the
    first Linear, or None if there is no Linear either.
    """
    linears = _linears(code)
    named = (*named, *widths_in(getattr(code, "__dict__", {})))
    frequent = [width for width, _ in Counter(linears).most_common()]
    widths = list(dict.fromkeys([*named, *frequent, *_other_widths(code)]))
    if len(widths) == 1 and linears:
        return widths[0]
    fitting = next((width for width in widths if runs(code, call, batch, tokens, width)), None)
    return fitting or (linears[0] if linears else None)


def shape_with_width_first(
    code: Any, call: Callable[..., Any] | None, batch: int, tokens: int
) -> tuple[int, ...] | None:
    """Return the first shape (batch, width, tokens) or (batch, width, rows, columns) that convolutions run on.

    No parameter has as many rows or columns as there are tokens, so that these can't be taken for the width.
    """
    parameters = code.parameters() if hasattr(code, "parameters") else ()
    sizes = {size for parameter in parameters for size in parameter.shape}
    tokens = next(count for count in itertools.count(tokens) if count not in sizes)
    axes = ((tokens,), (2, tokens))
    shapes = ((batch, width, *rest) for width in dict.fromkeys(_channels(code)) for rest in axes)
    return next((shape for shape in shapes if not why_not(code, call, *shape)), None)


def runs(code: Any, call: Callable[..., Any] | None, batch: int, tokens: int, width: int) -> bool:
    """Return whether code runs on an input of these sizes and gives a tensor."""
    return not why_not(code, call, batch, tokens, width)


def why_not(code: Any, call: Callable[..., Any] | None, *sizes: int) -> str:
    """Return why code does not run on an input of these sizes, such as (batch, token, width); "" if it does.

    Code that makes float32 inside may run in its own dtype only.
    """
    import torch

    from course_lib.diagnosis import Subject, SubjectFailed

    x = torch.ones(*sizes, dtype=torch.float64)
    try:
        subject = Subject(code, call)
        if not subject.runs_in(native := subject.dtype(x.float()), x.to(native)):
            subject.run(x)
    except (SubjectFailed, RuntimeError) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return ""


def width_in(code: Any) -> int:
    """Return the most frequent width of a Linear's input, the largest of several; 0 without a Linear."""
    return max(statistics.multimode(_linears(code)), default=0)


def _other_widths(code: Any) -> Iterator[int]:
    """Yield the sizes of the parameters' axes, beginning with W in x @ W; without parameters, ANY."""
    parameters = code.parameters() if hasattr(code, "parameters") else ()
    shapes = [tuple(p.shape) for p in parameters if getattr(p, "ndim", 0) > 1]
    for axis in (-2, -1, 0):
        yield from (shape[axis] for shape in shapes)
    if not shapes:
        yield ANY


def _channels(code: Any) -> Iterator[int]:
    from torch import nn

    for module in code.modules() if isinstance(code, nn.Module) else ():
        if isinstance(module, (nn.Conv1d, nn.Conv2d)):
            yield module.in_channels
        elif isinstance(module, nn.GroupNorm):
            yield module.num_channels


def _linears(code: Any) -> list[int]:
    from torch import nn

    modules = code.modules() if isinstance(code, nn.Module) else ()
    return [module.in_features for module in modules if isinstance(module, nn.Linear)]
