"""Flag answers that may not be the student's own: the course's solutions, and one hand-in under several names.

What is found here is for the teacher to look at. It gives and takes no point, and no student's page says it.
"""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from course_lib.exercises import EXERCISES
from course_lib.wording import first_of

from .submissions import Notebook, parse

MIN_ANSWERS, MIN_LINES = 3, 10  # with fewer, two people write the same by chance
SOLUTION_MARK = "### BEGIN SOLUTION"


def equals_solutions(notebook_of: Mapping[str, Notebook]) -> bool:
    """Return whether the passed answers in these notebooks are the course's solutions, but for comments and layout."""
    if any(SOLUTION_MARK in cell.source for notebook in notebook_of.values() for cell in notebook.cells):
        return True
    answers = {name: _definition(notebook, name) for name, notebook in notebook_of.items() if name in EXERCISES}
    return _is_enough(answers.values()) and all(code == _solution(name) for name, code in answers.items())


class Alike:
    """The hand-ins of a class that are equal: one file, or the same code in it."""

    def __init__(self) -> None:
        self._students: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, student: str, notebooks: Iterable[Notebook], names: Iterable[str]) -> None:
        """Remember what a student handed in for these exercises, if it is more than stubs."""
        for notebook in notebooks:
            codes = [_definition(notebook, name) for name in names]
            if written := [code for code in codes if code and "NotImplementedError" not in code and "..." not in code]:
                self._students[notebook.checksum].add(student)
                if _is_enough(written):
                    self._students["\0".join(written)].add(student)

    def flags(self) -> dict[str, str]:
        """Map each student who shares a hand-in with others to a few words about it."""
        others: defaultdict[str, set[str]] = defaultdict(set)
        for students in self._students.values():
            for student in students if len(students) > 1 else ():
                others[student] |= students - {student}
        shown = {student: first_of(sorted(names), 3, len(names)) for student, names in others.items()}
        return {student: f"the same hand-in as {names}" for student, names in shown.items()}


def _is_enough(answers: Collection[str]) -> bool:
    return len(answers) >= MIN_ANSWERS and sum(len(code.splitlines()) for code in answers) >= MIN_LINES


def _definition(notebook: Notebook, name: str) -> str:
    """Return the last definition of an answer, without comments and layout; "" if there is none."""
    cells = [cell for cell in notebook.cells if name in cell.defines]
    return _plain(cells[-1].plain[0], name) if cells else ""


@cache
def _solution(name: str) -> str:
    return _plain(inspect.getsource(EXERCISES[name].solution), name)


def _plain(source: str, name: str) -> str:
    module = parse(source)
    definitions = [node for node in module.body if getattr(node, "name", None) == name] if module else []
    return ast.unparse(definitions[-1]) if definitions else ""
