"""The kv heads of one device."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def kv_heads_of_device(device, num_devices, num_kv_heads):  # three ints -> (int, int)
    first = device * num_kv_heads // num_devices
    return first, max(1, num_kv_heads // num_devices)


def _draw(rng: InputGenerator) -> list[Case]:
    pairs = []
    for small, factor in rng.size_rows(3, 2, 2, 5):
        pairs += [(small, small * factor), (small * factor, small)]  # kv heads to spare; devices to spare
    equal, alone = rng.sizes(2, 3, 6)
    pairs += [(equal, equal), (alone, 1), (1, alone)]
    return rng.shuffled([Case((device, devices, kv)) for devices, kv in pairs for device in range(devices)])


EXERCISE = FunctionExercise(
    kv_heads_of_device,
    title="The kv heads of one device",
    difficulty=2,
    minutes=3,
    prompt=(
        "Query heads are dealt out to the devices in order, and each device needs the kv heads that its query heads "
        "read. With more kv heads than devices, each device has its share of them. With fewer, several neighbouring "
        "devices hold the same kv head: with 2 kv heads, devices 0 and 1 of 4 hold kv head 0. One of the two numbers "
        "is always a multiple of the other. Give back two ints: the index of the device's first kv head, and how many "
        "it holds."
    ),
    hints=(
        "How many: the share of the device, but never less than one.",
        "With more devices than kv heads, num_devices // num_kv_heads neighbours hold the same one.",
        "The count is `max(1, num_kv_heads // num_devices)`. The first is `device * num_kv_heads // num_devices`, "
        "which fits both cases.",
    ),
    draw=_draw,
    axes="first count",
    wrong=(
        Wrong(
            "a share that becomes 0 if there are more devices than kv heads",
            lambda i, n, g: (i * g // n, g // n),
            hint="Can a device attend without any keys?",
        ),
        Wrong(
            "the device's own number as its kv head: with fewer kv heads there is no such head",
            lambda i, n, g: (i * max(1, g // n), max(1, g // n)),
            hint="With 2 kv heads on 4 devices, which one does device 3 hold?",
        ),
        Wrong(
            "the kv heads dealt out in turn, 0, 1, 0, 1: neighbours should share",
            lambda i, n, g: (i * max(1, g // n) % g, max(1, g // n)),
            "kv-heads-tiled",
        ),
        Wrong(
            "kv head 0 wherever kv heads are shared",
            lambda i, n, g: (i * (g // n), max(1, g // n)),
            "kv-head-zero-only",
        ),
        Wrong(
            "all kv heads on every device",
            lambda i, n, g: (0, g),
            hint="Which kv heads do the device's query heads read?",
        ),
        Wrong(
            "a single kv head for every device, even if it has several",
            lambda i, n, g: (i * g // n, 1),
            hint="With 8 kv heads on 2 devices, how many does each hold?",
        ),
        Wrong(
            "the first and the last kv head; the first one and their number are asked for",
            lambda i, n, g: (i * g // n, i * g // n + max(1, g // n) - 1),
            hint="What is the second of the two ints?",
        ),
        Wrong(
            "the first kv head and the one behind the last. The second number is how many, not the end",
            lambda i, n, g: (i * g // n, i * g // n + max(1, g // n)),
            hint="What is the second of the two ints?",
        ),
        Wrong(
            "how many devices hold the kv head, not how many kv heads the device holds",
            lambda i, n, g: (i * g // n, max(1, n // g)),
            hint="What is the second of the two ints?",
        ),
        Wrong(
            "the devices counted from 1",
            lambda i, n, g: ((i + 1) * g // n, max(1, g // n)),
            hint="From what number do you count?",
        ),
        Wrong(
            "the two numbers in the wrong order: the first kv head comes first",
            lambda i, n, g: (max(1, g // n), i * g // n),
            hint="Which of the two should come first?",
        ),
        Wrong(
            "the number of the device's group in place of its first kv head, where it holds several",
            lambda i, n, g: (i // max(1, n // g), max(1, g // n)),
            hint="With 8 kv heads on 2 devices, where do those of device 1 begin?",
        ),
        Wrong(
            "kv heads dealt out in turn, so that neighbouring devices hold different ones",
            lambda i, n, g: (i % g, max(1, g // n)),
            "kv-heads-tiled",
        ),
        Wrong(
            "the kv heads counted from the end",
            lambda i, n, g: ((n - 1 - i) * g // n, max(1, g // n)),
            hint="Which kv head does device 0 hold?",
        ),
        Wrong(
            "a fraction as the first kv head",
            lambda i, n, g: (i * g / n, max(1, g // n)),
            hint="`/` or `//`?",
        ),
        Wrong(
            "the first kv head alone; how many the device holds is asked for, too",
            lambda i, n, g: i * g // n,
            hint="How many values does the task ask for?",
        ),
        Wrong(
            "the kv heads themselves; the first one and their number are asked for",
            lambda i, n, g: [*range(i * g // n, i * g // n + max(1, g // n))],
            hint="What are the two ints?",
        ),
        Wrong(
            "the right first kv head, with the larger of the two numbers divided by the smaller one",
            lambda i, n, g: (i * g // n, max(n, g) // min(n, g)),
            hint="With 2 kv heads on 4 devices, how many does each hold?",
        ),
        Wrong(
            "a first kv head that is 0 for every device: the quotient was taken before the product",
            lambda i, n, g: (i // n * g, max(1, g // n)),
            hint="What does device // num_devices give?",
        ),
    ),
)
