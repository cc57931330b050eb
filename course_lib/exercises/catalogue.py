"""All exercises by name, in the order of the lessons."""

from __future__ import annotations

from .exercise import Exercise
from .lesson_01 import LESSON_01
from .lesson_02 import LESSON_02
from .lesson_03 import LESSON_03
from .lesson_04 import LESSON_04
from .lesson_05 import LESSON_05
from .lesson_06 import LESSON_06
from .lesson_10 import LESSON_10

_ALL = (*LESSON_01, *LESSON_02, *LESSON_03, *LESSON_04, *LESSON_05, *LESSON_06, *LESSON_10)

EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
