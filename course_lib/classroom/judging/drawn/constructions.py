"""Sizes that a student's class is built and run with, none of them as in the public check."""

from __future__ import annotations

from functools import cache
from itertools import product

from .draw import Draw

Construction = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]

D_IN = (11, 13, 17)  # primes: no product of other sizes can be taken for it


def constructions(public: tuple[int, ...], draw: Draw) -> list[Construction]:
    """Draw two constructions of a class.

    Args:
        public: what the public check builds it with: d_in, d_out, and maybe num_heads and num_kv_heads.
        draw: where the sizes come from.

    Returns:
        Twice (sizes, inputs): sizes that fit each other and differ from the public ones and from construction to
        construction, and the (batch, token) of two inputs; the second one is a single sample of many tokens.

    Raises:
        ValueError: public has fewer than two sizes or more than four.
    """
    if not 2 <= len(public) <= 4:
        raise ValueError(f"public must be two to four sizes, got {public}: d_in, d_out, num_heads, num_kv_heads.")
    first = draw.pick([sizes for sizes in _valid(len(public)) if _all_differ(sizes, public)])
    both = [sizes for sizes in _valid(len(public)) if _all_differ(sizes, public) and _all_differ(sizes, first)]
    return [(sizes, _inputs(sizes, draw)) for sizes in (first, draw.pick(both))]


@cache
def _valid(count: int) -> list[tuple[int, ...]]:
    """All sizes that may be drawn, in which no two are equal, head_dim and the heads that share included."""
    if count == 2:
        return list(product(D_IN, range(3, 10)))
    found = []
    for d_in, head_dim, num_kv_heads, share in product(D_IN, range(2, 7), range(2, 6), (1, 2, 3, 4)):
        num_heads = num_kv_heads * share
        sizes = (d_in, num_heads * head_dim, num_heads, num_kv_heads)[:count]
        if (share == 1) == (count == 3) and len({head_dim, share, *sizes}) == count + 2:
            found.append(sizes)
    return found


def _all_differ(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a != b for a, b in zip(one, other, strict=True))


def _inputs(sizes: tuple[int, ...], draw: Draw) -> tuple[tuple[int, int], ...]:
    taken = {*sizes, sizes[1] // sizes[2] if len(sizes) > 2 else sizes[1]}
    few = draw.shuffled([size for size in range(2, 11) if size not in taken])
    many = draw.pick([size for size in range(33, 49) if size not in taken])
    batch, num_tokens = sorted(few[:2])
    return (batch, num_tokens), (1, many)
