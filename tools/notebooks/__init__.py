"""Find lessons, sync them with their sources, run them, compare them with what is stored, and lint them."""

from .address import Address, read_address
from .check import Tally, lesson_arguments, run_pytest
from .discover import SOLUTIONS, Lesson, find_notebooks
from .exercise_notebook import write_solutions
from .jupytext_pairs import sync_all
from .notebook_file import write_student
from .run import LessonFailed, run_lesson

__all__ = [
    "SOLUTIONS",
    "Address",
    "Lesson",
    "LessonFailed",
    "Tally",
    "find_notebooks",
    "lesson_arguments",
    "read_address",
    "run_lesson",
    "run_pytest",
    "sync_all",
    "write_solutions",
    "write_student",
]
