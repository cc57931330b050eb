"""The list of all exercises."""

from pathlib import Path

from course_lib.exercises import EXERCISES

from .markdown import table, toctree

INTRO = """\
# Exercises

Each exercise is a function or a class that you write, and a check that runs it on numbers of its own and says what is
wrong, not just that something is. Hints fold out one at a time; the solution is folded below them. Write in the
notebook: the button with the rocket, at the top right of each sheet, opens it in Colab or on Binder; or open it in your
own JupyterLab with `make lab`.

"""


def write_exercises(page: Path) -> None:
    """Write the page: a table per lesson, and the list that orders the pages."""
    lessons = sorted({exercise.lesson for exercise in EXERCISES.values()})
    parts, names = [INTRO], []
    for lesson in lessons:
        mine = [exercise for exercise in EXERCISES.values() if exercise.lesson == lesson]
        name = f"notebooks/exercises/{lesson}_exercises"
        names.append(name)
        minutes = sum(exercise.minutes for exercise in mine)
        parts.append(f"## [Lesson {lesson}]({name}.ipynb): {len(mine)} exercises, {minutes} minutes\n\n")
        rows = [(each.title, f"`{each.name}`", each.difficulty, each.minutes) for each in mine]
        parts.append(table(("exercise", "you write", "difficulty (1 to 5)", "minutes"), *rows) + "\n")
    page.write_text("".join(parts) + toctree(names), encoding="utf-8")
