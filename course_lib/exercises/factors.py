"""Name the factor between a wrong result and the right one by the sizes of the call, such as √head_dim / √query."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor

from .differences import LARGEST, Expected

EXPONENTS = (0.5, -0.5, 1.0, -1.0, 1.5, -1.5)


def factor_between(result: Any, value: Any) -> float | None:
    """Return the number that every element of the right result is multiplied by, or None."""
    if isinstance(result, (int, float)) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return result / value if value and abs(result) < LARGEST else None
    if not isinstance(value, Tensor):
        return None
    if not isinstance(result, Tensor) or result.shape != value.shape or not value.is_floating_point():
        return None
    result, value = result.detach().cpu().double(), value.double()
    norm = float((value * value).sum())
    factor = float((result * value).sum()) / norm if norm else 0.0
    fits = factor and math.isfinite(factor) and torch.allclose(result, factor * value, rtol=1e-6, atol=1e-6)
    return factor if fits else None


def name_of_factor(calls: Sequence[tuple[Any, Expected]]) -> str:
    """Write the factor as a product of powers of sizes that fits at least two calls and all of them, or ""."""
    known: list[tuple[float, dict[str, int]]] = []
    for result, expected in calls:
        factor = factor_between(result, expected.value)
        if factor is None or factor <= 0:
            return ""
        known.append((factor, {name: size for size, both in expected.sizes.items() for name in both.split(" or ")}))
    if len(known) < 2:
        return ""
    names = sorted(set.union(*(set(sizes) for _, sizes in known)))
    fits = (powers for powers in _powers(names) if all(_fits(powers, factor, sizes) for factor, sizes in known))
    return next(map(_written, fits), "")


def constant_factor(calls: Sequence[tuple[Any, Expected]]) -> str:
    """Write the factor if it is the same in at least two calls and all of them, or ""."""
    known = [factor_between(result, expected.value) for result, expected in calls]
    first = known[0]
    if len(known) < 2 or not first or math.isclose(first, 1.0):  # the right numbers of another type
        return ""
    if any(one is None or not math.isclose(one, first, rel_tol=1e-6) for one in known):
        return ""
    return f"{first:.4g} in every call" if abs(first) > 1 else f"1 / {1 / first:.4g} in every call"


def _powers(names: Sequence[str]) -> Iterator[dict[str, float]]:
    for name, exponent in product(names, EXPONENTS):
        yield {name: exponent}
    for pair, exponents in product(combinations(names, 2), product(EXPONENTS, repeat=2)):
        yield dict(zip(pair, exponents, strict=True))


def _fits(powers: Mapping[str, float], factor: float, sizes: Mapping[str, int]) -> bool:
    written = math.prod(sizes.get(name, 1) ** exponent for name, exponent in powers.items())  # 1 bears no name
    return math.isclose(written, factor, rel_tol=1e-6)


def _written(powers: Mapping[str, float]) -> str:
    roots = {0.5: "√{}", 1.0: "{}", 1.5: "{0} * √{0}"}
    above = [roots[exponent].format(name) for name, exponent in powers.items() if exponent > 0]
    below = [roots[-exponent].format(name) for name, exponent in powers.items() if exponent < 0]
    divisor = f"({' * '.join(below)})" if len(below) > 1 or "*" in "".join(below) else "".join(below)
    return " / ".join([" * ".join(above) or "1", *filter(None, [divisor])])
