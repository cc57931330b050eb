"""Examine a model from its patches on, if it takes images of one size only that have too many dots to be traced."""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import without_gradients

from .measure.calling import usual_call
from .measure.copying import copy_of, in_dtype
from .measure.grid import as_row
from .measure.options import MOST_TOKENS
from .measure.widening import widened

Call = Callable[[Any, Tensor], Any]  # (code, x) -> output


@dataclass(frozen=True)
class Patches:
    """The tokens that a layer inside a model makes of an image.

    Attributes:
        rows: what it makes, (batch, token, width).
        call: (model, rows) -> output, which puts other rows in their place.
        said: the sentence that names the layer.
    """

    rows: Tensor
    call: Call
    said: str


@dataclass(frozen=True)
class _FromRows:
    """Runs a model on rows in the place of what a layer makes of an image; a grid of outputs gives one row for all.

    Attributes:
        path: of the layer.
        image: what the model takes, which changes nothing.
        axes: those of the grid that the layer makes, or None for rows.
        run: (model, image) -> output.
        used_parameters: the names of those that are read before the rows, which are not judged.
    """

    path: str
    image: Tensor
    axes: torch.Size | None
    run: Call
    used_parameters: frozenset[str] = frozenset()

    def __call__(self, model: nn.Module, rows: Tensor) -> Any:
        """Return the output for the rows."""
        given = self.image[torch.arange(len(rows)) % len(self.image)].to(rows)
        made = rows if self.axes is None else rows.mT.unflatten(2, self.axes)
        hook = model.get_submodule(self.path).register_forward_hook(lambda *_: made)
        try:
            output = self.run(model, given)
        finally:
            hook.remove()
        is_grid = isinstance(output, Tensor) and output.dim() > 3
        return output.flatten(1) if is_grid else output


def patches_of(model: Any, image: Tensor, call: Call | None) -> Patches | None:
    """Return the patches of an image, (batch, channel, *axes) or channel last, with too many dots to be traced.

    They are what the first layer makes that gives a row or a grid of at most 62 tokens, of which the output is made:
    with these in its place, another image changes nothing.
    """
    if not isinstance(model, nn.Module) or (count := as_row(model, image, call)[0].shape[1]) <= MOST_TOKENS:
        return None
    model, run = in_dtype(torch.float64, copy_of(model).cpu()).eval(), call or usual_call(model)
    image = image.detach().cpu().double()
    run = run if _runs(model, image, run) else partial(_run_widened, run=run)
    for path, made in _made(model, image, run):
        put = _FromRows(path, image, made.shape[2:] if made.dim() > 3 else None, run)
        rows = (made.flatten(2).mT if made.dim() > 3 else made).contiguous()
        if _is_all(model, rows, put):
            few = f"examined from `{path}` on, which makes {rows.shape[1]} tokens of x"
            put = replace(put, used_parameters=_used_before(model, path, image, run))
            return Patches(rows, put, f"{few}: x has {count}, and at most {MOST_TOKENS} can be traced")
    return None


def _runs(model: nn.Module, image: Tensor, run: Call) -> bool:
    try:
        with without_gradients():
            run(model, image)
    except Exception:  # such as a float32 that the model names beside float64
        return False
    return True


def _run_widened(model: Any, x: Tensor, *, run: Call) -> Any:
    with widened() if x.dtype == torch.float64 else nullcontext():
        return run(model, x)


def _made(model: nn.Module, image: Tensor, run: Call) -> Iterator[tuple[str, Tensor]]:
    """Yield the path and output of each layer that is run once and makes few tokens, in the order of the run."""
    outputs: dict[str, list[Any]] = {}
    layers = [(path, one) for path, one in model.named_modules() if path]
    hooks = [one.register_forward_hook(lambda _, __, made, path=path: outputs.setdefault(path, []).append(made))
             for path, one in layers]  # fmt: skip
    try:
        with without_gradients():
            run(model, image)
    except Exception:  # what it raises is said by the examination
        return
    finally:
        for hook in hooks:
            hook.remove()
    for path, made in outputs.items():
        if len(made) == 1 and isinstance(made[0], Tensor) and _are_few(made[0], image):
            yield path, made[0].detach().clone()


def _are_few(made: Tensor, image: Tensor) -> bool:
    """Return whether a layer's output is a row of tokens, (batch, token, width), or a grid, (batch, width, *axes)."""
    if made.dim() < 3 or len(made) != len(image) or not made.is_floating_point():
        return False
    return 1 < (made.shape[1] if made.dim() == 3 else math.prod(made.shape[2:])) <= MOST_TOKENS


def _used_before(model: nn.Module, path: str, image: Tensor, run: Call) -> frozenset[str]:
    """Return the names of the parameters that what a layer makes of the image depends on."""
    parameters, made = dict(model.requires_grad_(True).named_parameters()), []
    hook = model.get_submodule(path).register_forward_hook(lambda *given: made.append(given[-1].sum()))
    try:
        with torch.enable_grad():
            run(model, image)
            gradients = torch.autograd.grad(made[0], list(parameters.values()), allow_unused=True)
    except Exception:  # code that turns gradients off
        return frozenset(parameters)
    finally:
        hook.remove()
    return frozenset(name for name, one in zip(parameters, gradients, strict=True) if one is not None)


def _is_all(model: nn.Module, rows: Tensor, put: _FromRows) -> bool:
    """Return whether the output depends on nothing else of the image."""
    try:
        with without_gradients():
            found = [put(model, rows), replace(put, image=put.image * -0.5 + 1.5)(model, rows)]
    except Exception:
        return False
    return all(isinstance(one, Tensor) for one in found) and torch.equal(*found)
