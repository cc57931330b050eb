"""The most likely next word."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def next_word(logits):  # (batch, token, vocabulary) -> (batch), int64
    return logits[:, -1].argmax(dim=-1)  # of the last token: the id of the largest


def _draw(rng: InputGenerator) -> list[Case]:
    return [Case((rng.normal(batch, tokens, words),)) for batch, tokens, words in rng.size_rows(4, 3, 3, 9)]


EXERCISE = FunctionExercise(
    next_word,
    title="The most likely next word",
    difficulty=1,
    minutes=2,
    prompt=(
        "A model gives a row of logits for each token: one number per word of the vocabulary, the larger the more "
        "likely is that word next. Return the id of the word that is most likely after the last token, for each sample."
    ),
    hints=(
        "Which token's logits speak about what comes after the text?",
        "`logits[:, -1]` is (batch, vocabulary); `argmax(dim=-1)` is the index of the largest in each row.",
    ),
    draw=_draw,
    arguments={"logits": "batch token vocabulary"},
    axes="batch",
    wrong=(
        Wrong(
            "the word after the first token",
            lambda x: x[:, 0].argmax(-1),
            hint="Which token has seen the whole text?",
        ),
        Wrong(
            "the words after all tokens; only the last one's is asked for",
            lambda x: x.argmax(-1),
            hint="Which of these words is new?",
        ),
        Wrong(
            "the index of a token, not of a word",
            lambda x: x.argmax(1)[:, -1],
            hint="Along which axis are the words of the vocabulary?",
        ),
        Wrong(
            "the least likely word",
            lambda x: x[:, -1].argmin(-1),
            hint="Does a large logit mean likely or unlikely?",
        ),
        Wrong(
            "the largest logits, not the ids of their words",
            lambda x: x[:, -1].amax(-1),
            hint="Do you want the largest number, or where it is?",
        ),
        Wrong(
            "the ids with an axis of size 1; one id per sample is asked for",
            lambda x: x[:, -1:].argmax(-1),
            hint="What is the difference between `logits[:, -1]` and `logits[:, -1:]`?",
        ),
    ),
)
