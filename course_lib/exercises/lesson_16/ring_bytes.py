"""What one device sends in a ring."""

from course_lib.exercises.function_exercise import FunctionExercise


def ring_bytes(num_layers, num_texts, d_model, num_devices, bytes_per_number):
    # five ints -> int
    tensor = num_texts * d_model * bytes_per_number  # one new token per text
    steps = 2 * (num_devices - 1)
    return num_layers * 2 * steps * (tensor // num_devices)  # two all-reduces per layer


EXERCISE = FunctionExercise(
    ring_bytes,
    title="What one device sends per token",
    difficulty=2,
    minutes=5,
    prompt=(
        "A model has `num_layers` layers. In each of them the output of attention and the output of the feedforward "
        "part are added over `num_devices` devices, so there are two all-reduces per layer. In one decoding step each "
        "of `num_texts` texts gets one new token; a tensor that is added up is (num_texts, 1, d_model). How many bytes "
        "does one device *send* in such a step, if each all-reduce goes round a ring? `num_devices` divides `d_model`."
    ),
    hints=(
        "How many bytes has one tensor, and how many of them does a device send per step of the ring?",
        "A ring takes 2 * (num_devices - 1) steps, and in each a device sends one of num_devices equal pieces.",
        "Multiply by the number of all-reduces: two per layer.",
    ),
    inputs={
        "num_layers": lambda rng, layers: layers + rng.integer(60),
        "d_model": lambda width, num_devices: 8 * width * num_devices,
        "bytes_per_number": [2, 4, 8],
    },
    calls=4,
    sizes=(3, 11),
    special={"there is a single device": {"num_devices": 1}},
    least={"num_layers": 1, "num_texts": 1, "num_devices": 1},
    wrong="""
num_layers * 2 => num_layers
    the bytes of one all-reduce per layer, or of two whose sums are not handed round
    ? Which two outputs of a layer are added up, and how many steps does a ring take for each?
num_layers * 2 => 2
    the bytes of a single layer
    ? Does every layer add its outputs up?
steps * (tensor // num_devices) => tensor
    the bytes of the tensors, not those that a device sends
    ? How many steps does a ring take, and what is sent in each?
tensor // num_devices => tensor
    what all devices send together, or one device if each step sent the whole tensor
    ? How many bytes is the piece that one device sends in one step?
1 => 0
    the bytes of 2 * num_devices steps
    ? How many steps does a single device need?
num_texts * d_model * bytes_per_number => num_texts * d_model
    the number of elements, not of bytes
    ? How many bytes has an element?
num_texts * d_model => d_model
    the bytes for one text
    ? How many tokens are new in one step, over all texts?
""",
)
