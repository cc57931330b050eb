"""How long an all-reduce takes."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def all_reduce_seconds(num_bytes, num_devices, bytes_per_second, latency):
    # four numbers -> float
    steps = 2 * (num_devices - 1)
    return steps * (num_bytes / num_devices / bytes_per_second + latency)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for devices, size, speed, wait in rng.size_rows(4, 4, 3, 11):
        bandwidth = speed * 10**9
        latency = wait * size * 1e-6 / devices  # as long as sending, more or less
        cases.append(Case((size * bandwidth // 10**6, devices, bandwidth, latency)))
    return [*cases, Case((*cases[0].arguments[:1], 2, *cases[0].arguments[2:])), Case((800, 1, 10**9, 1e-6))]


def _seconds(num_bytes: float, steps: float, speed: float, latency: float) -> float:
    return steps * (num_bytes / speed + latency)


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
    draw=_draw,
    least={"num_devices": 1},
    wrong=(
        Wrong(
            "the time of a ring in which each step sends the whole tensor",
            lambda b, n, v, t: _seconds(b, 2 * (n - 1), v, t),
            hint="How many bytes is one of the pieces?",
        ),
        Wrong(
            "the time of half of the steps: the sums must also be handed round",
            lambda b, n, v, t: _seconds(b / n, n - 1, v, t),
            hint="How many steps are there?",
        ),
        Wrong(
            "the time with 2 * num_devices steps",
            lambda b, n, v, t: _seconds(b / n, 2 * n, v, t),
            hint="How many steps does a single device need?",
        ),
        Wrong(
            "the time with a single latency: every step waits for one",
            lambda b, n, v, t: _seconds(b / n, 2 * (n - 1), v, 0) + t,
            hint="In how many steps does a device wait for its neighbour?",
        ),
        Wrong(
            "the time without any latency",
            lambda b, n, v, t: _seconds(b / n, 2 * (n - 1), v, 0),
            hint="What does a step cost if the piece is a single byte?",
        ),
        Wrong(
            "the latency of all steps without the bytes",
            lambda b, n, v, t: 2 * (n - 1) * t,
            hint="Does a large tensor take no longer than a small one?",
        ),
        Wrong(
            "the time of a single step",
            lambda b, n, v, t: _seconds(b / n, 1, v, t),
            hint="How many steps are there?",
        ),
    ),
)
