"""What the attention weights of each query add up to."""

from course_lib.exercises.function_exercise import FunctionExercise


def row_sums(weights):  # (query, key) -> (query)
    return weights.sum(dim=1)


EXERCISE = FunctionExercise(
    row_sums,
    title="The sum of each row",
    difficulty=1,
    minutes=1,
    prompt="A table of numbers in, the sum of each row out.",
    hints=("`weights.sum(dim=...)` adds up along one axis.", "The keys are axis 1 of (query, key)."),
    arguments={"weights": "query key"},
    axes="query",
    wrong="""
1 => 0
    the sum of each column
    ? Which axis remains if you add up along axis 0, the rows or the columns?
weights.sum()
    the sum of the whole table
    ? How many rows are there, and how many sums?
weights.mean(1)
    the mean of each row instead of its sum
    ? What does a mean divide by?
weights.amax(1)
    the largest number of each row
    ? What does a sum add up?
""",
)
