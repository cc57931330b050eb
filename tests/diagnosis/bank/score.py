"""How good the doctor is: every case of the bank diagnosed, and what came of it counted."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.diagnosis import Report, diagnose

from .case import Case

FILES = (
    "masks",
    "scores",
    "heads",
    "outputs",
    "running",
    "healthy",
    "unusual",
    "libraries",
    "planted",
    "known_designs",
    "near_mistakes",
    "caches_and_rotary",
    "positions",
    "paths",
    "packed_styles",
    "function_styles",
    "other_kinds",
)
GOALS = {"detected": 1.0, "named": 0.97, "first guess": 0.95, "located": 0.9}


@dataclass(frozen=True)
class Result:
    """One case and what the doctor said of it."""

    case: Case
    report: Report
    seconds: float

    @property
    def named(self) -> bool:
        return self.case.mistake in self.report.mistakes

    @property
    def accused(self) -> bool:
        """Whether anything was found, or an attention was not examined; a cache that nobody can make is no alarm."""
        return bool(self.report.findings) or any(one.missing for one in self.report.attentions)

    @property
    def first(self) -> bool:
        return self.report.mistakes[:1] == (self.case.mistake,)

    @property
    def located(self) -> bool:
        """Whether the right finding points at a line that is marked."""
        places = [one.where for one in self.report.findings if one.mistake == self.case.mistake]
        return bool(places) and places[0] in self.case.lines

    def __str__(self) -> str:
        said = ", ".join(f"{one.mistake} at {one.where}" for one in self.report.findings) or "healthy"
        return f"{self.case}: {said}; marked {', '.join(self.case.lines) or 'nowhere'}"


def cases(names: Iterable[str] = ()) -> list[Case]:
    """The cases of some files of the bank, or of all."""
    return [case for name in (names or FILES) for case in importlib.import_module(f"tests.diagnosis.bank.{name}").CASES]


def examined(case: Case) -> Result:
    """Let the doctor look at a case."""
    code, x, options = case.make()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = diagnose(code, x, **options)
    return Result(case, report, time.perf_counter() - start)


def goal_counts(results: list[Result]) -> dict[str, tuple[int, int]]:
    """(how many, of how many) for each goal."""
    wrong = [one for one in results if one.case.mistake is not None]
    marked = [one for one in wrong if one.case.lines]
    return {
        "detected": (sum(not one.report.ok for one in wrong), len(wrong)),
        "named": (sum(one.named for one in wrong), len(wrong)),
        "first guess": (sum(one.first for one in wrong), len(wrong)),
        "located": (sum(one.located for one in marked), len(marked)),
    }


def main(names: Iterable[str] = (), *, misses: bool = False) -> int:
    """Print how good the doctor is.

    Args:
        names: files of the bank; all if there are none.
        misses: whether each case that was not got right is listed.

    Returns:
        0 if every goal is met, else 1.
    """
    results = [examined(case) for case in cases(names)]
    right = [one for one in results if one.case.mistake is None]
    alarms = [one for one in right if one.accused]
    met = not alarms
    for name, (count, total) in goal_counts(results).items():
        if total:
            reached = count / total >= GOALS[name]
            met = met and reached
            verdict = "met" if reached else "MISSED"
            print(f"{name:<12} {count:>4} of {total:<4} {count / total:>6.1%}   goal {GOALS[name]:.0%}: {verdict}")
    print(f"{'false alarms':<12} {len(alarms):>4} of {len(right):<4} {'':>6}   goal 0: {'MISSED' if alarms else 'met'}")
    seconds = sorted(one.seconds for one in results)
    print(f"{'seconds':<12} median {seconds[len(seconds) // 2]:.2f}, longest {seconds[-1]:.2f}   goal: under 1 each")
    if misses:
        for one in results:
            wrong = one.case.mistake is not None and not (one.first and (one.located or not one.case.lines))
            if wrong or one in alarms:
                print(one)
    return 0 if met else 1
