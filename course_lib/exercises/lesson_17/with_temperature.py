"""Temperature."""

from course_lib.exercises.function_exercise import FunctionExercise


def with_temperature(scores, temperature):
    # (batch, vocabulary), a number above 0 -> (batch, vocabulary)
    return (scores / temperature).softmax(dim=-1)


EXERCISE = FunctionExercise(
    with_temperature,
    title="Colder and warmer",
    difficulty=1,
    minutes=3,
    prompt=(
        "Divide the scores by the temperature, and make probabilities of them. Below 1 the likeliest token gets even "
        "more; above 1 all of them come closer. The check also comes with a temperature of 0.01."
    ),
    hints=(
        "What is divided: the scores, or the probabilities?",
        "Softmax comes last, over the axis of the vocabulary, so that each row sums to 1.",
    ),
    inputs={"temperature": [0.5, 0.7, 12.0]},
    std=1.5,
    special={
        "the temperature is 0.01": {"scores": lambda scores: scores + 20.0, "temperature": 0.01},
        # Each probability is so small that its power is 0.
        "the temperature is 0.01 and the vocabulary has 3000 tokens": {
            "vocabulary": 3000,
            "scores": lambda scores: 20.0 + 0.03 * scores,
            "temperature": 0.01,
        },
    },
    arguments={"scores": "batch vocabulary"},
    axes="batch vocabulary",
    wrong="""
scores.softmax(-1) / temperature
    probabilities that were divided by the temperature, whose sum is not 1
    ? What is the sum of each of your rows?
scores / temperature => scores * temperature
    scores that were multiplied by the temperature
    ? Is the likeliest token more or less likely at your temperature of 0.5?
scores / temperature => scores
    probabilities at temperature 1, whatever the argument is
    ? Where does `temperature` enter?
1 => 0
    softmax over the samples, not over the vocabulary
    ? Over which axis should the probabilities add up to 1?
scores.exp() ** (1 / temperature) / (scores.exp() ** (1 / temperature)).sum(-1, keepdim=True)
    powers of the scores' exponentials, which are infinite at a low temperature
    ? What is exp(20) to the power of 100? Which number may be taken from all scores of a row before?
scores.softmax(-1) ** (1 / temperature) / (scores.softmax(-1) ** (1 / temperature)).sum(-1, keepdim=True)
    powers of the probabilities, which are too small at a low temperature: 0 divided by 0
    ? What is 0.001 to the power of 100? And what if the scores themselves are divided?
scores / temperature
    the divided scores; softmax is missing
    ? What makes probabilities of scores?
(scores.softmax(-1) / temperature).softmax(-1)
    softmax of the divided probabilities: it is taken twice
    ? How often is softmax needed?
""",
)
