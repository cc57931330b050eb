"""What a cache costs."""

from course_lib.exercises.function_exercise import FunctionExercise


def cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number):
    # five ints -> int
    numbers_per_token = 2 * num_kv_heads * head_dim  # keys and values
    return num_tokens * num_layers * numbers_per_token * bytes_per_number


EXERCISE = FunctionExercise(
    cache_bytes,
    title="What a cache costs",
    difficulty=1,
    minutes=2,
    prompt="How many bytes does a whole model keep for one text of `num_tokens` tokens?",
    hints=(
        "What is kept for a token, in one layer, by one kv head?",
        "A key and a value, each head_dim numbers.",
        "Times kv heads, layers, tokens, and the bytes of one number.",
    ),
    inputs={"num_tokens": lambda rng, tokens: 16 * tokens + rng.integer(16), "bytes_per_number": [2, 4, 8]},
    calls=4,
    sizes=(2, 300),
    also=({"num_kv_heads": 1},),
    least={"num_tokens": 1, "num_layers": 1, "num_kv_heads": 1, "head_dim": 1},
    wrong="""
2 => 1
    half of the cache: the keys without the values, or the other way around
    ? Which two tensors are kept for each token?
2 * num_tokens * num_layers * num_kv_heads * head_dim
    the number of elements, not of bytes
    ? How many bytes has an element?
num_tokens * num_layers => num_tokens
    the cache of a single layer
    ? Does every layer keep its own?
16 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number
    the size in bits
    ? How many bits has a byte?
2 => 3
    three tensors per token: the queries are used once and not kept
    ? Does an old token's query ever get read again?
2 * num_kv_heads => 2
    one head of keys and values, however many there are
    ? How many kv heads are there in each layer?
num_tokens * num_tokens * num_layers * num_kv_heads * bytes_per_number
    the size of the scores: tokens times tokens
    ? Are scores kept?
num_tokens * num_layers => num_layers
    the cost of one token
    ? How many tokens are kept?
""",
)
