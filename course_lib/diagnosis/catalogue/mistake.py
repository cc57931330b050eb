"""What is known of one mistake."""

from typing import NamedTuple


class Mistake(NamedTuple):
    """An entry of the catalogue.

    Attributes:
        id: its name everywhere, such as "mask-discarded".
        title: one sentence that says what is wrong.
        explanation: three sentences: what the code does, what it should do, why nobody notices.
        shows: what one sees of it from outside, after a test that finds it where one is needed.
        seen: where it was met in the wild, or which code invites it.
        hint: a question that leads to it without giving it away.
        lesson: number of the lesson that teaches it.
    """

    id: str
    title: str
    explanation: str
    shows: str
    seen: str
    hint: str
    lesson: str
