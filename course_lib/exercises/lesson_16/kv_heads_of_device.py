"""The kv heads of one device."""

from course_lib.exercises.function_exercise import FunctionExercise


def kv_heads_of_device(device, num_devices, num_kv_heads):  # three ints -> (int, int)
    first = device * num_kv_heads // num_devices
    return first, max(1, num_kv_heads // num_devices)


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
    inputs={
        "num_devices": lambda few, factor: few * factor,
        "num_kv_heads": lambda few: few,
        "device": lambda num_devices: num_devices,
    },
    sizes=(2, 5),
    also=(
        *[{"num_devices": lambda few: few, "num_kv_heads": lambda few, factor: few * factor}] * 3,
        {"factor": 1},
        {"few": 1},
        {"num_devices": 1},
    ),
    each=("device",),
    axes="first count",
    wrong="""
1 => 0
    a share that becomes 0 if there are more devices than kv heads
    ? Can a device attend without any keys?
(device * max(1, num_kv_heads // num_devices), max(1, num_kv_heads // num_devices))
    the device's own number as its kv head: with fewer kv heads there is no such head
    ? With 2 kv heads on 4 devices, which one does device 3 hold?
(device * max(1, num_kv_heads // num_devices) % num_kv_heads, max(1, num_kv_heads // num_devices))
    the kv heads dealt out in turn, 0, 1, 0, 1: neighbours should share [kv-heads-tiled]
(device * (num_kv_heads // num_devices), max(1, num_kv_heads // num_devices))
    kv head 0 wherever kv heads are shared [kv-head-zero-only]
(0, num_kv_heads)
    all kv heads on every device
    ? Which kv heads do the device's query heads read?
max(1, num_kv_heads // num_devices) => 1
    a single kv head for every device, even if it has several
    ? With 8 kv heads on 2 devices, how many does each hold?
(device * num_kv_heads // num_devices, device * num_kv_heads // num_devices + max(1, num_kv_heads // num_devices) - 1)
    the first and the last kv head; the first one and their number are asked for
    ? What is the second of the two ints?
(device * num_kv_heads // num_devices, device * num_kv_heads // num_devices + max(1, num_kv_heads // num_devices))
    the first kv head and the one behind the last. The second number is how many, not the end
    ? What is the second of the two ints?
num_kv_heads // num_devices) => num_devices // num_kv_heads)
    how many devices hold the kv head, not how many kv heads the device holds
    ? What is the second of the two ints?
((device + 1) * num_kv_heads // num_devices, max(1, num_kv_heads // num_devices))
    the devices counted from 1
    ? From what number do you count?
(max(1, num_kv_heads // num_devices), device * num_kv_heads // num_devices)
    the two numbers in the wrong order: the first kv head comes first
    ? Which of the two should come first?
(device // max(1, num_devices // num_kv_heads), max(1, num_kv_heads // num_devices))
    the number of the device's group in place of its first kv head, where it holds several
    ? With 8 kv heads on 2 devices, where do those of device 1 begin?
(device % num_kv_heads, max(1, num_kv_heads // num_devices))
    kv heads dealt out in turn, so that neighbouring devices hold different ones [kv-heads-tiled]
((num_devices - 1 - device) * num_kv_heads // num_devices, max(1, num_kv_heads // num_devices))
    the kv heads counted from the end
    ? Which kv head does device 0 hold?
device * num_kv_heads // num_devices => device * num_kv_heads / num_devices
    a fraction as the first kv head
    ? `/` or `//`?
device * num_kv_heads // num_devices
    the first kv head alone; how many the device holds is asked for, too
    ? How many values does the task ask for?
[*range(device * num_kv_heads // num_devices, device * num_kv_heads // num_devices + max(1, num_kv_heads // num_devices))]
    the kv heads themselves; the first one and their number are asked for
    ? What are the two ints?
(device * num_kv_heads // num_devices, max(num_devices, num_kv_heads) // min(num_devices, num_kv_heads))
    the right first kv head, with the larger of the two numbers divided by the smaller one
    ? With 2 kv heads on 4 devices, how many does each hold?
(num_kv_heads // num_devices * device, num_kv_heads // num_devices)
    a share that becomes 0 if there are more devices than kv heads, so that devices hold none
    ? Can a device attend without any keys?
device * num_kv_heads => device
    a first kv head that is 0 for every device: the quotient was taken before the product
    ? What does device // num_devices give?
""",
)
