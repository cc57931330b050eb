"""The most likely next word."""

from course_lib.exercises.function_exercise import FunctionExercise


def next_word(logits):  # (batch, token, vocabulary) -> (batch), int64
    return logits[:, -1].argmax(dim=-1)  # of the last token: the id of the largest


EXERCISE = FunctionExercise(
    next_word,
    title="The most likely next word",
    difficulty=1,
    minutes=1,
    prompt=(
        "A model gives a row of logits for each token: one number per word of the vocabulary, the larger the more "
        "likely is that word next. Return the id of the word that is most likely after the last token, for each sample."
    ),
    hints=(
        "Which token's logits speak about what comes after the text?",
        "`logits[:, -1]` is (batch, vocabulary); `argmax(dim=-1)` is the index of the largest in each row.",
    ),
    calls=4,
    arguments={"logits": "batch token vocabulary"},
    axes="batch",
    wrong="""
1] => 0]
    the word after the first token
    ? Which token has seen the whole text?
:, -1 => :
    the words after all tokens; only the last one's is asked for
    ? Which of these words is new?
logits.argmax(1)[:, -1]
    the index of a token, not of a word
    ? Along which axis are the words of the vocabulary?
logits[:, -1].argmin(-1)
    the least likely word
    ? Does a large logit mean likely or unlikely?
logits[:, -1].amax(-1)
    the largest logits, not the ids of their words
    ? Do you want the largest number, or where it is?
logits[:, -1:].argmax(-1)
    the ids with an axis of size 1; one id per sample is asked for
    ? Which part of your line keeps an axis of size 1: a slice such as `-1:`, or `keepdim=True`?
""",
)
