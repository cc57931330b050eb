"""All exercises and the lessons' blanks, in the order of the lessons: one folder per lesson, one file per exercise."""

from importlib import import_module
from pathlib import Path

from .exercise import Exercise
from .exercise_set import ExerciseSet

_LESSONS = sorted(path.name for path in Path(__file__).parent.glob("lesson_[0-9][0-9]"))
_ALL: list[ExerciseSet] = [import_module(f"{__package__}.{name}").SET for name in _LESSONS]

SETS: dict[str, ExerciseSet] = {one.lesson: one for one in _ALL if one.exercises}  # each is a sheet

EXERCISES: dict[str, Exercise] = {one.name: one for exercises in SETS.values() for one in exercises.exercises}

BLANKS: dict[str, Exercise] = {one.name: one for exercises in _ALL for one in exercises.blanks}

ALL: dict[str, Exercise] = EXERCISES | BLANKS
