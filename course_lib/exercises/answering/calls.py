"""Call a learner's function, build a learner's class, run the module, and report what happened to the arguments."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from .devices import MixedDevices, OneDevice, tensors_of
from .from_source import FromSource
from .products import Products

INPUT = ".x"  # no parameter has such a name


def call_function(code: Any, arguments: Sequence[Any], seed: int) -> tuple[Any, list[int]]:
    """Call a function with PyTorch's random stream seeded.

    Returns:
        Its result, with NumPy's numbers as Python's, and the indices of the arguments that it changed in place.
    """
    before = [_snapshot(argument) for argument in arguments]
    torch.default_generator.manual_seed(seed)
    with _parameters_made():
        result = code(*arguments) if callable(code) else code
    with contextlib.suppress(RecursionError):  # a list that holds itself is compared or refused as it is
        result = _with_python_numbers(result)
    return result, _changed(before, arguments)


def _with_python_numbers(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(_with_python_numbers, value))
    return value


def build_module(code: Callable[..., Any], sizes: Sequence[int], seed: int) -> Any:
    """Construct a class with PyTorch's random stream seeded; a module is returned in float64."""
    return build_described(code, sizes, seed)[0]


def build_described(code: Callable[..., Any], sizes: Sequence[int], seed: int) -> tuple[Any, dict[str, Any]]:
    """Construct a class as `build_module` does; of a module return what `describe_module` says before float64, too."""
    torch.default_generator.manual_seed(seed)
    module = code(*sizes)
    if not isinstance(module, nn.Module):
        return module, {}
    described = describe_module(module)
    return in_float64(module), described


def in_float64(module: nn.Module) -> nn.Module:
    """Turn a module into float64. Buffers that are one tensor stay one, which `.double()` alone would copy twice."""
    first: dict[int, str] = {}
    same = {
        name: first.setdefault(buffer.data_ptr() if buffer.numel() else id(buffer), name)
        for name, buffer in module.named_buffers(remove_duplicate=False)
    }
    module.double()
    for name, other in same.items():
        owner, _, attribute = name.rpartition(".")
        if name != other and module.get_buffer(name).shape == module.get_buffer(other).shape:
            setattr(module.get_submodule(owner), attribute, module.get_buffer(other))
    return module


def describe_module(module: nn.Module) -> dict[str, Any]:
    """Describe a module as plain data.

    Returns:
        parameters: Name -> shape, in order of registration; a shared parameter is named once.
        forward: Whether its class defines `forward`.
        plain_modules, plain_tensors: The attributes that hold modules, or floating-point tensors, which are not
            registered, so that no optimizer sees their parameters and `.to()` leaves them behind.
        buffered: How many floating-point numbers its buffers hold.
        shared: Name of a parameter that is another one under a second name -> the first name.
        dtypes: Name of a floating-point parameter -> its dtype, where that is not PyTorch's default.
    """
    default = torch.get_default_dtype()
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    every = module.named_parameters(remove_duplicate=False)
    listed = [name for name, value in vars(module).items() if name != "_modules" and _holds_modules(value)]
    tensors = [name for name, value in vars(module).items() if isinstance(value, Tensor) and value.is_floating_point()]
    return {
        "parameters": {name: tuple(parameter.shape) for name, parameter in module.named_parameters()},
        "forward": type(module).forward is not nn.Module.forward,
        "plain_modules": listed,
        "plain_tensors": tensors,
        "buffered": sum(one.numel() for one in module.buffers() if one.is_floating_point()),
        "shared": {name: names[id(one)] for name, one in every if names[id(one)] != name},
        "dtypes": {
            name: str(one.dtype).removeprefix("torch.")
            for name, one in module.named_parameters()
            if one.is_floating_point() and one.dtype != default
        },
    }


def _holds_modules(value: Any) -> bool:
    contents = value.values() if isinstance(value, dict) else value
    return type(value) in (list, tuple, dict) and any(isinstance(element, nn.Module) for element in contents)


