"""Put a trained attention's weights into another class of the same form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention
from course_lib.attention.convert import split_to_wrapper
from course_lib.calling import first_tensor

from .storyteller import MakeAttention, Storyteller

Weights = Mapping[str, Tensor]
NUM_TOKENS = 5  # of the input on which outputs are compared


def with_attention(model: Storyteller, attention: MakeAttention) -> Storyteller:
    """The same storyteller with another class of attention in each block, which gets the trained weights.

    Names and layout of the parameters are up to the class: of the ways in which the trained matrices fit its
    parameters, as they are or transposed, packed side by side or not, head by head or for all heads, the first is taken
    with which its output is the same. If there is none, the class computes something else. It then gets the matrices
    by name, or else in the order of its parameters, and tells its own stories.

    Args:
        model: A storyteller; it stays as it is.
        attention: A class, or a function, called as attention(width, width, num_heads).

    Raises:
        ValueError: The trained matrices don't fit the parameters of the class.
        TypeError: The attention is no class and no function.
    """
    if isinstance(attention, nn.Module) or not callable(attention):
        raise TypeError(f"attention is {attention!r:.60}: give a class, called as attention(width, width, num_heads)")
    other = model.like(attention)
    weights = model.state_dict()
    kept = {name: weights[name] for name in other.state_dict() if ".attention." not in name}
    other.load_state_dict(kept, strict=False)
    for trained, new in zip(model.attentions, other.attentions, strict=True):
        fit_weights(trained, new, model.options["width"])
    return other.eval()


def fit_weights(trained: nn.Module, new: nn.Module, width: int) -> bool:
    """Give a module the weights of another one of the same form; return whether it then computes the same.

    Raises:
        ValueError: They don't fit.
    """
    if isinstance(trained, MultiHeadAttention) and len([*new.parameters()]) > 3 * trained.num_heads:
        trained = split_to_wrapper(trained)  # for a class that holds its heads one by one
    weights = {name: parameter.detach() for name, parameter in trained.named_parameters()}
    weights = {name: weight for name, weight in weights.items() if weight.any() or not name.endswith("bias")}
    parameters = {name: parameter.detach() for name, parameter in new.named_parameters()}
    if all(weight.dim() > 1 for weight in weights.values()):
        for name in [name for name, parameter in parameters.items() if parameter.dim() == 1]:
            nn.init.zeros_(parameters.pop(name))  # a bias
    joined, shapes = _with_biases(weights), {name: tuple(one.shape) for name, one in _with_biases(parameters).items()}
    x = torch.randn(2, NUM_TOKENS, width, generator=torch.Generator().manual_seed(0))
    x = x.to(next(iter(weights.values())))
    with torch.no_grad():
        expected, fallback = trained(x), None
        for candidate in _candidates(joined, shapes):
            state = _without_biases(candidate, parameters)
            new.load_state_dict(state, strict=False)
            fallback = fallback or state
            if torch.allclose(first_tensor(new(x)), expected, rtol=1e-4, atol=1e-5):
                return True
        if fallback is None:
            ours = ", ".join(f"{name} {tuple(weight.shape)}" for name, weight in weights.items())
            theirs = ", ".join(f"{name} {tuple(one.shape)}" for name, one in parameters.items()) or "no parameters"
            raise ValueError(
                f"the trained weights don't fit {type(new).__name__}: it has {theirs}, and they are {ours}. "
                "Give it parameters of the same sizes."
            )
        new.load_state_dict(fallback, strict=False)
    return False


def _with_biases(parameters: Weights) -> dict[str, Tensor]:
    """The matrices, each with its bias, if it has one, as one more column."""
    biases = {f"{name.removesuffix('bias')}weight": name for name in parameters if name.endswith("bias")}
    joined = {name: parameter for name, parameter in parameters.items() if name not in biases.values()}
    for name in biases.keys() & joined.keys():
        joined[name] = torch.cat([joined[name], parameters[biases[name]][:, None]], dim=1)
    return joined


def _without_biases(joined: Weights, parameters: Weights) -> dict[str, Tensor]:
    """The inverse of `_with_biases`, for a module with these parameters."""
    state = dict(joined)
    for name, matrix in joined.items():
        if matrix.shape != parameters[name].shape:
            state[name] = matrix[:, :-1]
            state[f"{name.removesuffix('weight')}bias"] = matrix[:, -1]
    return state


def _candidates(weights: Weights, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Tensor]]:
    """The ways in which matrices fit parameters: by name first, then in their order, then in any other order."""
    if {name: tuple(weight.shape) for name, weight in weights.items()} == dict(shapes):
        yield dict(weights)
        return
    for matrices in _packings(list(weights.values()), shapes):
        for order in _orders(matrices):
            yield from _fitting(order, shapes)


def _orders(matrices: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """The orders in which they may stand; in a wrapper of heads, with three for each head, the same in all heads."""
    if len(matrices) <= 4:
        yield from permutations(matrices)
        return
    heads = len(matrices) // 3
    for order, by_head in product(permutations(range(3)), (True, False)):
        places = [3 * head + role if by_head else heads * role + head for head in range(heads) for role in order]
        yield *(matrices[place] for place in places), *matrices[len(places) :]


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
    """Several matrices in one: one after the other, or one after the other within each head."""
    if len({one.shape[1:] for one in matrices}) == 1:
        yield torch.cat(matrices)
    if len({one.shape for one in matrices}) == 1:
        rows = len(matrices[0])
        for heads in (count for count in range(2, rows) if rows % count == 0):
            yield torch.stack([one.unflatten(0, (heads, -1)) for one in matrices], dim=1).flatten(0, 2)


def _fitting(matrices: tuple[Tensor, ...], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Tensor]]:
    """Give the matrices to the parameters in this order, each as it is or transposed, whichever fits."""
    choices = [
        [one for one in _arranged(matrix, shape) if tuple(one.shape) == shape]
        for matrix, shape in zip(matrices, shapes.values(), strict=True)
    ]
    for chosen in product(*choices):
        yield dict(zip(shapes, chosen, strict=True))


def _arranged(matrix: Tensor, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """A matrix as it is and transposed, with a bias of 0, and with one axis cut into heads for a parameter of three."""
    for each in (matrix, matrix.t()):
        yield from (each, F.pad(each, (0, 1)))
        if len(shape) == 3:
            for heads in (size for size in shape if each.shape[0] % size == 0):
                yield from (each.unflatten(0, (heads, -1)).permute(axes) for axes in permutations(range(3)))
