"""Find lessons, sync them with their sources, run them, compare them with what is stored, and lint them."""

from .address import Address, read_address
from .check import Tally, lesson_arguments, run_pytest
from .discover import Lesson, choose, find_notebooks
from .exercise_notebook import made_notebooks
from .jupytext_pairs import sync_all
from .run import LessonFailed, run_lesson

__all__ = [
    "Address",
    "Lesson",
    "LessonFailed",
    "Tally",
    "choose",
    "find_notebooks",
    "lesson_arguments",
    "made_notebooks",
    "read_address",
    "run_lesson",
    "run_pytest",
    "sync_all",
]
