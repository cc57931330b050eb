"""Round keys and values to a few bits."""

from course_lib.exercises.function_exercise import FunctionExercise


def round_to_bits(x, bits):
    # (..., width), an int -> (..., width), with few different values in each vector
    largest = 2 ** (bits - 1) - 1  # of the stored integers, such as 7 for 4 bits
    step = x.abs().amax(dim=-1, keepdim=True) / largest  # (..., 1), one for each vector
    return (x / step).round() * step


EXERCISE = FunctionExercise(
    round_to_bits,
    title="Round keys and values to a few bits",
    difficulty=2,
    minutes=3,
    prompt=(
        "A vector is stored as one `step` and an integer for each element, from `-largest` to `largest`, where "
        "`largest = 2 ** (bits - 1) - 1`. The step is chosen so that the element with the largest absolute value "
        "becomes `largest` or `-largest`; each vector along the last axis has its own, and none is all zeros. Return "
        "what is read back: the rounded integers times the step."
    ),
    hints=(
        "Divide by the step, round, multiply by the step.",
        "The step of a vector is its largest absolute value, divided by `largest`.",
        "`x.abs().amax(dim=-1, keepdim=True)` is (..., 1), so that it divides the whole vector.",
    ),
    inputs={
        "x": "batch token 2*width",
        "bits": lambda rng: 2 + rng.integer(4),
    },
    calls=4,
    axes="batch token width",
    arguments={"x": "batch token width"},
    wrong="""
dim=-1, keepdim=True) / largest => keepdim=True) / largest
    values of one step for all vectors
    ? How many steps does each token's vector have?
x.abs().amax => x.amax
    values whose step comes from the largest element, not from the largest absolute value
    ? What is the step of a vector of negative elements?
2 ** (bits - 1) - 1 => 2**bits - 1
    values of one bit more: the integers have a sign
    ? How many integers are there from -7 to 7, and how many do 4 bits have?
2 ** (bits - 1) - 1 => 2 ** (bits - 1)
    values with one integer too many on one side
    ? How many integers are there from -8 to 8, and how many do 4 bits have?
(x / step).round() * step => (x / step).round()
    the integers themselves, without their step
    ? What does attention read: the integers, or the numbers that they stand for?
.round() => .trunc()
    values that are cut off towards 0 in place of rounded
    ? What is the nearest integer to 2.7?
.round() => .floor()
    values that are rounded down
    ? What is the nearest integer to 2.7?
(x / step).round() * step => x
    the numbers as they were
    ? How many different values can a vector have?
dim=-1, => dim=-2,
    values whose step belongs to a column, not to a token's vector
    ? Along which axis does a vector lie?
""",
)
