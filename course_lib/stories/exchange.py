"""Put the weights of one of the course's forms into another class that computes the same, and the other way round."""

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import permutations, product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import (
    MultiHeadAttentionWrapper,
    attend,
    causal_keep,
    check_at_least,
    check_positive,
    select_keep,
    window_keep,
)
from course_lib.attention.convert import wrapper_to_split
from course_lib.calling import first_tensor, parameters_of

from .storyteller import MakeAttention, Storyteller, check_storyteller

Layout = Mapping[str, Tensor]  # a parameter -> the number of the weight at each of its places, from 1; 0 for none
Kernel = Callable[..., tuple[Tensor, Tensor]]  # run_kernel of the course's forms
NUM_TOKENS = 5  # of the input on which outputs are compared


def with_attention(model: Storyteller, attention: MakeAttention) -> Storyteller:
    """The same storyteller with another class of attention in each block, which gets the trained weights.

    Names and layout of the parameters are up to the class: of the ways in which the trained matrices fit its
    parameters, as they are or transposed, with two axes or more, packed side by side or not, head by head or for all
    heads, the first is taken with which its output is the same. If there is none, the class computes something else. It
    then gets the matrices by name, or else in the order of its parameters, and tells its own stories.

    Args:
        model: A storyteller; it stays as it is.
        attention: A class, or a function, called as attention(width, width, num_heads).

    Raises:
        ValueError: The trained matrices don't fit the parameters of the class, or its output has another shape.
        TypeError: The attention is no class and no function, or the model no Storyteller.
    """
    check_storyteller(model)
    other = around(model, attention)
    for trained, new in zip(model.attentions, other.attentions, strict=True):
        fit_weights(trained, new, model.options["width"])
    return other


