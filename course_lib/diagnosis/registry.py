"""Rules register themselves: `@rule` turns a function into a rule, and `collect` returns the rules of a package."""

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Flag, auto
from importlib import import_module
from types import ModuleType

from .finding import Finding, error_message
from .measure.run import Run
from .measure.stages import Stages, when_reached
from .measure.structure import Structure

Check = Callable[..., Iterator[Finding] | Iterator[str] | Iterator[Finding | str]]  # findings, or what is worth knowing


class Of(Flag):
    """What a rule judges where there are several attentions: each in its place, the code as a whole, or both."""

    EACH = auto()
    WHOLE = auto()
    BOTH = EACH | WHOLE


@dataclass(frozen=True)
class Rule:
    """A function that reads stages and yields findings or remarks.

    Attributes:
        check: the function; it runs if the stages that its parameters name by their types were reached.
        of: what it judges. Of the whole are rules that run all of the code another way: what they find in one attention
            may be the fault of another.
        of_dot_products: whether it is about queries and keys as factors of a dot product, and not about weights.
    """

    check: Check
    of: Of = Of.EACH
    of_dot_products: bool = False

    @property
    def name(self) -> str:
        """What findings are stored with."""
        return self.check.__name__.removeprefix("check_")

    @property
    def title(self) -> str:
        """What it checks, as a phrase: the first line of its docstring."""
        first = (self.check.__doc__ or self.check.__name__).splitlines()[0].removesuffix(".")
        return first[0].lower() + first[1:]


def rule(*, of: Of = Of.EACH, of_dot_products: bool = False) -> Callable[[Check], Rule]:
    """Turn a function into a rule, as in `@rule(of=Of.WHOLE)`."""
    return lambda check: Rule(check, of, of_dot_products)


def collect(package: ModuleType) -> list[Rule]:
    """Return the rules in the modules of a package: what is measured first is judged first, then file by file."""
    modules = [import_module(f"{package.__name__}.{info.name}") for info in pkgutil.iter_modules(package.__path__)]
    found = dict.fromkeys(value for module in modules for value in vars(module).values() if isinstance(value, Rule))
    return sorted(found, key=lambda one: when_reached(one.check))


def apply(rules: list[Rule], stages: Stages) -> tuple[list[Finding], list[str]]:
    """Return the findings of the rules and their remarks."""
    findings: list[Finding] = []
    remarks: list[str] = []
    structure = stages.reach(Structure)
    is_additive = structure is not None and structure.is_additive
    for one in rules:
        if is_additive and one.of_dot_products:
            continue
        try:
            needed = stages.arguments(one.check)
            for found in () if needed is None else one.check(*needed):
                if isinstance(found, Finding):
                    findings.append(replace(found, rule=one.name))
                else:
                    remarks.append(found)
        except Exception as error:  # the subject's code may break a rule; the others still count
            if not isinstance(stages.attempt, Run):
                raise
            remarks.append(f"not checked: {one.title} ({error_message(error)})")
    return findings, remarks
