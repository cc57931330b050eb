"""What writing the scores costs."""

from course_lib.exercises.function_exercise import FunctionExercise


def explicit_intensity(num_tokens, num_heads, head_dim, bytes_per_number):
    # four ints -> float
    operations = 4 * num_heads * num_tokens * num_tokens * head_dim
    numbers = 4 * num_heads * num_tokens * head_dim  # queries, keys, values, context
    # scores and weights, each written and read
    numbers += 4 * num_heads * num_tokens * num_tokens
    return operations / (numbers * bytes_per_number)


EXERCISE = FunctionExercise(
    explicit_intensity,
    title="What writing the scores costs",
    difficulty=2,
    minutes=5,
    prompt=(
        "A prompt of `num_tokens` tokens goes through multi-head attention in its explicit form. Count as in the "
        "lesson, with queries, keys and values read once and the context written once, but now the scores are written "
        "to memory and read again, and so are the attention weights. How many operations per byte are left? There is "
        "no mask, and softmax counts no operations.\n\n"
        "(For a long prompt the result hardly depends on its length. Try it: that is why a fused kernel gains so much.)"
    ),
    hints=(
        "Two products of num_heads * num_tokens * num_tokens * head_dim multiplications and as many additions.",
        "Four tensors have num_heads * num_tokens * head_dim numbers. How many numbers have the scores?",
        "The scores and the weights together pass between memory and processor four times.",
    ),
    inputs={
        "num_tokens": lambda rng, tokens: 16 * tokens + rng.integer(16),
        "head_dim": lambda width: 4 * width,
        "bytes_per_number": [2, 4],
    },
    calls=5,
    least={"num_tokens": 1, "num_heads": 1, "head_dim": 1},
    wrong="""
+= 4 => += 0
    the number of the fused form, without scores and weights
    ? What does the explicit form write between its products?
+= 4 => += 2
    the number with two passes of tables like the scores; scores and weights are each written and read
    ? How often does each score pass between memory and processor?
operations = 4 => operations = 2
    the number for multiplications alone: an addition is an operation, too
    ? How many operations does one term of a dot product take?
numbers * bytes_per_number => numbers
    the number per element, not per byte
    ? How many bytes has a number?
numbers = 4 => numbers = 3
    the number without the context
    ? What is written at the end?
numbers = 4 => numbers = 0
    the number of scores and weights alone
    ? What is read besides the scores?
operations / (numbers * bytes_per_number) => numbers * bytes_per_number / operations
    bytes per operation
    ? Which stands above the line?
""",
)
