"""How long an all-reduce takes."""

from course_lib.exercises.function_exercise import FunctionExercise


def all_reduce_seconds(num_bytes, num_devices, bytes_per_second, latency):
    # four numbers -> float
    steps = 2 * (num_devices - 1)
    return steps * (num_bytes / num_devices / bytes_per_second + latency)


EXERCISE = FunctionExercise(
    all_reduce_seconds,
    title="How long an all-reduce takes",
    difficulty=2,
    minutes=3,
    prompt=(
        "The devices sit in a ring. An all-reduce takes `2 * (num_devices - 1)` steps; in each of them every device "
        "sends one piece, an equal part of the `num_bytes` bytes of the tensor, to its neighbour. A step takes the "
        "latency plus the time to send the piece. How many seconds does the all-reduce take?"
    ),
    hints=(
        "How many bytes is one piece, if there are as many pieces as devices?",
        "Sending a piece takes num_bytes / num_devices / bytes_per_second seconds, and each step waits `latency`, too.",
        "Steps times the time of one step: `2 * (num_devices - 1) * (... + latency)`.",
    ),
    inputs={
        "num_bytes": lambda size, bytes_per_second: size * bytes_per_second // 10**6,
        "bytes_per_second": lambda speed: speed * 10**9,
        "latency": lambda wait, size, num_devices: wait * size * 1e-6 / num_devices,  # as long as sending, more or less
    },
    calls=4,
    also=(
        {"num_bytes": 7, "num_devices": 2, "bytes_per_second": 8, "latency": 0.125},  # no whole bytes in a piece
        {"num_devices": 2},
        {"num_bytes": 800, "num_devices": 1, "bytes_per_second": 10**9, "latency": 1e-6},
    ),
    least={"num_devices": 1},
    wrong="""
num_bytes / num_devices => num_bytes
    the time of a ring in which each step sends the whole tensor
    ? How many bytes is one of the pieces?
2 => 1
    the time of half of the steps: the sums must also be handed round
    ? How many steps are there?
1 => 0
    the time with 2 * num_devices steps
    ? How many steps does a single device need?
steps * (num_bytes / num_devices / bytes_per_second + latency) => steps * num_bytes / num_devices / bytes_per_second + latency
    the time with a single latency: every step waits for one
    ? In how many steps does a device wait for its neighbour?
num_bytes / num_devices => num_bytes // num_devices
    the time with pieces rounded down to whole bytes
    ? How long is a piece of 7 bytes on 2 devices?
steps * (num_bytes / num_devices / bytes_per_second + latency) => steps * num_bytes / num_devices / bytes_per_second + 2 * latency
    the time with two latencies, one for each half: every step waits for one
    ? In how many steps does a device wait for its neighbour?
+ latency => + 0
    the time without any latency
    ? What does a step cost if the piece is a single byte?
num_bytes / num_devices / bytes_per_second + latency => latency
    the latency of all steps without the bytes
    ? Does a large tensor take no longer than a small one?
num_bytes / num_devices => num_bytes / max(num_devices - 1, 1)
    the time of a tensor that is cut into one piece fewer than there are devices
    ? Into how many pieces is the tensor cut?
2 * (num_devices - 1) => 1
    the time of a single step
    ? How many steps are there?
""",
)