def with_window(
    model: Storyteller, window: int, num_sinks: int = 0, *, mask: Callable[[int, int], Tensor] | None = None
) -> Storyteller:
    """The same storyteller with a sliding window in each block.

    Args:
        model: A storyteller whose attention takes `keep`; it stays as it is.
        window: Number of keys that a query attends to, itself included.
        num_sinks: Number of first tokens that it attends to besides.
        mask: Makes the mask, (query, key), in place of `window_keep`, called as mask(num_tokens, window).

    Raises:
        ValueError: A window below 1, num_sinks below 0, or num_sinks beside a mask.
        TypeError: A number that is no integer, the model is no Storyteller, or its attention takes no `keep`.
    """
    check_storyteller(model)
    check_positive(window=window)
    check_at_least(0, num_sinks=num_sinks)
    if mask is not None and num_sinks:
        raise ValueError(f"num_sinks is {num_sinks}, but the mask is called without it: leave one of the two out")
    other = copy.deepcopy(model)

    def add_keep(_: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        new, cache = inputs[0].shape[1], options.get("cache")
        num_keys = new + (cache.length if cache else 0)
        keep = mask(num_keys, window) if mask else window_keep(num_keys, num_keys, window, num_sinks=num_sinks)
        return inputs, options | {"keep": keep[num_keys - new :].to(inputs[0].device)}

    for attention in other.attentions:
        if all(each.name != "keep" for each in parameters_of(attention)):
            raise TypeError(f"{type(attention).__name__} takes no `keep`: give a model of another form, such as llama")
        attention.register_forward_pre_hook(add_keep, with_kwargs=True)
    return other


def with_shared_keys(model: Storyteller) -> Storyteller:
    """The same storyteller, in which each later block attends to the keys and values of the first.

    Those that a later block would compute itself are left unused, and get no gradient.

    Args:
        model: A storyteller of one of the course's forms whose blocks are alike, such as llama; it stays as it is.

    Raises:
        TypeError: The model is no Storyteller, or its attention is none of the course's forms.
    """
    lent: list[Tensor] = []

    def lending(kernel: Kernel, queries: Tensor, keys: Tensor, values: Tensor, *masks: Any) -> Any:
        lent[:] = keys, values
        return kernel(queries, keys, values, *masks)

    def borrowing(kernel: Kernel, queries: Tensor, keys: Tensor, values: Tensor, *masks: Any) -> Any:
        return kernel(queries, *lent, *masks)

    return _with_kernels(model, lending, borrowing)


def with_selected_keys(model: Storyteller, k: int, attention: Callable[..., Tensor] | None = None) -> Storyteller:
    """The same storyteller, in which each query attends to the k keys that all its heads together want most.

    An indexer would be trained to find them; here the dense attention weights, summed over the heads, are the index
    scores.

    Args:
        model: A storyteller of one of the course's forms; it stays as it is.
        k: Number of keys that a query attends to.
        attention: In place of the course's own, called as attention(queries, keys, values, index_scores, k) with
            (batch, head, query, head_dim), two of (batch, head, key, head_dim), (batch, query, key) and k; returns the
            context of each head.

    Raises:
        ValueError: A k below 1.
        TypeError: A k that is no integer, the model is no Storyteller, or its attention is none of the course's forms.
    """
    check_positive(k=k)

    def selecting(kernel: Kernel, queries: Tensor, keys: Tensor, values: Tensor, *masks: Any) -> tuple[Tensor, Tensor]:
        _, weights = kernel(queries, keys, values, *masks)
        index_scores = weights.sum(dim=1)  # (b, h, q, k) -> (b, q, k)
        keys, values = (one.repeat_interleave(queries.shape[1] // one.shape[1], dim=1) for one in (keys, values))
        if attention is not None:
            return attention(queries, keys, values, index_scores, k), weights
        seen = causal_keep(*index_scores.shape[1:], device=queries.device)
        return attend(queries, keys, values, select_keep(index_scores, k, seen)[:, None])

    return _with_kernels(model, selecting, selecting)


def _with_kernels(model: Storyteller, first: Callable[..., Any], later: Callable[..., Any]) -> Storyteller:
    """The same storyteller with what runs the formula wrapped in its blocks, called as first(kernel, ...)."""
    check_storyteller(model)
    other = copy.deepcopy(model)
    for index, attention in enumerate(other.attentions):
        if not hasattr(attention, "run_kernel"):
            raise TypeError(f"{type(attention).__name__} is none of the course's forms: give a model such as llama")
        kernel: Any = partial(later if index else first, attention.run_kernel)
        attention.run_kernel = kernel
    return other


def around(model: Storyteller, attention: MakeAttention) -> Storyteller:
    """The same storyteller with another class of attention in each block, with random weights, in eval mode."""
    other = model.like(attention)
    kept = {name: weight for name, weight in model.state_dict().items() if ".attention." not in name}
    other.load_state_dict(kept, strict=False)
    return other.eval()  # without dropout, whose outputs are never the same


def fit_weights(trained: nn.Module, new: nn.Module, width: int) -> bool:
    """Give a module the weights of one of the course's forms; return whether it then computes the same.

    Raises:
        ValueError: They don't fit, or the module's output has another shape.
    """
    if isinstance(trained, MultiHeadAttentionWrapper):
        trained = wrapper_to_split(trained)
    weights = torch.cat([torch.zeros(1), *(one.detach().flatten().cpu() for one in trained.parameters())])
    fallback: dict[str, Tensor] | None = None
    for layout in _layouts(trained, new, width):
        state = {name: weights[numbers] for name, numbers in layout.items()}
        new.load_state_dict(state, strict=False)
        fallback = fallback or state
        if _agree(trained, new, width):
            return True
    if fallback is None:
        raise ValueError(
            f"the trained weights don't fit {type(new).__name__}: it has {_shapes(new)}, and they are "
            f"{_shapes(trained)}. Give it parameters of the same sizes."
        )
    new.load_state_dict(fallback, strict=False)
    return False


def read_weights(form: nn.Module, theirs: nn.Module, width: int) -> bool:
    """Give one of the course's forms the weights of another module; return whether it then computes the same."""
    count = sum(one.numel() for one in form.parameters())
    for layout in _layouts(form, theirs, width):
        weights = torch.zeros(1 + count)
        for name, parameter in theirs.named_parameters():
            weights[layout[name].flatten()] = parameter.detach().flatten()
        parts = weights[1:].split([one.numel() for one in form.parameters()])
        with torch.no_grad():
            for parameter, part in zip(form.parameters(), parts, strict=True):
                parameter.copy_(part.view_as(parameter))
        if _agree(theirs, form, width):
            return True
    return False


def _agree(one: nn.Module, other: nn.Module, width: int) -> bool:
    """Whether two modules compute the same.

    Raises:
        ValueError: The output of one of them is of another shape than its input.
    """
    weight = next(one.parameters())
    x = torch.randn(2, NUM_TOKENS, width, generator=torch.Generator().manual_seed(0)).to(weight)
    outputs: list[Tensor] = []
    with torch.no_grad():
        for module in (one, other):
            output = first_tensor(module(x))
            if not isinstance(output, Tensor) or output.shape != x.shape:
                shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
                raise ValueError(
                    f"{type(module).__name__} returns {shape} for an input of {tuple(x.shape)}: let it return a tensor "
                    "of the same shape, alone or first in a tuple"
                )
            outputs.append(output)
    return torch.allclose(*outputs, rtol=1e-4, atol=1e-5)


def _shapes(module: nn.Module) -> str:
    return ", ".join(f"{name} {tuple(one.shape)}" for name, one in module.named_parameters()) or "no parameters"


def _layouts(form: nn.Module, other: nn.Module, width: int) -> Iterator[Layout]:
    """The ways in which the weights of one of the course's forms may lie in the parameters of another module."""
    numbers: dict[str, Tensor] = {}
    first = 1
    for name, parameter in form.named_parameters():
        if not name.endswith("bias") or parameter.any():
            numbers[name] = torch.arange(first, first + parameter.numel()).view(parameter.shape)
        first += parameter.numel()
    shapes = {name: torch.zeros(one.shape, dtype=torch.long) for name, one in other.named_parameters()}
    zeros: dict[str, Tensor] = {}
    if all(name.endswith("weight") for name in numbers):
        zeros = {name: shape for name, shape in shapes.items() if shape.numel() <= width}  # biases
    wanted = {name: shape for name, shape in shapes.items() if name not in zeros}
    joined = {name: tuple(one.shape) for name, one in _with_biases(wanted).items()}
    for groups in _groupings(joined):
        stacked = {names[0]: (len(names),) * (len(names) > 1) + joined[names[0]] for names in groups}
        for matrices in (_with_biases(numbers), _by_element(_with_biases(numbers), form)):
            if any(len(shape) > 2 for shape in stacked.values()) and "out_proj.weight" in matrices:
                matrices["out_proj.weight"] = matrices["out_proj.weight"].t()  # heads are its columns, and others' rows
            for candidate in _candidates(matrices, stacked):
                parts: dict[str, Tensor] = {}
                for names in groups:
                    parts |= zip(names, candidate[names[0]].reshape(-1, *joined[names[0]]), strict=True)
                yield zeros | _without_biases(parts, wanted)


def _groupings(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[list[list[str]]]:
    """The names of parameters, each alone; then those that differ in numbers alone together, as heads in a list."""
    yield [[name] for name in shapes]
    alike: dict[object, list[str]] = {}
    for name, shape in shapes.items():
        alike.setdefault((re.sub("[0-9]+", "", name), shape), []).append(name)
    if len(alike) < len(shapes):
        yield list(alike.values())


def _by_element(matrices: Layout, form: nn.Module) -> dict[str, Tensor]:
    """The same matrices with heads innermost: element 0 of all heads, then element 1, and so on."""
    head_dim = getattr(form, "head_dim", 1)
    return {
        name: _heads_inside(matrix.T, head_dim).T if name == "out_proj.weight" else _heads_inside(matrix, head_dim)
        for name, matrix in matrices.items()
    }


def _heads_inside(matrix: Tensor, head_dim: int) -> Tensor:
    """Rows of heads, (h * d, m), as rows of elements, (d * h, m)."""
    if len(matrix) % head_dim:
        return matrix
    return matrix.unflatten(0, (-1, head_dim)).transpose(0, 1).flatten(0, 1)


def _with_biases(parameters: Layout) -> dict[str, Tensor]:
    """The matrices, each with its bias, if it has one, as one more column."""
    biases = {f"{name.removesuffix('bias')}weight": name for name in parameters if name.endswith("bias")}
    joined = {name: parameter for name, parameter in parameters.items() if name not in biases.values()}
    for name in biases.keys() & joined.keys():
        joined[name] = torch.cat([joined[name], parameters[biases[name]][:, None]], dim=1)
    return joined


def _without_biases(joined: Layout, parameters: Layout) -> dict[str, Tensor]:
    """The inverse of `_with_biases`, for a module with these parameters."""
    state = dict(joined)
    for name, matrix in joined.items():
        if matrix.shape != parameters[name].shape:
            state[name] = matrix[:, :-1]
            state[f"{name.removesuffix('weight')}bias"] = matrix[:, -1]
    return state


def _candidates(weights: Layout, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Tensor]]:
    """The ways in which matrices fit parameters: by name first, then in their order, then in any other order."""
    if {name: tuple(weight.shape) for name, weight in weights.items()} == dict(shapes):
        yield dict(weights)
        return
    for matrices in _packings(list(weights.values()), shapes):
        for order in _orders(matrices):
            yield from _fitting(order, shapes)


def _orders(matrices: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """The orders in which they may stand; of many, only the first three are permuted."""
    moved = len(matrices) if len(matrices) <= 5 else 3
    return ((*order, *matrices[moved:]) for order in permutations(matrices[:moved]))


def _packings(matrices: list[Tensor], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[list[Tensor]]:
    """As many matrices as wanted: as they are, the first of them side by side in one, or one of them cut into more."""
    more = len(shapes) - len(matrices)
    if more == 0:
        yield matrices
    elif -3 < more < 0:
        for first in permutations(matrices[:3], 1 - more):
            rest = [one for one in matrices if all(one is not other for other in first)]
            yield from ([packed, *rest] for packed in _side_by_side(first))
    elif 0 < more < 3:
        rows = [shape[0] for shape in [*shapes.values()][:3]]
        for index, sizes in product(range(len(matrices)), dict.fromkeys(permutations(rows, more + 1))):
            for packed in (matrices[index], matrices[index].t()):
                if sum(sizes) == len(packed):
                    yield [*packed.split(sizes), *matrices[:index], *matrices[index + 1 :]]


def _side_by_side(matrices: tuple[Tensor, ...]) -> Iterator[Tensor]:
    """Several matrices in one: one after the other, or one after the other within each head, or group of heads."""
    if len({one.shape[1:] for one in matrices}) > 1:
        return
    yield torch.cat(matrices)
    rows = math.gcd(*map(len, matrices))
    for groups in (count for count in range(2, rows) if rows % count == 0):
        yield torch.cat([one.unflatten(0, (groups, -1)) for one in matrices], dim=1).flatten(0, 1)


def _fitting(matrices: tuple[Tensor, ...], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Tensor]]:
    """Give the matrices to the parameters in this order, each in every way in which it has the shape."""
    choices = [list(_arranged(matrix, shape)) for matrix, shape in zip(matrices, shapes.values(), strict=True)]
    for chosen in product(*choices):
        yield dict(zip(shapes, chosen, strict=True))


def _arranged(matrix: Tensor, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """A matrix in a shape: its columns are one of the axes, and its rows run through all others, in any order.

    It may get a column of zeros, for a bias.
    """
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    for each, columns in product((matrix, F.pad(matrix, (0, 1))), reversed(axes)):  # nn.Linear has them last
        others = [axis for axis in axes if axis != columns]
        if shape[columns] != each.shape[1] or math.prod(shape[axis] for axis in others) != each.shape[0]:
            continue
        for order in permutations(others):
            wide = each.unflatten(0, [shape[axis] for axis in order])
            yield wide.permute([[*order, columns].index(axis) for axis in axes]).reshape(shape)
