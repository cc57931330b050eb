"""Put a trained attention's weights into another class of the same form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product

import torch
from torch import Tensor, nn

from .storyteller import MakeAttention, Storyteller

Weights = Mapping[str, Tensor]
NUM_TOKENS = 5  # of the input on which outputs are compared


def with_attention(model: Storyteller, attention: MakeAttention) -> Storyteller:
    """The same storyteller with another class of attention in each block, which gets the trained weights.

    Names and layout of the parameters are up to the class: of the ways in which the trained matrices fit its
    parameters, as they are or transposed, packed side by side or not, the first is taken with which its output is the
    same. If there is none, the class computes something else. It then gets the matrices by name, or else in the order
    of its parameters, and tells its own stories.

    Args:
        model: A storyteller; it stays as it is.
        attention: A class, or a function, called as attention(width, width, num_heads).

    Raises:
        ValueError: The trained matrices don't fit the parameters of the class.
    """
    other = model.like(attention)
    weights = model.state_dict()
    kept = {name: weights[name] for name in other.state_dict() if ".attention." not in name}
    other.load_state_dict(kept, strict=False)
    for trained, new in zip(model.attentions, other.attentions, strict=True):
        fit_weights(trained, new)
    return other.eval()


def fit_weights(trained: nn.Module, new: nn.Module) -> bool:
    """Give a module the weights of another one of the same form; return whether it then computes the same.

    Raises:
        ValueError: They don't fit.
    """
    weights = {name: parameter.detach() for name, parameter in trained.named_parameters()}
    parameters = dict(new.named_parameters())
    if all(weight.dim() > 1 for weight in weights.values()):
        for name in [name for name, parameter in parameters.items() if parameter.dim() == 1]:
            nn.init.zeros_(parameters.pop(name))  # a bias
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    x = torch.randn(2, NUM_TOKENS, next(iter(weights.values())).shape[-1], generator=torch.Generator().manual_seed(0))
    x = x.to(next(iter(weights.values())))
    with torch.no_grad():
        expected, fallback = trained(x), None
        for candidate in _candidates(weights, shapes):
            new.load_state_dict(candidate, strict=False)
            fallback = fallback or candidate
            if torch.allclose(_output(new, x), expected, rtol=1e-4, atol=1e-5):
                return True
        if fallback is None:
            ours = ", ".join(f"{name} {tuple(weight.shape)}" for name, weight in weights.items())
            theirs = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "no parameters"
            raise ValueError(
                f"the trained weights don't fit {type(new).__name__}: it has {theirs}, and they are {ours}. "
                "Give it parameters of the same sizes."
            )
        new.load_state_dict(fallback, strict=False)
    return False


def _output(module: nn.Module, x: Tensor) -> Tensor:
    """The output alone: attention weights or a cache may come with it."""
    output = module(x)
    return output[0] if isinstance(output, tuple) else output


def _candidates(weights: Weights, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Tensor]]:
    """The ways in which matrices fit parameters: by name first, then in their order, then in any other order."""
    if {name: tuple(weight.shape) for name, weight in weights.items()} == dict(shapes):
        yield dict(weights)
        return
    for matrices in _packings(list(weights.values()), len(shapes)):
        for order in _orders(matrices):
            yield from _fitting(order, shapes)


def _orders(matrices: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """The orders in which they may stand; in a wrapper of heads, with three for each head, the same in all heads."""
    if len(matrices) <= 4:
        yield from permutations(matrices)
        return
    for order in permutations(range(3)):
        in_heads = [matrices[3 * head + role] for head in range(len(matrices) // 3) for role in order]
        yield *in_heads, *matrices[len(in_heads) :]


def _packings(matrices: list[Tensor], count: int) -> Iterator[list[Tensor]]:
    """The matrices as they are, and with the first of them side by side in one, where that makes as many as wanted."""
    packed = len(matrices) - count + 1  # how many stand side by side
    if packed == 1:
        yield matrices
    elif 1 < packed <= 3:
        for first in permutations(matrices[:3], packed):
            rest = [one for one in matrices if all(one is not other for other in first)]
            yield [torch.cat(first), *rest]


def _fitting(matrices: tuple[Tensor, ...], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Tensor]]:
    """Give the matrices to the parameters in this order, each as it is or transposed, whichever fits."""
    choices = [
        [one for one in (matrix, matrix.mT) if tuple(one.shape) == shape]
        for matrix, shape in zip(matrices, shapes.values(), strict=True)
    ]
    for chosen in product(*choices):
        yield dict(zip(shapes, chosen, strict=True))
