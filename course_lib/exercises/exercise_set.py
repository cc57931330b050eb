"""The exercises of one lesson, and the text around them in their notebook."""

from dataclasses import dataclass

from .exercise import Exercise


@dataclass(frozen=True)
class ExerciseSet:
    """The exercises of one lesson.

    Attributes:
        title: What they are about, as the notebook's heading says it.
        intro: The text below the heading, in Markdown.
        imports: The code of the first cell.
        after: What stands above the last cell, which shows the learner's progress.
        exercises: The exercises, in the order of the notebook.
        last: Pairs of text and code that stand below the exercises.
        blanks: Short exercises that the lesson itself asks for; they are in no sheet and count no points.
    """

    title: str
    intro: str
    imports: str
    after: str
    exercises: tuple[Exercise, ...]
    last: tuple[tuple[str, str], ...] = ()
    blanks: tuple[Exercise, ...] = ()

    @property
    def lesson(self) -> str:
        """The number of the lesson, such as "01"."""
        return (*self.exercises, *self.blanks)[0].lesson
