"""How much weight ends on the first token."""

from course_lib.exercises.function_exercise import FunctionExercise

from .previous_token_score import causal_weights


def sink_weight(weights):  # (batch, head, query, key) -> (head)
    return weights[:, :, 1:, 0].mean(dim=(0, 2))


EXERCISE = FunctionExercise(
    sink_weight,
    title="Find an attention sink",
    difficulty=1,
    minutes=4,
    prompt=(
        "How much of its weight does each head put on the first token? Give back the mean over all samples and over "
        "all queries but the first, which can see nothing but itself and always gives 1. A high score is a column "
        "that stands out, which need not be a sink: a sink adds nearly nothing to the output, as its value is close to 0, but "
        "a head may also look at the first token because it copies what it finds there."
    ),
    hints=(
        "The weights on the first token are one column of each head's table. Which one?",
        "`weights[:, :, 1:, 0]` is (batch, head, query - 1).",
        "Take its mean over the samples and the queries, `.mean(dim=(0, 2))`.",
    ),
    inputs={"weights": causal_weights},
    arguments={"weights": "batch head query key"},
    axes="head",
    fixed="query key",
    wrong="""
1 => 0
    a mean that counts the first query, too: its weight on itself is always 1
    ? What does query 0 see?
weights[:, :, 0, 1:].mean((0, 2))
    the weights *of* the first query: a row, where a column is meant
    ? Is a column of a head's table one query or one key?
weights[:, :, 0].mean((0, 2))
    the weights *of* the first query, its own included: a row, where a column is meant
    ? Is a column of a head's table one query or one key?
weights.diagonal(-1, 2, 3).mean((0, 2))
    the mean weight on the token before
    ? Which key is asked about?
0] => -1]
    the mean weight on the last token
    ? Which key is asked about?
weights[:, :, 1:, 0].sum(-1).mean(0)
    the sum over the queries; the mean is asked for
    ? How large may a mean of weights be?
weights[:, :, 1:, 0].sum((0, 2))
    the sum over samples and queries; the mean is asked for
    ? How large may a mean of weights be?
(0, 2) => 2
    a score of each head in each sample: the samples are still apart
    ? Over which axes is the mean taken?
(0, 2) => 0
    a score of each head at each query: the queries are still apart
    ? Over which axes is the mean taken?
weights[:, :, 1:, 0].mean()
    one number for all heads together
    ? Which axis has to stay?
""",
)
