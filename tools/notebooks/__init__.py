"""Find lessons, sync them with their sources, run them, compare them with what is stored, and lint them."""

from .address import Address, read_address
from .exercise_notebook import generated_notebooks
from .jupytext_pairs import sync_all
from .lesson_files import SOLUTIONS, Lesson, choose, find_notebooks
from .pytest_runs import Tally, lesson_arguments, run_pytest
from .run import LessonFailed, run_lesson

__all__ = [
    "SOLUTIONS", "Address", "Lesson", "LessonFailed", "Tally", "choose", "find_notebooks", "generated_notebooks",
    "lesson_arguments", "read_address", "run_lesson", "run_pytest", "sync_all",
]  # fmt: skip
