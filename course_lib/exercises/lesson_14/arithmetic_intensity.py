"""Operations per byte."""

from course_lib.exercises.function_exercise import FunctionExercise


def arithmetic_intensity(
    query_len,
    key_len,
    num_heads,
    num_kv_heads,
    head_dim,
    bytes_per_number,
):  # -> float
    operations = 2 * 2 * num_heads * query_len * key_len * head_dim  # two products
    # q, context; k, v
    numbers = 2 * (num_heads * query_len + num_kv_heads * key_len) * head_dim
    return operations / (numbers * bytes_per_number)


EXERCISE = FunctionExercise(
    arithmetic_intensity,
    title="Operations per byte",
    difficulty=2,
    minutes=3,
    prompt=(
        "How many operations does attention do for each byte that it moves? Count for one sample, without projections "
        "and without a mask.\n\n"
        "- Operations: the two products, scores and context. A multiplication and an addition are two operations. "
        "Softmax and the scale don't count.\n"
        "- Numbers moved: queries, keys and values are read and the context is written, each once. There are "
        "`num_heads` heads of queries and context, and `num_kv_heads` heads of keys and of values; all are `head_dim` "
        "wide.\n"
        "- A number has `bytes_per_number` bytes."
    ),
    hints=(
        "Three counts: operations, numbers, and the bytes of each number.",
        "A score is a sum of head_dim products, and there are num_heads * query_len * key_len scores. The second "
        "product costs as much.",
        "`operations = 4 * num_heads * query_len * key_len * head_dim`; the numbers are 2 * num_heads * query_len * "
        "head_dim and 2 * num_kv_heads * key_len * head_dim.",
    ),
    inputs={
        "key_len": lambda rng, tokens: 16 * tokens + rng.integer(16),
        "query_len": lambda rng, tokens: rng.choice((1, 3 * tokens + 1)),
        "num_heads": lambda num_kv_heads, group: num_kv_heads * group,
        "head_dim": lambda width: 8 * width,
        "bytes_per_number": [2, 8],
    },
    calls=5,
    first={"query_len": 16, "key_len": 16, "num_kv_heads": 2, "group": 3, "width": 1, "bytes_per_number": 4},
    least={"num_kv_heads": 1, "head_dim": 1},
    wrong="""
2 * 2 => 2
    the number for multiplications alone: an addition is an operation, too
    ? How many operations does one term of a dot product take? How many products are there?
numbers * bytes_per_number => numbers
    the number per element, not per byte
    ? How many bytes has a number?
num_kv_heads * => num_heads *
    the number for as many kv heads as heads
    ? How many heads of keys are read?
* num_heads => * num_kv_heads
    the number with scores for `num_kv_heads` heads only
    ? How many heads have scores of their own?
num_heads * query_len + num_kv_heads * key_len => num_kv_heads * key_len
    the number without the bytes of queries and context
    ? What comes in besides the keys and values, and what goes out?
(num_heads * query_len + => (num_heads * query_len / 2 +
    the number without the bytes of the context
    ? What is written at the end?
num_kv_heads * key_len) => num_kv_heads * key_len / 2)
    the number with the keys and without the values
    ? Which two tensors are read from the cache?
(numbers * => ((numbers + 4 * num_heads * query_len * key_len) *
    the number for a form that also writes and reads scores and weights; nothing but inputs and output counts
    ? Which tensors does the task count?
operations / (numbers * bytes_per_number) => numbers * bytes_per_number / operations
    bytes per operation
    ? Which of the two stands above the line?
operations / (numbers * bytes_per_number) => numbers * bytes_per_number
    the bytes alone
    ? What is divided by the bytes?
operations / (numbers * bytes_per_number) => operations
    the operations alone
    ? Per what is it asked?
""",
)
