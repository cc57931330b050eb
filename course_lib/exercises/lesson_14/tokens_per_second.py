"""How fast a model can write."""

from course_lib.exercises.function_exercise import FunctionExercise


def tokens_per_second(num_texts, weight_bytes, cache_bytes, bytes_per_second):
    # four numbers -> float
    bytes_of_a_step = weight_bytes + num_texts * cache_bytes  # weights are shared
    return num_texts * bytes_per_second / bytes_of_a_step


EXERCISE = FunctionExercise(
    tokens_per_second,
    title="How fast a model can write",
    difficulty=2,
    minutes=5,
    prompt=(
        "A server writes `num_texts` texts at once, one new token for each of them per step. In a step it reads all "
        "weights of the model, `weight_bytes`, and the cache of each text, `cache_bytes` per text. Reading is all that "
        "takes time. How many new tokens per second, over all texts, does it write at most?"
    ),
    hints=(
        "How many bytes are read in one step? Which of them are read once, whatever the number of texts?",
        "The time of a step is its bytes divided by bytes_per_second.",
        "A step writes num_texts tokens: divide them by the time of the step.",
    ),
    inputs={
        "num_texts": lambda rng, texts: texts + rng.integer(90),
        "weight_bytes": lambda billions: billions * 10**9,
        "cache_bytes": lambda rng, share: (share * 10 + rng.integer(10)) * 10**6,
        "bytes_per_second": lambda width: width * 10**11,
    },
    calls=5,
    also=({"num_texts": 1, "weight_bytes": 10**9, "cache_bytes": 5 * 10**8, "bytes_per_second": 10**12},),
    least={"num_texts": 1},
    wrong="""
num_texts * bytes_per_second => bytes_per_second
    the tokens of one text, not of all
    ? How many tokens does one step write?
num_texts * cache_bytes => cache_bytes
    the number for a cache that all texts share
    ? Can one text use the keys of another?
bytes_per_second / (weight_bytes + cache_bytes)
    the number for weights that are read anew for each text
    ? Do the weights differ from text to text?
/ bytes_of_a_step => / weight_bytes
    the number without the caches
    ? What else is read in a step?
bytes_per_second / cache_bytes
    the number without the weights
    ? What else is read in a step?
(weight_bytes + num_texts * cache_bytes) / bytes_per_second
    the seconds of a step, not the tokens per second
    ? Which stands above the line?
bytes_per_second / (weight_bytes + cache_bytes) / num_texts
    the steps per second of one text alone
""",
)
