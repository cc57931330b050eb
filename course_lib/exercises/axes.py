"""Name the axes of shapes by their sizes, which all differ within one call of a learner's code."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor


def axis_names(names: Mapping[str, str], arguments: Mapping[str, Any]) -> dict[int, str]:
    """Map sizes to names of axes, as far as a size belongs to one name or two.

    Args:
        names: Argument -> the names of its axes, such as {"keys": "key head_dim"}.
        arguments: Argument -> its value; those that are integers are named by themselves.
    """
    pairs = set()
    for name, value in arguments.items():
        if isinstance(value, Tensor) and len(names.get(name, "").split()) == value.ndim:
            pairs |= set(zip(value.shape, names[name].split(), strict=True))
        elif isinstance(value, int) and not isinstance(value, bool):
            pairs.add((value, name))
    return unique_names(pairs)


def unique_names(pairs: set[tuple[int, str]]) -> dict[int, str]:
    """Map each size above 1 to its name; two names are joined by "or", and more are none."""
    names: dict[int, list[str]] = {}
    for size, name in sorted(pairs):
        names.setdefault(size, []).append(name)
    return {size: " or ".join(found) for size, found in names.items() if len(found) <= 2 and size > 1}


def named_shape(shape: Sequence[int], axes: Mapping[int, str]) -> str:
    """Write a shape with the names of its axes, if all are known: "(5, 7) = (query, head_dim)"."""
    written = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    names = [axes.get(size, "") for size in shape]
    known = shape and all(names) and names.count("batch") < 2  # one of two batches is another axis of that size
    return f"{written} = ({', '.join(names)})" if known else written
