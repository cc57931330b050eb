"""Where in the sequence a head looks back."""

from course_lib.exercises.function_exercise import FunctionExercise

from .previous_token_score import causal_weights


def weight_before_by_place(weights):  # (batch, head, query, key) -> (head, query - 1)
    before = weights.diagonal(-1, dim1=2, dim2=3)  # (b, h, q, k) -> (b, h, q - 1)
    return before.mean(dim=0)


EXERCISE = FunctionExercise(
    weight_before_by_place,
    title="Where in the sequence a head looks back",
    difficulty=2,
    minutes=4,
    prompt=(
        "A head may look at the token before it at some places and not at others. For each head and each query but the "
        "first, give back the mean weight on the token right before, over the samples only. Column 0 is about query 1."
    ),
    hints=(
        "Query 1 looks at key 0, query 2 at key 1, and so on. Which diagonal of each head's table is that?",
        "The diagonal one below the main one is (batch, head, query - 1). Which of its axes has to go?",
        "`weights.diagonal(-1, 2, 3).mean(0)`.",
    ),
    inputs={"weights": causal_weights},
    arguments={"weights": "batch head query key"},
    axes="head query-1",
    fixed="query key",
    wrong="""
dim=0 => dim=(0, 2)
    the mean over all places: one score per head
    ? Which axis has to go: the samples, or the places, too?
0 => 1
    the mean over the heads: one score per sample and place
    ? Which axis has to go?
0 => -1
    the mean over the places: one score per sample and head
    ? Which axis has to go?
before.mean(dim=0) => before
    the weights of each sample: nothing was averaged
    ? How many samples are there, and where is their mean?
before.mean => before.sum
    the sum over the samples; the mean is asked for
    ? How large would the result be for a head that always looks back?
-1 => 0
    the mean weight on the token itself
    ? Which key does query 1 look at, if it looks back by one?
-1 => 0 && before.mean => before[:, :, 1:].mean
    the mean weight on the token itself, without the first query's
    ? Which key does query 1 look at, if it looks back by one?
-1 => 1
    the mean weight on the token after, which is hidden
    ? Which index is the query's?
F.pad(result, (1, 0))
    a table that has a column of zeros for query 0: it has no token before it
    ? How many queries have a token before them?
result.T
    the result with its two axes exchanged
    ? Which axis comes first, the head or the place?
weights[:, :, 1:, 0].mean(0)
    the first column of each head's table: the weight on the first token, not on the one before
    ? Which key does query 3 look at, if it looks back by one?
""",
)
