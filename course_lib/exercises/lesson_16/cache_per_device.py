"""The cache on each device."""

from course_lib.exercises.function_exercise import FunctionExercise


def cache_per_device(num_tokens, num_kv_heads, head_dim, num_devices, bytes_per_number):
    # five ints -> int
    kv_heads_here = max(1, num_kv_heads // num_devices)
    # keys and values
    return 2 * num_tokens * kv_heads_here * head_dim * bytes_per_number


EXERCISE = FunctionExercise(
    cache_per_device,
    title="The cache on each device",
    difficulty=2,
    minutes=4,
    prompt=(
        "How many bytes does one layer's cache take on each device, for one text of `num_tokens` tokens? The kv heads "
        "are dealt out whole. If there are fewer of them than devices, each device holds one, and some kv heads are "
        "kept several times. One of the two numbers is always a multiple of the other."
    ),
    hints=(
        "First: how many kv heads does a device hold?",
        "Its share, num_kv_heads // num_devices, but never less than one.",
        "That number, times 2 for keys and values, times num_tokens, head_dim and bytes_per_number.",
    ),
    inputs={
        "num_tokens": lambda rng, tokens: 16 * tokens + rng.integer(16),
        "num_kv_heads": lambda few, factor: few * factor,
        "num_devices": lambda few: few,
        "head_dim": lambda width: 8 * width,
        "bytes_per_number": [2, 4, 8],
    },
    calls=4,
    also=(
        *[{"num_kv_heads": lambda few: few, "num_devices": lambda few, factor: few * factor}] * 4,
        {"num_devices": 1},
        {"num_kv_heads": 1},
        {"factor": 1},
    ),
    least={"num_kv_heads": 1, "num_devices": 1},
    wrong="""
kv_heads_here * => num_kv_heads *
    the cache of all kv heads: that is what all devices keep together
    ? How many kv heads does one device hold?
max(1, num_kv_heads // num_devices) => num_kv_heads / num_devices
    the cache of a share of a kv head: kv heads are dealt out whole
    ? What does a device hold if there is a single kv head for two devices?
kv_heads_here * head_dim * bytes_per_number => num_kv_heads * head_dim * bytes_per_number // num_devices
    the cache of a share of a kv head: kv heads are dealt out whole
    ? What does a device hold if there is a single kv head for two devices?
1 => 0
    no cache at all where there are more devices than kv heads
    ? Can a device attend without any keys?
result / 2
    half of the cache: the keys without the values, or the other way around
    ? Which two tensors are kept for each token?
head_dim * bytes_per_number => head_dim
    the number of elements, not of bytes
    ? How many bytes has an element?
num_devices * result
    the cache of all devices together
    ? Is one device asked for, or all of them?
max(1, num_kv_heads // num_devices) => 1
    the cache of a single kv head
    ? With 8 kv heads on 2 devices, how many does each hold?
max(1, num_kv_heads // num_devices) => num_kv_heads // num_devices + 1
    one kv head more than the device's share
    ? With 8 kv heads on 2 devices, how many does each hold?
num_tokens * kv_heads_here => (num_tokens // num_devices) * num_kv_heads
    a cache in which tokens are dealt out to the devices, not heads
    ? Whose keys does a query head read: those of all tokens, or those of some?
""",
)
