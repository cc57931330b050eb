"""Columns for one device."""

from course_lib.exercises.function_exercise import FunctionExercise

from .cut_rows import WEIGHTS


def cut_columns(w_o, device, num_devices):
    # (d_out, head * head_dim), int, int -> (d_out, column)
    columns = w_o.shape[1] // num_devices
    return w_o[:, device * columns : (device + 1) * columns]


EXERCISE = FunctionExercise(
    cut_columns,
    title="Columns for one device",
    difficulty=1,
    minutes=1,
    prompt=(
        "Now the weight of `out_proj`, (d_out, head * head_dim). A device needs only the part that meets its own "
        "heads; then the outputs of all devices add up to the whole output. Give back that part for device `device`."
    ),
    hints=(
        "Which axis of `w_o` meets the heads that lie side by side?",
        "Each device has `w_o.shape[1] // num_devices` columns, and all rows.",
        "With `columns` for that number: `w_o[:, device * columns : (device + 1) * columns]`.",
    ),
    inputs={**WEIGHTS, "w_o": "others rows"},
    sizes=(2, 7),
    also=({"num_devices": 1},),
    each=("device",),
    arguments={"w_o": "d_out head*head_dim"},
    axes="d_out column",
    wrong="""
w_o.chunk(num_devices)[device]
    rows of the weight: they are elements of the output, and every head gives to all of them
    ? Which axis of `w_o` is as long as all heads side by side?
w_o[:, device::num_devices]
    every num_devices-th column: that takes every head apart
    ? Which columns meet head 0?
w_o[:, device * (w_o.shape[1] // 2) : (device + 1) * (w_o.shape[1] // 2)]
    the columns of one of two devices, however many there are
    ? Where does `num_devices` enter?
right(w_o, 0, num_devices)
    the columns of device 0 for every device
    ? Where does `device` enter?
right(w_o, num_devices - 1 - device, num_devices)
    the columns of another device: they are counted from the end
    ? Which columns has device 0?
right(w_o, (device + 1) % num_devices, num_devices)
    the columns of the next device: devices are counted from 0
    ? Which columns has device 0?
device * columns : (device + 1) * columns => device * columns :
    all columns from the device's first one on
    ? Where do the columns of device 0 end?
result / num_devices
    the device's columns divided by the number of devices; the outputs are added up, not averaged
    ? What is the sum of your parts' outputs?
w_o
    the whole weight: nothing was cut
    ? How many columns has each device?
result.T
    the device's columns, transposed; keep the layout of `nn.Linear`
    ? Which shape has the part of a weight of (out, in)?
""",
)
