"""Rows for one device."""

from course_lib.exercises.function_exercise import FunctionExercise


def cut_rows(weight, device, num_devices):
    # (head * head_dim, d_in), int, int -> (row, d_in)
    rows = len(weight) // num_devices
    return weight[device * rows : (device + 1) * rows]


WEIGHTS = {
    "device": lambda num_devices: num_devices,
    "rows": lambda num_devices, heads, head_dim: num_devices * heads * head_dim,
    "others": lambda num_devices, heads, head_dim, more: num_devices * (heads * head_dim + more),  # can be cut, too
    "weight": "rows others",
}


EXERCISE = FunctionExercise(
    cut_rows,
    title="Rows for one device",
    difficulty=1,
    minutes=2,
    prompt=(
        "`weight` belongs to `q_proj`, `k_proj` or `v_proj`; its heads lie one below the other. It is cut into "
        "`num_devices` equal parts, each with whole heads. Give back the rows of device number `device`."
    ),
    hints=(
        "How many rows has each device?",
        "`len(weight) // num_devices` rows. Those of device 0 come first, then those of device 1.",
        "With `rows` for that number: `weight[device * rows : (device + 1) * rows]`.",
    ),
    inputs=WEIGHTS,
    sizes=(2, 7),
    also=({"num_devices": 1, "heads": 3, "head_dim": 2, "more": 1},),
    each=("device",),
    arguments={"weight": "head*head_dim d_in"},
    axes="row d_in",
    wrong="""
weight.chunk(num_devices, 1)[device]
    columns of the weight; `nn.Linear` keeps (out, in), so heads are rows here
    ? Which axis of the weight do the elements of a query come from?
weight[device::num_devices]
    every num_devices-th row: that takes every head apart
    ? Which rows belong to head 0?
weight[device:device + len(weight) // num_devices]
    rows that begin at row number `device`: each device before has several
    ? Where do the rows of device 1 begin?
weight[device * (len(weight) // 2) : (device + 1) * (len(weight) // 2)]
    the rows of one of two devices, however many there are
    ? Where does `num_devices` enter?
right(weight, 0, num_devices)
    the rows of device 0 for every device
    ? Where does `device` enter?
right(weight, num_devices - 1 - device, num_devices)
    the rows of another device: they are counted from the end
    ? Which rows has device 0?
right(weight, (device + 1) % num_devices, num_devices)
    the rows of the next device: devices are counted from 0
    ? Which rows has device 0?
weight[:(device + 1) * (len(weight) // num_devices)]
    all rows up to the end of the device's own
    ? Where do the rows of device 1 begin?
(device => (num_devices
    all rows from the device's first one on
    ? Where do the rows of device 0 end?
weight
    the whole weight: nothing was cut
    ? How many rows has each device?
result.T
    the device's rows, transposed; keep the layout of `nn.Linear`
    ? Which shape has the part of a weight of (out, in)?
""",
)
