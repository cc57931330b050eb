"""Three questions from earlier lessons, with drawn numbers, before a new set of exercises begins."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from course_lib.markup import backticks_to_code

from .input_generator import InputGenerator
from .review_answers import PRECISION, is_right, is_too_rough
from .review_questions import QUESTIONS

COUNT = 3


class Question(NamedTuple):
    """One question with drawn numbers: its text, its answer, one sentence that says why, and the lesson it is from."""

    text: str
    answer: Any
    why: str
    lesson: str

    @property
    def asked(self) -> str:
        """Return the text and, where the answer is no integer, how precise it must be."""
        return f"{self.text} {PRECISION}" if isinstance(self.answer, float) else self.text


class Review:
    """Questions, or what is right and wrong of the answers to them; it shows itself as text and as HTML.

    Attributes:
        lines: A line for each question: its text or, with answers, whether the answer is right and why.
        passed: Whether all answers are right; False without answers.
    """

    def __init__(self, lines: Sequence[str], passed: bool) -> None:
        self.lines, self.passed = tuple(lines), passed

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return "\n".join(f"{number}. {line}" for number, line in enumerate(self.lines, start=1))

    def _repr_html_(self) -> str:
        return f"<ol>{''.join(f'<li>{backticks_to_code(line)}</li>' for line in self.lines)}</ol>"


def review(lesson: str, answers: Sequence[Any] | None = None, *, seed: int = 0) -> Review:
    """Ask three questions from the lessons before one lesson, or judge the answers to them.

    Args:
        lesson: The number of the lesson whose exercises come next, such as "03".
        answers: The three answers, in order; None shows the questions. A number is right to three digits, and text
            such as "1/3" or "(2, 3)" counts as what it says.
        seed: Another seed draws other questions and other numbers.

    Returns:
        The questions or, with answers, what is right and why.

    Raises:
        ValueError: If no lesson before that one has questions, or there are not three answers.

    Example:
        >>> print(review("03", seed=1).lines[0].endswith("?"))
        True
    """
    questions = _drawn(str(lesson), seed)
    if answers is None or all(answer is ... for answer in answers):
        return Review([question.asked for question in questions], False)
    if isinstance(answers, str) or len(answers) != COUNT:
        raise ValueError(f"answers must be a list of {COUNT}, one for each question, got {answers!r}.")
    judged = [is_right(question.answer, answer) for question, answer in zip(questions, answers, strict=True)]
    lines = [_line(*pair) for pair in zip(questions, answers, judged, strict=True)]
    return Review(lines, all(judged))


def _drawn(lesson: str, seed: int) -> list[Question]:
    questions = draw_questions(InputGenerator(1000 * seed + int(lesson)), f"{int(lesson) - 1:02}", latest_first=True)
    if not questions:
        raise ValueError(f"lesson is {lesson!r}, before which there are no questions: the first is '02'.")
    return questions


def draw_questions(rng: InputGenerator, last: str, *, latest_first: bool = False) -> list[Question]:
    """Draw three questions with their numbers from the lessons up to the last; fewer if there are none.

    If the latest comes first, one is from the last lesson that has questions or the one before it: nothing waits long.
    """
    known: list[tuple[str, Callable[[InputGenerator], tuple[str, Any, str]]]] = rng.shuffled(
        [(number, question) for number, questions in QUESTIONS.items() if number <= last for question in questions]
    )
    latest = sorted({number for number, _ in known})[-2:]
    first = [one for one in known if latest_first and one[0] in latest][:1]
    asked = [*first, *(one for one in known if one not in first)]
    return [Question(*question(rng), number) for number, question in asked[:COUNT]]


def _line(question: Question, answer: Any, right: bool) -> str:
    if answer is ...:
        return f"… {question.asked}"
    if right:
        return f"✓ {answer!r} {question.why}"
    if is_too_rough(question.answer, answer):
        return f"✗ {answer!r} is near, but has too few right digits. {question.asked}"
    return f"✗ {answer!r} is not it. Look again at lesson {question.lesson}: {question.asked}"