def run_module(
    module: nn.Module,
    weights: Mapping[str, Tensor],
    inputs: Sequence[Any],
    *,
    steps: Sequence[int] = (),
    training: bool = False,
    cotangent: Tensor | None = None,
    cache: FromSource | None = None,
    edit: FromSource | None = None,
    elsewhere: str = "",
    counted: bool = False,
) -> dict[str, Any]:
    """Load weights into a module, run it, and send a gradient back through it.

    Args:
        module: The module.
        weights: Name -> values; parameters that are not named keep theirs.
        inputs: Its arguments; the first is x, (batch, token, d_in).
        steps: Numbers of tokens: x is given piece by piece with what the call before returned second, without it at
            first; the outputs are joined again. Another text is run in turn, so that nothing may be kept in the module.
        training: Whether it runs in training mode.
        cotangent: What the output's gradient is; None runs no backward pass.
        cache: What makes a cache that forward takes as `cache=` and writes to, in place of one that it gives back.
        edit: What makes the module's attribute `edit`; None leaves it as it is.
        elsewhere: "float32" or "meta": what a copy of the module and x become, with weights in float64 before.
            An error on the device meta is raised only if two devices meet; the result is not used.
        counted: Whether its memory and the multiplications of each piece are counted.

    Returns:
        result: Its output.
        changed: The indices of the inputs that it changed in place.
        gradients: Name -> gradient, or None where none arrived; INPUT is x. Empty without a backward pass.
        made: What it made of new parameters, such as "Linear (24, 24)". An error has it as its attribute `made`.
        length: Its attribute `length` after the run, if that is an integer; else None.
        kept: The numbers in the cache after the last piece, in ascending order; None if x came in one call.
        moved: The names of the buffers that are other memory than before.
        held: How many floating-point numbers fit into the memory that its attributes hold after it, if counted.
        products: The multiplications of the matrix products in each piece; empty if they are not counted.
    """
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            parameters[name].copy_(weight)
    if elsewhere:
        result = _run_elsewhere(module.train(training), inputs, elsewhere, steps, cache)
        return {"result": result, "changed": [], "gradients": {}, "made": []}
    module.train(training).zero_grad(set_to_none=True)
    if edit is not None:
        module.edit = edit.build()  # pyright: ignore[reportAttributeAccessIssue]
    leaf = inputs[0].detach().requires_grad_(cotangent is not None)
    inputs = (leaf.clone(), *inputs[1:])  # an in-place change of a leaf is an error that leads astray
    before = [_snapshot(argument) for argument in inputs]
    places = {name: buffer.data_ptr() for name, buffer in module.named_buffers()}
    torch.default_generator.manual_seed(0)
    with _parameters_made() as made:
        products = [] if counted else None
        result, kept = _in_steps(module, inputs, steps, cache, products) if steps else (module(*inputs), None)
    length = getattr(module, "length", None)
    length = length.item() if isinstance(length, Tensor) and length.numel() == 1 else length
    answer = {"result": result, "changed": _changed(before, inputs), "gradients": {}, "made": made}
    answer["length"] = length if type(length) is int else None
    answer["kept"] = _numbers_in(kept) if len(steps) > 1 else None
    answer["moved"] = [name for name, one in module.named_buffers() if places.get(name) != one.data_ptr()]
    answer |= {"held": _held(module) if counted else 0, "products": products or []}
    if cotangent is not None and not answer["changed"] and _has_shape(result, cotangent.shape):
        if result.requires_grad:
            (result * cotangent.to(result.dtype)).sum().backward()
        answer["gradients"] = {name: parameter.grad for name, parameter in parameters.items()} | {INPUT: leaf.grad}
    return answer | {"result": result.detach() if isinstance(result, Tensor) else result}


def _run_elsewhere(
    module: nn.Module, inputs: Sequence[Any], elsewhere: str, steps: Sequence[int], cache: FromSource | None
) -> Any:
    """Run a copy of a module in another dtype, or on a device that computes no elements; see `run_module`."""
    place: Any = torch.float32 if elsewhere == "float32" else "meta"
    inputs = (inputs[0].to(place), *inputs[1:])
    # What it keeps of an earlier call, such as weights for a picture, is part of a graph and can't be copied as it is.
    kept = [one for part in module.modules() for one in tensors_of([*vars(part).values()])]
    other = copy.deepcopy(module, {id(one): one.detach() for one in kept if not one.is_leaf}).to(place)
    with torch.no_grad():
        if elsewhere == "float32":
            return _in_steps(other, inputs, steps, cache)[0] if steps else other(*inputs)
        try:
            with OneDevice():
                other(*inputs)
        except MixedDevices:
            raise
        except Exception:  # what asks for an element, as `.item()` does, works on other devices
            return None
    return None


