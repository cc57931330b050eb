"""Decide which findings are causes and which are only their effects."""

from course_lib.mistakes import Symptom

from .finding import Finding, Kind

FOLLOWING = {Symptom.PATHS, Symptom.TEXT}  # what follows from many mistakes in a plain run
OF_ITS_OWN = {Kind.UNSEEN_WINDOW, Kind.LEAK_BEHIND}  # what is told beside other findings without a name


def root_causes(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the fewest findings that explain all, each mistake once, the likeliest first.

    What is explained explains in turn. Of findings that explain each other, such as the same mistake found twice, the
    cause is the one whose step comes first in the computation, then one with a line, then the one that was measured
    first. Causes stand in this order, those that show on another device, or in another dtype, size or mode, behind
    the others, and those without a name last.
    """
    found = sorted(findings, key=lambda one: (one.origin.step, one.where is None))
    numbers = range(len(found))
    explains = [{effect for effect in numbers if _explains(one, found[effect])} for one in found]
    for between in numbers:
        for effects in explains:
            effects |= explains[between] if between in effects else set()
    causes = []
    for number, one in enumerate(found):
        explaining = {cause for cause in numbers if number in explains[cause]}
        if explaining <= explains[number] and number <= min(explaining, default=number):
            causes.append(one)
    return tuple(sorted(causes, key=_place))


def _place(cause: Finding) -> tuple[bool, ...]:
    elsewhere = cause.origin.symptom is Symptom.ELSEWHERE
    return (cause.kind in OF_ITS_OWN, cause.mistake is None, elsewhere, cause.where is None)


def _explains(cause: Finding, effect: Finding) -> bool:
    """Return whether a finding may be there only because of another.

    The catalogue says what follows from each mistake. Beside that, one in the plain run explains that paths differ,
    that names mislead, and that a later token comes in behind attention; and whatever has no name is explained by
    anything that does not show elsewhere only. Whether code keeps to its window is explained by nothing, and that it
    differs from a reference by no difference without a name.
    """
    if not {effect.mistake, effect.origin.step, effect.origin.symptom}.isdisjoint(cause.origin.effects):
        return True
    is_wrong_run = cause.mistake is not None and cause.in_plain_run
    if effect.mistake is not None:
        return effect.mistake == cause.mistake or (is_wrong_run and effect.origin.symptom in FOLLOWING)
    if effect.kind in OF_ITS_OWN:
        return is_wrong_run and effect.kind is Kind.LEAK_BEHIND
    if cause.mistake is None:
        return effect.kind is not Kind.NOT_AS_EXPECTED and cause.kind not in OF_ITS_OWN
    return cause.origin.symptom is not Symptom.ELSEWHERE
