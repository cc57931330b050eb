"""Describe in one sentence how a result differs from what was expected."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_lib.wording import counted

from .axes import named_shape

TOLERANCE = 1e-9  # in float64, where the order of addition changes a sum by 1e-15
TOLERANCE_FLOAT32 = 1e-5
TOLERANCE_MEASURED = 3e-7  # where it was measured how far float32 is off: a few roundings, not 1e-6 added to a sum
SMALL = 0.01  # numbers below are written with their first digits, as 7.5e-06
TOLERANCE_ZERO = 1e-11  # of what is exactly 0, such as a hidden weight: no rounding makes it larger
FLOAT32_ROUNDING = 1e-4  # where the inputs are float32, and an answer may add in another order
LARGEST = 1e300  # a larger integer can't be compared with a float


class Kind(Enum):
    """What is wrong with a result."""

    NONE = auto()  # there is none
    NONE_PART = auto()  # one of its parts is None
    BOTH = auto()  # the two tensors that `max` gives back
    COUNT = auto()  # more or fewer values
    TYPE = auto()  # no tensor, or no number
    WORD = auto()
    FRACTION = auto()  # in place of an integer
    DTYPE = auto()
    SHAPE = auto()
    NUMBER = auto()
    ELEMENTS = auto()


class Difference(NamedTuple):
    """How a result differs: one sentence, the id of the mistake or None, and what is wrong."""

    sentence: str
    mistake: str | None = None
    kind: Kind = Kind.ELEMENTS


class Expected(NamedTuple):
    """What a result is compared with.

    Attributes:
        value: A tensor, a number, a string, or a tuple or list of these.
        rounding: How far an answer that computes in float32 may be off, besides a relative error of `tolerance`; for a
            tuple, how far each part may be.
        axes: The names of the value's axes, such as "batch head token head_dim", or of a tuple's parts.
        sizes: Size -> name of the axis that has it, for results of another shape.
        causal: Whether the first token sees itself alone.
        exact_dtype: Whether the result must have the value's own dtype, and not only its kind.
        tolerance: The relative error that may be there.
        subject: What a sentence about its type begins with.
    """

    value: Any
    rounding: Any = 0.0
    axes: str = ""
    sizes: Mapping[int, str] = {}
    causal: bool = False
    exact_dtype: bool = False
    tolerance: float = TOLERANCE_FLOAT32
    subject: str = "Your function gives back"


def difference(result: Any, expected: Expected) -> Difference | None:
    """Describe how a result differs from what was expected; None if it is right, be it to the precision of float32."""
    value = expected.value
    if result is None:
        return Difference(f"{expected.subject} None: is a `return` missing?", "returns-none", Kind.NONE)
    if isinstance(value, Tensor):
        return _of_tensors(result, expected)
    if isinstance(value, (tuple, list)):
        return _of_tuples(result, expected)
    if isinstance(value, str):
        normalized = result.strip().lower().replace("_", "-") if isinstance(result, str) else result
        said = f"Your answer is {result!r}; it should be {value!r}."
        return None if normalized == value else Difference(said, kind=Kind.WORD)
    return _of_numbers(result, expected)


def _of_numbers(result: Any, expected: Expected) -> Difference | None:
    value = expected.value
    if isinstance(result, Tensor) and result.numel() == 1:
        result = result.item()
    if not isinstance(result, (bool, int, float)):
        right = "True or False" if isinstance(value, bool) else f"a number such as {value:.6g}"
        return Difference(f"{expected.subject} {_kind(result)}; it should be {right}.", kind=_type_of(result))
    if isinstance(value, bool) and result not in (0, 1):
        return Difference(f"{expected.subject} {_kind(result)}; it should be True or False.", kind=Kind.TYPE)
    if isinstance(result, int) and abs(result) > LARGEST:
        return Difference("Your result is an integer of more than 300 digits.", kind=Kind.NUMBER)
    if isinstance(value, int) and isinstance(result, float) and result == value:
        said = f"Your result is the fraction {result}; it should be the integer {value}."
        return Difference(said, kind=Kind.FRACTION)
    if not abs(result - value) <= TOLERANCE * max(1.0, abs(value)):  # written so that a nan differs
        yours, right = distinct(result, value)
        return Difference(f"Your result is {yours}; it should be {right}.", kind=Kind.NUMBER)
    return None


def _of_tuples(result: Any, expected: Expected) -> Difference | None:
    value = expected.value
    if isinstance(result, Tensor) and result.ndim == 1 and all(isinstance(part, int) for part in value):
        result = result.tolist()
    floats = isinstance(value, list) and all(isinstance(part, float) for part in value)
    right = "a list of floats" if floats else counted(len(value), "value")
    if isinstance(result, (Tensor, str, dict)) or not hasattr(result, "__len__") or not hasattr(result, "__getitem__"):
        said = f"{expected.subject} {_kind(result)}; it should be {right}."
        return Difference(said, kind=_type_of(result))
    if floats and any(isinstance(part, Tensor) for part in result):
        return Difference(f"{expected.subject} a list of tensors; it should be {right}.", kind=Kind.TYPE)
    if len(result) != len(value):
        said = f"{expected.subject} {counted(len(result), 'value')}; it should be {len(value)}"
        return Difference(f"{said}{_counted(result, value)}.", kind=Kind.COUNT)
    if all(isinstance(part, (int, str)) for part in value):
        same = list(map(str, result)) == list(map(str, value))
        whole = " They are fractions, not integers." if not same and _equal_numbers(result, value) else ""
        said = f"Your result is {tuple(result)}; it should be {value}.{whole}"
        return None if same else Difference(said, kind=Kind.FRACTION if whole else Kind.ELEMENTS)
    names = expected.axes.split()
    roundings = expected.rounding if isinstance(expected.rounding, tuple) else (expected.rounding,) * len(value)
    for index, (own, right, rounding) in enumerate(zip(result, value, roundings, strict=True)):
        if found := difference(own, expected._replace(value=right, rounding=rounding, axes="", subject="It is")):
            part = f"`{names[index]}`" if len(names) == len(value) else f"number {index} of what you give back"
            if own is None:
                return Difference(f"Of the parts, {part} is None.", kind=Kind.NONE_PART)
            return Difference(f"Of the parts, {part} is off. {found.sentence}", found.mistake, found.kind)
    return None


def _counted(result: Sequence[Any], value: Sequence[Any]) -> str:
    """Name the values that are too many, or missing, if they are numbers or words."""
    if not all(isinstance(one, (int, str)) for one in (*result, *value)):
        return ""
    more, fewer = ([one for one in own if one not in other] for own, other in ((result, value), (value, result)))
    parts = [f"{what}: {_listed(found)}" for what, found in (("too many", more), ("missing", fewer)) if found]
    return f" ({'; '.join(parts)})" if parts else ""


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:6])) + (", ..." if len(values) > 6 else "")


def _equal_numbers(result: Any, value: Any) -> bool:
    numbers = all(isinstance(part, (int, float)) for part in (*result, *value))
    return numbers and list(map(float, result)) == list(map(float, value))


def _of_tensors(result: Any, expected: Expected) -> Difference | None:
    value = expected.value
    if not isinstance(result, Tensor):
        return Difference(f"{expected.subject} {_kind(result)}; it should be a tensor.", kind=_type_of(result))
    result = result.detach().cpu()
    if value.ndim == 0 and result.numel() == 1:
        result = result.reshape(())
    if result.shape != value.shape:
        right = (
            f"{_shape(value.shape)} = ({', '.join(expected.axes.split())})" if expected.axes else _shape(value.shape)
        )
        said = f"Your result has the shape {named_shape(result.shape, expected.sizes)}; it should be {right}."
        return Difference(said, kind=Kind.SHAPE)
    same_kind = result.is_floating_point() == value.is_floating_point() and not result.is_complex()
    exact = expected.exact_dtype or not value.is_floating_point()
    if not same_kind or (exact and result.dtype != value.dtype):
        return Difference(f"Your result is {_dtype(result)}; it should be {_dtype(value)}.", kind=Kind.DTYPE)
    tolerance = expected.tolerance if result.dtype == value.dtype else TOLERANCE_FLOAT32
    off = ~_close(result, value, expected.rounding, tolerance)
    if tolerance == TOLERANCE_MEASURED and value.is_floating_point():
        off |= (value == 0) & (result.abs() > TOLERANCE_ZERO)
    if not off.any():
        return None
    index = tuple(off.nonzero()[0].tolist())
    yours, right = distinct(result[index].item(), value[index].item())
    nan = " A nan comes from 0 / 0 or from infinity minus infinity." if yours == "nan" else ""
    if not index:
        return Difference(f"Your result is {yours}; it should be {right}.{nan}", kind=Kind.NUMBER)
    count = f"{int(off.sum())} of {off.numel()} elements differ"
    return Difference(f"At {list(index)} your result is {yours}; it should be {right} ({count}).{nan}")


def distances(result: Any, value: Any, factor: float, least: float) -> Any:
    """Return the largest distance of finite elements, times a factor, and `least` more: for a tuple, of each part."""
    if isinstance(value, (tuple, list)):
        return tuple(distances(own, right, factor, least) for own, right in zip(result, value, strict=True))
    if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
        return least
    off = (result - value).abs()
    return factor * float(torch.where(off.isfinite(), off, 0.0).max()) + least


def _close(result: Tensor, value: Tensor, rounding: float, tolerance: float = TOLERANCE_FLOAT32) -> Tensor:
    if not value.is_floating_point():
        return result == value
    atol = max(tolerance, rounding)
    return torch.isclose(result.double(), value.double(), rtol=tolerance, atol=atol, equal_nan=True)


def equal(result: Any, other: Any) -> bool:
    """Return whether two results have the same type, shape, kind of dtype (floating point or not) and values."""
    if isinstance(result, Tensor) and isinstance(other, Tensor):
        return difference(result, Expected(other)) is None
    return not isinstance(result, Tensor) and difference(result, Expected(other)) is None


def precision_note(result: Any, value: Any) -> str | None:
    """Return one sentence if a right result, or a part of it, is right to the digits of float32 only, else None."""
    if isinstance(value, (tuple, list)):
        return next(filter(None, map(precision_note, result, value)), None)
    if not isinstance(result, Tensor) or not isinstance(value, Tensor) or not value.is_floating_point():
        return None
    if result.dtype == value.dtype and bool(_close(result.detach().cpu(), value, 0.0, TOLERANCE).all()):
        return None
    return (
        f"The check came with {_dtype(value)}, and your result is right to the digits of float32 only. Is a small "
        "number added, or a step computed in float32? `torch.tensor(..., dtype=x.dtype)` and "
        "`torch.zeros(..., dtype=x.dtype)` keep the dtype that came in."
    )


def distinct(yours: float, right: float) -> tuple[str, str]:
    """Write two numbers with as many digits as they need to differ: none of integers, else at least four."""
    if float(yours).is_integer() and float(right).is_integer():
        return str(yours), str(right)
    for digits in range(4, 17):
        written = _number(yours, digits), _number(right, digits)
        if written[0] != written[1] and (not right or float(written[1])):  # no right result is shown as 0.0000
            return written
    return repr(yours), repr(right)


def _number(value: float, digits: int) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.{digits}g}" if 0 < abs(value) < SMALL else f"{value:.{digits}f}"


def _kind(value: Any) -> str:
    kind = type(value).__name__
    if type(value).__module__ == "torch.return_types":
        return f"both tensors of `{kind}`, `values` and `indices`"
    if kind == "ndarray":
        return "a NumPy array"
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _type_of(value: Any) -> Kind:
    return Kind.BOTH if type(value).__module__ == "torch.return_types" else Kind.TYPE


def _shape(shape: torch.Size) -> str:
    return str(tuple(shape))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