@contextlib.contextmanager
def _parameters_made() -> Iterator[list[str]]:
    """List the matrices that modules get while the block runs, for the code of an answer should make none."""
    made: list[str] = []

    def note(module: nn.Module, name: str, parameter: Tensor) -> None:
        if name != "bias":
            made.append(f"{type(module).__name__[:60]} {tuple(parameter.shape)}")

    hook = register_module_parameter_registration_hook(note)
    try:
        yield made
    except Exception as error:
        error.made = made  # pyright: ignore[reportAttributeAccessIssue]
        raise
    finally:
        hook.remove()


def _has_shape(result: Any, shape: torch.Size) -> bool:
    return isinstance(result, Tensor) and result.shape == shape


def _numbers_in(cache: Any) -> Tensor:
    numbers = [
        one.detach().flatten() for one in tensors_of(getattr(cache, "__dict__", cache)) if one.is_floating_point()
    ]
    return torch.cat([torch.empty(0), *numbers]).double().sort().values


def _held(module: nn.Module) -> int:
    """Count the numbers that fit into the memory behind a module's floating-point tensors: a view holds all of it."""
    tensors = [
        one for part in module.modules() for one in tensors_of([*vars(part).values()]) if one.is_floating_point()
    ]
    memory = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() // one.itemsize for one in tensors}
    return sum(memory.values())


def _in_steps(
    module: nn.Module,
    inputs: Sequence[Any],
    steps: Sequence[int],
    cache: FromSource | None,
    products: list[int] | None = None,
) -> tuple[Any, Any]:
    """Run a module piece by piece; return its outputs, joined, and the last cache; list the multiplications of each."""
    if cache is not None:
        module = _GivesBackItsCache(module, cache)
    x, outputs = inputs[0], []
    own: tuple[Any, ...] = ()
    other: tuple[Any, ...] = ()
    for piece in x.split(list(steps), dim=1):
        with contextlib.nullcontext() if products is None else Products() as counter:
            output, cache = _step(module, (piece, *own))
        if products is not None and counter is not None:
            products.append(counter.count)
        with torch.no_grad():
            other = (_step(module, (piece.flip(-1), *other))[1],)
        own = (cache,)
        outputs.append(output)
        if output.shape[:2] != piece.shape[:2]:
            given = f"an output of the shape {tuple(output.shape)}"
            raise TypeError(f"for a piece of {piece.shape[1]} tokens `forward` gives back {given}")
        if output.shape[2:] != outputs[0].shape[2:]:
            # Of the wrong shape: joined to the others it would fail in a line that isn't the learner's.
            return output, None
    return torch.cat(outputs, dim=1), *own


class _GivesBackItsCache(nn.Module):
    """A module that writes to the cache it is handed, called as one that gives back its cache."""

    def __init__(self, module: nn.Module, cache: FromSource) -> None:
        super().__init__()
        self.module, self.made = module, cache

    def forward(self, x: Tensor, cache: Any = None) -> tuple[Any, Any]:
        cache = self.made.build() if cache is None else cache
        return self.module(x, cache=cache), cache


def _step(module: nn.Module, arguments: Sequence[Any]) -> tuple[Tensor, Any]:
    """Run one piece and return output and cache.

    Raises:
        TypeError: If it gives back anything else.
    """
    returned = module(*arguments)
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        many = f"{len(returned)} values" if isinstance(returned, (tuple, list)) else f"a {type(returned).__name__}"
        raise TypeError(f"`forward` gives back {many}; it should be two, the output and the cache")
    output, cache = returned
    if not isinstance(output, Tensor) or output.ndim < 2:
        shape = f"{tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise TypeError(f"the output that `forward` gives back first is {shape}; it should be (batch, token, d_out)")
    return output, cache


def _snapshot(value: Any) -> Any:
    """Copy the tensors, numbers and texts in an argument, to be compared after the call."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, nn.Module):
        return {name: tensor.detach().clone() for name, tensor in value.state_dict().items()}
    if isinstance(value, (list, tuple)):
        return [_snapshot(element) for element in value]
    return value if isinstance(value, (bool, int, float, str)) else None


def _changed(before: Sequence[Any], arguments: Sequence[Any]) -> list[int]:
    pairs = enumerate(zip(before, map(_snapshot, arguments), strict=True))
    return [index for index, (old, new) in pairs if not _same(old, new)]


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, Tensor):
        return before.shape == after.shape and before.dtype == after.dtype and torch.equal(before, after)
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_same(before[name], after[name]) for name in before)
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_same, before, after))
    return before is after or before == after
