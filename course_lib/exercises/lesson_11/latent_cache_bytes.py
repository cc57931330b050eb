"""What the cache of latent attention costs."""

from course_lib.exercises.function_exercise import FunctionExercise


def latent_cache_bytes(
    num_tokens,
    num_layers,
    num_heads,
    latent_dim,
    rotary_dim,
    bytes_per_number,
):  # six ints -> int
    numbers_per_token = latent_dim + rotary_dim  # for any number of heads
    return num_tokens * num_layers * numbers_per_token * bytes_per_number


EXERCISE = FunctionExercise(
    latent_cache_bytes,
    title="What a latent cache costs",
    difficulty=1,
    minutes=4,
    prompt=(
        "A model with multi-head latent attention keeps, for each token, one latent vector with `latent_dim` numbers "
        "and one key with rotary positions, with `rotary_dim` numbers, in every layer. How many bytes does it keep "
        "for a text of `num_tokens` tokens?"
    ),
    hints=(
        "What is kept per token in one layer? Which of it do the heads share?",
        "Keys and values are both made from the same latent vector.",
        "DeepSeek-V3 keeps (512 + 64) * 61 numbers per token.",
    ),
    inputs={"rotary_dim": lambda half: 2 * half, "bytes_per_number": [1, 2, 4]},
    calls=4,
    sizes=(3, 200),
    least={"num_tokens": 1, "num_layers": 1, "num_heads": 1, "latent_dim": 1, "rotary_dim": 1},
    wrong="""
num_tokens * num_layers * num_heads * (latent_dim + rotary_dim) * bytes_per_number
    a latent vector and a rotary key for each head
    ? How many heads share one latent vector?
num_tokens * num_layers * (latent_dim + num_heads * rotary_dim) * bytes_per_number
    a rotary key for each head
    ? How many heads share one rotary key?
2 * num_tokens * num_layers * (latent_dim + rotary_dim) * bytes_per_number
    two latent vectors per token, one for the keys and one for the values
    ? From what are the values made?
num_tokens * num_layers * (2 * latent_dim + rotary_dim) * bytes_per_number
    two latent vectors and one rotary key
    ? From what are the values made?
numbers_per_token * => latent_dim *
    the latent vectors without the rotary keys
    ? Can the key with its position be made from the latent vector?
num_tokens * num_layers * (latent_dim + rotary_dim)
    the number of elements, not of bytes
    ? How many bytes has an element?
num_tokens * num_layers => num_tokens
    the cache of a single layer
    ? Does every layer keep its own?
num_tokens * num_layers => num_layers
    the cost of one token
    ? How many tokens are kept?
""",
)
