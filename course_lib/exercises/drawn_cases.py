"""Draw the calls of an exercise from the axes of its arguments."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, product
from math import prod
from typing import Any

from torch import Tensor

from .exercise import Case, Exercise
from .input_generator import InputGenerator

Inputs = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class WithDrawnCases(Exercise):
    """An exercise whose calls are drawn: normal elements for arguments with axes, sizes for all others.

    An input is the names of its axes, such as "token num_heads*head_dim", a tuple of these, a list of values that calls
    take in turn, another value, or a function. A function's parameters are named after what they get: other inputs,
    sizes of axes, `rng`, or the input itself as it would be without the function.

    Attributes:
        arguments: Argument -> the names of its axes, such as {"keys": "key head_dim"}; a list's are its tensors'.
        inputs: Inputs by argument where `arguments` doesn't say it all, such as {"keep": lambda keep: keep > 0}; under
            other names what several arguments are made from.
        calls: The number of calls whose sizes all differ, within a call and from call to call.
        sizes: The smallest and the largest size; the largest grows where there are more axes.
        std: The standard deviation of normal elements.
        first: The inputs and sizes that differ in the first call, such as {"query": 1, "key": "query"}.
        also: The same for each further call.
        special: The same for calls of which a verdict says what is special, such as "all scores are negative".
        each: Integer arguments whose input is an end: a call is repeated for each integer below it.
        draw: Draws all calls of an exercise that can't declare them.
        draw_edges: What differs in further calls at the edges, as in `also`; or draws them.
    """

    arguments: Mapping[str, str] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=dict)
    calls: int = 3
    sizes: tuple[int, int] = (3, 9)
    std: float = 1.0
    first: Inputs = field(default_factory=dict)
    also: Sequence[Inputs] = ()
    special: Mapping[str, Inputs] = field(default_factory=dict)
    each: Sequence[str] = ()
    draw: Callable[[InputGenerator], Sequence[Case]] | None = None
    draw_edges: Callable[[InputGenerator], Sequence[Case]] | Sequence[Inputs] = ()

    def cases(self, rng: InputGenerator) -> list[Case]:
        """Draw the calls."""
        if self.draw is not None:
            return [*self.draw(rng)]
        names, (low, high) = self._size_names(), self.sizes
        rows = rng.size_rows(self.calls, len(names), low, max(high, low + self.calls + len(names) - 2))
        others = [("", other) for other in (self.first, *[{}] * (self.calls - 1), *self.also)] + [*self.special.items()]
        return self._drawn(others, rows, rng)

    def edge_inputs(self, rng: InputGenerator) -> list[Case]:
        """Draw the calls at the edges that the exercise itself asks for."""
        if callable(self.draw_edges):
            return [*self.draw_edges(rng)]
        return self._drawn([("", other) for other in self.draw_edges], [], rng)

    def _drawn(
        self, others: Sequence[tuple[str, Inputs]], rows: Sequence[tuple[int, ...]], rng: InputGenerator
    ) -> list[Case]:
        """Draw calls, given what is special about each, the inputs that differ, and the sizes of the first ones."""
        names, (low, high) = self._size_names(), self.sizes
        rows = [*rows, *(rng.sizes(len(names), low, max(high, low + len(names) - 1)) for _ in others[len(rows) :])]
        choices = {name: cycle(rng.shuffled(value)) for name, value in self.inputs.items() if isinstance(value, list)}
        known, cases = dict.fromkeys((*names, *self.inputs, *self.arguments)), []
        for (about, other), row in zip(others, rows, strict=True):
            if unknown := other.keys() - known:
                raise ValueError(f"{self.name} draws nothing named {min(unknown)!r}; it draws {', '.join(known)}.")
            sizes = dict(zip(names, row, strict=True))
            inputs = {**self.inputs, **{name: _always(next(values)) for name, values in choices.items()}}
            drawn = _DrawnInputs((other, inputs, self.arguments, sizes), sizes, self.std, rng)
            ends = {name: drawn[name] for name in self.each if name not in other}
            for numbers in product(*(rng.shuffled(range(end)) for end in ends.values())):
                drawn.update(zip(ends, numbers, strict=True))
                cases.append(Case(tuple(drawn[name] for name in inspect.signature(self.solution).parameters), about))
        return cases

    def _size_names(self) -> list[str]:
        """Return the names of the sizes: axes, arguments of which nothing is said, and what else functions ask for."""
        named: list[str] = []
        for name in dict.fromkeys((*inspect.signature(self.solution).parameters, *self.inputs)):
            value = self.inputs.get(name, self.arguments.get(name, name))
            asked = _parameters(value) if callable(value) else ()
            axes = self.arguments.get(name) if name in asked else value
            texts = axes if isinstance(axes, tuple) else (axes,)
            named += [size for one in texts if isinstance(one, str) for size in one.replace("*", " ").split()] + [
                *asked
            ]
        given = {"rng", *self.inputs, *self.arguments}
        return [name for name in dict.fromkeys(named) if name.isidentifier() and name not in given]


class _DrawnInputs(dict[str, Any]):
    """The inputs of one call by name, each drawn when it is first asked for.

    Args:
        layers: What is said of inputs; the first that names one counts.
        sizes: The names of all sizes.
        std: The standard deviation of normal elements.
        rng: Where elements come from.
    """

    def __init__(self, layers: tuple[Inputs, ...], sizes: Collection[str], std: float, rng: InputGenerator) -> None:
        super().__init__(rng=rng)
        self._layers, self._sizes, self._std, self._rng = layers, sizes, std, rng

    def __missing__(self, name: str) -> Any:
        self[name] = self._draw(name, self._layers)
        return self[name]

    def _draw(self, name: str, layers: tuple[Inputs, ...]) -> Any:
        at = next(at for at, layer in enumerate(layers) if name in layer)
        value, below = layers[at][name], layers[at + 1 :]
        if callable(value):
            return value(*(self._draw(asked, below) if asked == name else self[asked] for asked in _parameters(value)))
        if isinstance(value, tuple):
            return tuple(map(self._tensor, value))
        if isinstance(value, str):
            return prod(self._shape(value)) if name in self._sizes else self._tensor(value)
        return value

    def _shape(self, axes: str) -> list[int]:
        return [prod(int(size) if size.isdigit() else self[size] for size in axis.split("*")) for axis in axes.split()]

    def _tensor(self, axes: str) -> Tensor:
        return self._rng.normal(*self._shape(axes), std=self._std)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value
