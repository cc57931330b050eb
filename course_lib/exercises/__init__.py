"""Exercises that explain mistakes: `check("split_heads", split_heads)` judges an answer, `progress()` sums up.

Learners use `check`, `filled`, `from_earlier`, `hint`, `predict`, `progress`, `share_guesses`, `sneak` and
`solution_with`; the grader and the course's own tools use the rest.
"""

from .answer import Answer, Asked, Backward, BuiltModule, Called, Ran
from .answering.from_source import FromSource
from .catalogue import ALL, BLANKS, EXERCISES, SETS
from .checking import check, filled
from .edited_solution import solution_with
from .exercise import Exercise
from .exercise_set import ExerciseSet
from .function_exercise import FunctionExercise
from .hints import hint
from .individual import calls_in_solution, exercise_of_sheet, gradable, individual_exercises, is_individual
from .input_generator import InputGenerator
from .learner_error import LearnerError
from .lesson_progress import progress
from .local_answer import LocalAnswer
from .mistake_of_the_day import mistake_of_the_day
from .module_exercise import ModuleExercise
from .name_exercise import NameExercise
from .order_exercise import OrderExercise
from .own_code import from_earlier
from .prediction import predict
from .progress_location import PROGRESS_VARIABLE, progress_is_off, progress_path
from .review import review
from .shared_guesses import SHARED, predictions, printed_text, share_guesses
from .sneaking import sneak
from .verdict import (
    NEEDS_REVIEW,
    NOT_PASSED,
    NOT_WRITTEN,
    PASSED,
    SIGNS,
    Verdict,
    not_passed,
    not_written,
    passed,
    stopped,
)
from .written_exercise import WrittenExercise, written_exercises

__all__ = [
    "ALL", "BLANKS", "EXERCISES", "NEEDS_REVIEW", "NOT_PASSED", "NOT_WRITTEN", "PASSED", "PROGRESS_VARIABLE", "SETS",
    "SHARED", "SIGNS", "Answer", "Asked", "Backward", "BuiltModule", "Called", "Exercise", "ExerciseSet", "FromSource",
    "FunctionExercise", "InputGenerator", "LearnerError", "LocalAnswer", "ModuleExercise", "NameExercise",
    "OrderExercise", "Ran", "Verdict", "WrittenExercise", "calls_in_solution", "check", "exercise_of_sheet", "filled",
    "from_earlier", "gradable", "hint", "individual_exercises", "is_individual", "mistake_of_the_day", "not_passed",
    "not_written", "passed", "predict", "predictions", "printed_text", "progress",
    "progress_is_off", "progress_path", "review", "share_guesses", "sneak", "solution_with", "stopped",
    "written_exercises",
]  # fmt: skip
