"""Biases on one device."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def biases_of_device(q_bias, out_bias, device, num_devices):
    # (head * head_dim), (d_out), int, int -> two tensors
    rows = len(q_bias) // num_devices
    # cut with the rows that it is added to
    part = q_bias[device * rows : (device + 1) * rows]
    # added once, not num_devices times
    return part, out_bias if device == 0 else torch.zeros_like(out_bias)


EXERCISE = FunctionExercise(
    biases_of_device,
    title="Biases on one device",
    difficulty=2,
    minutes=5,
    prompt=(
        "Now `q_proj` and `out_proj` have biases. `q_bias` is added to the queries of all heads, (head * head_dim), "
        "and `out_bias` to the output, (d_out). Give back two tensors: the bias that device `device` adds to its own "
        "queries, and the one that it adds to its output. The outputs of all devices are added up afterwards; by "
        "agreement device 0 takes care of the output's bias, and the others have zeros there."
    ),
    hints=(
        "Which numbers of `q_bias` belong to the rows that the device holds?",
        "If every device added `out_bias`, how often would the sum contain it?",
        "The device's part of `q_bias`, cut like rows; `out_bias` on device 0, `torch.zeros_like(out_bias)` elsewhere.",
    ),
    inputs={
        "q_bias": "num_devices*rows",
        "d_out": lambda num_devices, rows, more: num_devices * (rows + more),
        "out_bias": "d_out",
        "device": lambda num_devices: num_devices,
    },
    sizes=(2, 7),
    special={"a single device has it all": {"num_devices": 1}},
    each=("device",),
    arguments={"q_bias": "head*head_dim", "out_bias": "d_out"},
    axes="q_bias out_bias",
    wrong="""
device == 0 => device >= 0
    the bias of the output on every device: the sum contains it as often as there are devices
    ? What is the sum of the outputs of two devices, if each adds the bias?
out_bias if device == 0 else torch.zeros_like(out_bias) => out_bias / num_devices
    the bias of the output divided by the number of devices. The sum is right; device 0 should add all of it
    ? Which device adds the output's bias, by agreement?
device == 0 => device == num_devices - 1
    the bias of the output on the last device; device 0 should add it
    ? Which device adds the output's bias, by agreement?
(result[0], out_bias.chunk(num_devices)[device])
    the bias of the output cut into parts: every device's output is d_out wide
    ? How wide is the output of one device?
0 => -1
    the bias of the output on no device
    ? Who adds the output's bias?
part, => q_bias,
    the whole bias of the queries: a device has the queries of its own heads only
    ? How many numbers has a query row on this device?
device * rows : (device + 1) * rows => :rows
    the bias of the queries for device 0, on every device
    ? Where does `device` enter?
device * rows : (device + 1) * rows => device::num_devices
    every num_devices-th element of the queries' bias: that takes every head apart
    ? Which elements belong to head 0?
part, => part * (device == 0),
    the bias of the queries on device 0 only, as if the queries of the devices were added up
    ? Are the queries of two devices added, or are they different rows?
""",
)
