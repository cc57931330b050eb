"""A test's assertion that code computes attention; nothing is imported until it is called, so pytest starts as fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from course_lib.diagnosis import Report


def assert_attention(
    module_or_function: Callable[..., Any], x: Tensor, *, ignore: tuple[str, ...] = (), **options: Any
) -> Report:
    """Fail a test unless the doctor finds nothing wrong, and has examined the code.

    Args:
        module_or_function, x: as for `course_lib.diagnosis.diagnose`.
        ignore: ids of mistakes that are meant, such as "no-causal-mask".
        options: of `diagnose`, such as causal=True, num_heads=6 or call=lambda module, x: module(x)[0].

    Returns:
        The report.

    Raises:
        AssertionError: something is wrong, or could not be examined; the message is the report.
        TypeError, ValueError: as `diagnose`; an id in `ignore` that the catalogue does not have.

    Example:
        >>> import torch
        >>> from course_lib.attention import MultiHeadAttention
        >>> assert_attention(MultiHeadAttention(11, 21, 3), torch.randn(2, 5, 11), causal=True, num_heads=3).ok
        True
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    from course_lib.diagnosis import diagnose
    from course_lib.mistakes import CATALOGUE

    if unknown := [name for name in ignore if name not in CATALOGUE]:
        raise ValueError(f"ignore must hold ids of the catalogue of mistakes, got {unknown[0]!r}.")
    report = diagnose(module_or_function, x, **options)
    meant = all(mistake is not None and mistake in ignore for mistake in report.mistakes)
    if meant and not report.not_examined:
        return report
    raise AssertionError(f"\n{report.in_words()}")
