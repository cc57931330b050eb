"""Draw the calls of an exercise from the axes of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, product
from math import prod
from typing import Any

from .exercise import Case, Exercise
from .input_generator import InputGenerator

Inputs = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class WithDrawnCases(Exercise):
    """An exercise whose calls are drawn: normal elements for arguments with axes, sizes for all others.

    An input is the names of its axes, such as "token num_heads*head_dim", a list of values that calls take in turn,
    another value, or a function. A function's parameters are named after what they get: other inputs, sizes of axes,
    `rng`, or the input itself as it would be without the function.

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
        calls = [("", self.first if row is rows[0] else {}, dict(zip(names, row, strict=True))) for row in rows]
        calls += [("", other, self._row(rng)) for other in self.also]
        calls += [(about, other, self._row(rng)) for about, other in self.special.items()]
        dealt = self._dealt(rng)
        return [case for about, other, sizes in calls for case in self._drawn(other, sizes, dealt, rng, about)]

    def edge_inputs(self, rng: InputGenerator) -> list[Case]:
        """Draw the calls at the edges that the exercise itself asks for."""
        if callable(self.draw_edges):
            return [*self.draw_edges(rng)]
        dealt = self._dealt(rng)
        return [case for other in self.draw_edges for case in self._drawn(other, self._row(rng), dealt, rng)]

    def _row(self, rng: InputGenerator) -> dict[str, int]:
        """Draw the sizes of one call."""
        names, (low, high) = self._size_names(), self.sizes
        return dict(zip(names, rng.sizes(len(names), low, max(high, low + len(names) - 1)), strict=True))

    def _dealt(self, rng: InputGenerator) -> dict[str, Iterator[Any]]:
        """Shuffle each list of values, for calls that take them in turn."""
        return {name: cycle(rng.shuffled(value)) for name, value in self.inputs.items() if isinstance(value, list)}

    def _size_names(self) -> list[str]:
        """Return the names of the sizes: axes, arguments of which nothing is said, and what else functions ask for."""
        asked: list[str] = []
        for name in dict.fromkeys((*inspect.signature(self.solution).parameters, *self.inputs)):
            value = self.inputs.get(name, self.arguments.get(name, name))
            needed = _parameters(value) if callable(value) else []
            axes = self.arguments[name] if name in needed and name in self.arguments else value
            asked += [part for axis in axes.split() for part in axis.split("*")] if isinstance(axes, str) else []
            asked += needed
        given = {"rng", *self.inputs, *self.arguments}
        return [name for name in dict.fromkeys(asked) if name.isidentifier() and name not in given]

    def _drawn(
        self,
        other: Inputs,
        sizes: Mapping[str, int],
        dealt: Mapping[str, Iterator[Any]],
        rng: InputGenerator,
        about: str = "",
    ) -> Iterator[Case]:
        inputs = {**self.inputs, **{name: next(values) for name, values in dealt.items()}}
        drawn = _DrawnInputs((other, inputs, self.arguments, sizes), sizes, self.std, rng)
        counted = {name: drawn.get(name) for name in self.each if name not in other}
        for numbers in product(*(rng.shuffled(range(end)) for end in counted.values())):
            drawn.drawn.update(zip(counted, numbers, strict=True))
            yield Case(tuple(map(drawn.get, inspect.signature(self.solution).parameters)), about)


@dataclass(frozen=True)
class _DrawnInputs:
    """The inputs of one call, each drawn when it is first asked for.

    Attributes:
        layers: What is said of inputs; the first that names one counts.
        sizes: The names of all sizes.
        std: The standard deviation of normal elements.
        rng: Where elements come from.
        drawn: The inputs so far.
    """

    layers: tuple[Inputs, ...]
    sizes: Collection[str]
    std: float
    rng: InputGenerator
    drawn: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """Return an input."""
        if name not in self.drawn:
            self.drawn[name] = self.rng if name == "rng" else self._draw(name, self.layers)
        return self.drawn[name]

    def _draw(self, name: str, layers: tuple[Inputs, ...]) -> Any:
        value, *below = next((layer[name], *layers[at + 1 :]) for at, layer in enumerate(layers) if name in layer)
        if callable(value):
            return value(
                **{one: self._draw(one, (*below,)) if one == name else self.get(one) for one in _parameters(value)}
            )
        if not isinstance(value, str):
            return value
        shape = [
            prod(int(part) if part.isdigit() else self.get(part) for part in axis.split("*")) for axis in value.split()
        ]
        return shape[0] if name in self.sizes else self.rng.normal(*shape, std=self.std)


@cache
def _parameters(function: Callable[..., Any]) -> list[str]:
    return [*inspect.signature(function).parameters]
