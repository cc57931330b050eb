"""What every student's sheet has for itself: questions with numbers of their own, a module with a mistake, variants.

All of it is drawn from the number of a sheet, so the same sheet asks the same today and when it is graded. That keeps
students from handing in each other's answers; it keeps nobody from asking a language model.
"""

import ast
import inspect
import re
from collections.abc import Collection
from functools import cache, lru_cache

from .catalogue import EXERCISES, SETS
from .drawn_mistakes import HEADER, draw_faulty_module
from .exercise import Exercise
from .input_generator import InputGenerator
from .name_exercise import NameExercise
from .question_exercise import QuestionExercise
from .returning import returning
from .review import draw_questions
from .written_exercise import written_exercises

NAMED = "abc"  # of the three questions
FIRST_WITH_MODULE = "06"  # the lesson after which each of its lines has been explained
READ_IT = "Read its code line by line, beside a right one of yours: the catalogue of mistakes says what to look for."


@lru_cache(maxsize=32)  # all of a sheet are asked for one by one, and each time a module would be drawn
def individual_exercises(lesson: str, sheet: int) -> tuple[Exercise, ...]:
    """Return what stands on one student's sheet of a lesson and on no other's: questions, and later a faulty module.

    Args:
        lesson: The number of the lesson, such as "03".
        sheet: The number of the sheet, an integer from 0.
    """
    rng = InputGenerator(1_000_003 * sheet + int(lesson))
    asked = draw_questions(rng, lesson)
    questions = [
        QuestionExercise(
            returning(f"question_{lesson}_{letter}", lesson, question.answer),
            title=f"A question of your own ({letter})",
            difficulty=1,
            minutes=2,
            prompt=f"{question.asked}\n\nLet the function give the answer back.",
            hints=(),
            why=question.why,
            about=question.lesson,
        )
        for letter, question in zip(NAMED, asked, strict=True)
    ]
    return (
        (*questions, _faulty_module(lesson, rng.integer(1_000_000))) if lesson >= FIRST_WITH_MODULE else (*questions,)
    )


def _faulty_module(lesson: str, number: int) -> NameExercise:
    module, shown = draw_faulty_module(number), f"Patient{lesson}"  # no class of the student's has this name
    return NameExercise(
        returning(f"mistake_{lesson}", lesson, module.mistake),
        title="A mistake of your own",
        difficulty=2,
        minutes=5,
        prompt=(
            "This module has one mistake, and no other sheet has the same module. What is it called in the "
            "catalogue (`list(CATALOGUE)` of `course_lib.mistakes`)? Let the function give its name back, such as "
            "'no-softmax'. It takes (d_in, d_out, number of heads, number of kv heads)."
        ),
        hints=(READ_IT,),
        given=f"{HEADER}\n\n{module.source.replace(module.name, shown, 1)}",
        seen="You read it in the code.",
    )


def exercise_of_sheet(name: str, sheet: int | None) -> Exercise:
    """Return an exercise as it stands on one student's sheet; None is the sheet that all have.

    Raises:
        KeyError: There is no exercise of that name.
    """
    if name in EXERCISES:
        # a stream of its own for each exercise of the sheet
        rng = InputGenerator(f"{sheet} {name}".encode())
        return EXERCISES[name] if sheet is None else EXERCISES[name].varied(rng)
    if name in written_exercises():
        return written_exercises()[name]
    lesson = re.search(r"_(\d\d)", name)
    drawn = individual_exercises(lesson[1], sheet or 0) if lesson and lesson[1] in SETS else ()
    return {exercise.name: exercise for exercise in drawn}[name]


def calls_in_solution(name: str, others: Collection[str], sheet: int | None) -> bool:
    """Return whether the course's own answer to an exercise calls these others: then they are its helpers."""
    source = inspect.getsource(exercise_of_sheet(name, sheet).solution)
    return {*others} <= {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def is_individual(name: str) -> bool:
    """Return whether an exercise may ask different students for different answers."""
    if name in EXERCISES:
        return EXERCISES[name].varies
    return name not in written_exercises()


@cache
def gradable() -> dict[str, Exercise]:
    """Return all exercises that a sheet may have: of what is each student's own, one for each name."""
    own = [exercise for lesson in SETS for exercise in individual_exercises(lesson, 0)]
    return EXERCISES | written_exercises() | {exercise.name: exercise for exercise in own}
