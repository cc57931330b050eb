"""Find the mistake in a module that nobody has seen before: a new one each day, or as many as one wants."""

from datetime import date
from functools import cached_property
from html import escape

import torch
from torch import nn

from course_lib.diagnosis import diagnose

from .drawn_mistakes import SIZES, draw_faulty_module
from .name_exercise import judge_name
from .verdict import Verdict


class MistakeOfTheDay:
    """A module with one mistake; it shows itself as its code.

    Attributes:
        number: What it was drawn from.
        source: Its code.
    """

    def __init__(self, number: int) -> None:
        self._module = draw_faulty_module(number)
        self.number, self.source = number, self._module.source

    def build(self) -> nn.Module:
        """Construct the module with d_in=7, d_out=24, 6 heads and 2 kv heads; its input is (batch, token, 7)."""
        return self._module.build()

    def answer(self, mistake: str) -> Verdict:
        """Judge an answer: the id of a mistake, or its title in the catalogue."""
        if not isinstance(mistake, str):
            kind = type(mistake).__name__
            raise TypeError(
                f"mistake must be the name of one, such as 'no-softmax', got a {kind}: list(CATALOGUE) has all"
            )
        verdict = judge_name(mistake, self._module.mistake, self._evidence, self.source)
        return verdict.of(f"mistake_of_the_day({self.number})", "15")

    @cached_property
    def _evidence(self) -> str:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(2, 5, SIZES[0], generator=generator)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            report = diagnose(self.build(), x, causal=True, num_heads=SIZES[2], num_kv_heads=SIZES[3])
        return " ".join(f"The doctor saw: {one.evidence}." for one in report.findings[:1])

    def __repr__(self) -> str:
        return self.source

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.source)}</pre>"


def mistake_of_the_day(number: int | None = None) -> MistakeOfTheDay:
    """Draw a module with one mistake of the catalogue.

    Args:
        number: Any integer from 0; the same number gives the same module. None takes today's date.

    Returns:
        The module, which shows itself as its code, can be built, and judges an answer.

    Raises:
        ValueError: If the number is not an integer from 0.

    Example:
        >>> module = mistake_of_the_day(3)
        >>> module.answer("wrong-scale").passed
        True
    """
    if number is None:
        number = date.today().toordinal()
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"number must be an integer from 0, got {number!r}: leave it out for today's mistake.")
    return MistakeOfTheDay(number)
