"""Devices: the time of a decoding step on 4 to 64 of them, with the reader's latencies, bandwidths and texts."""

from __future__ import annotations

from typing import NamedTuple

from course_lib.pictures.charts.line_plot import line_plot

from .figure import Figure

TITLE = "How many devices are fastest?"
LLAMA_70B = {"layers": 80, "d_model": 8192, "heads": 64, "kv_heads": 8, "width": 128, "hidden": 28672}
BYTES = 2  # per number
MEMORY, READ = 80e9, 3350e9  # H100 SXM: bytes, bytes per second
MACHINE = 8  # GPUs in one
DEGREES = [4, 8, 16, 32, 64]
WAYS = ["one ring", "two levels", "two levels, to all of a machine at once"]
SLIDERS = {  # seconds of latency, bytes per second
    "texts": [2**power for power in range(9)],
    "tokens": [2**power for power in range(10, 18)],
    "waitWithin": [0, 0.25e-6, 0.5e-6, 1e-6, 2e-6, 5e-6, 10e-6, 20e-6],
    "waitBetween": [0, 1e-6, 2e-6, 5e-6, 10e-6, 20e-6, 50e-6],
    "sendWithin": [450e9 * 2.0**power for power in range(-3, 2)],
    "sendBetween": [50e9 * 2.0**power for power in range(-2, 4)],
}
FIRST = {"texts": 16, "tokens": 8192, "waitWithin": 1e-6, "waitBetween": 5e-6, "sendWithin": 450e9, "sendBetween": 50e9}


class Network(NamedTuple):
    """Latency in seconds and bandwidth in bytes per second, within a machine and between machines."""

    wait_within: float = FIRST["waitWithin"]
    wait_between: float = FIRST["waitBetween"]
    send_within: float = FIRST["sendWithin"]
    send_between: float = FIRST["sendBetween"]


class Step(NamedTuple):
    """The parts of a decoding step, in seconds: reading weights and cache, and the all-reduces."""

    weights: float
    cache: float
    sending: float
    waiting: float


def all_reduce(num_bytes: float, n: int, way: str, network: Network) -> tuple[float, float]:
    """Return the seconds that n devices send, and those that they wait for latencies.

    A ring of n takes 2 * (n - 1) steps, in each of which a device sends num_bytes / n (Patarasuk and Yuan, 2009).
    """
    if n > MACHINE and way == WAYS[0]:
        return _ring(num_bytes, n, network.wait_between, network.send_between)
    within = min(n, MACHINE)
    sending, waiting = _ring(num_bytes, within, network.wait_within, network.send_within)
    if way == WAYS[2]:
        waiting = 2 * network.wait_within
    between = _ring(num_bytes / within, n // within, network.wait_between, network.send_between)
    return sending + between[0], waiting + between[1]


def _ring(num_bytes: float, n: int, wait: float, send: float) -> tuple[float, float]:
    steps = 2 * (n - 1)
    return steps * num_bytes / n / send, steps * wait


def bytes_on_device(n: int, texts: int, tokens: int) -> tuple[float, float]:
    """Return the bytes of weights and of cache on each of n devices; a kv head is never cut."""
    sizes = LLAMA_70B
    columns = 2 * (sizes["heads"] + sizes["kv_heads"]) * sizes["width"] + 3 * sizes["hidden"]
    cached = 2 * texts * tokens * max(1, sizes["kv_heads"] // n) * sizes["width"]
    return BYTES * sizes["layers"] * columns * sizes["d_model"] / n, BYTES * sizes["layers"] * cached


def decoding_step(n: int, texts: int, tokens: int, way: str, network: Network) -> Step:
    """Return the parts of the time for one new token of each text; each layer does two all-reduces."""
    weights, cache = bytes_on_device(n, texts, tokens)
    sums = all_reduce(BYTES * texts * LLAMA_70B["d_model"], n, way, network)
    return Step(weights / READ, cache / READ, *(2 * LLAMA_70B["layers"] * seconds for seconds in sums))


def devices() -> Figure:
    """Return the figure that shows the time of a decoding step of Llama 3 70B on 4 to 64 H100s.

    Texts, their length, and the latencies and bandwidths of the network are sliders; three ways to all-reduce are to
    choose.

    Example:
        >>> devices().save("devices.html")
        PosixPath('devices.html')
    """
    sizes = {"bytes": BYTES, "memory": MEMORY, "read": READ, "machine": MACHINE, "degrees": DEGREES}
    data = {"model": LLAMA_70B, **sizes, "ways": WAYS, "sliders": SLIDERS, "first": FIRST}
    curves: dict[str, dict[float, float]] = {}
    for way in WAYS[:2]:
        steps = {n: decoding_step(n, FIRST["texts"], FIRST["tokens"], way, Network()) for n in DEGREES}
        curves["weights"] = {n: 1000 * step.weights for n, step in steps.items()}
        curves["cache"] = {n: 1000 * step.cache for n, step in steps.items()}
        curves[f"all-reduce, {way}"] = {n: 1000 * (step.sending + step.waiting) for n, step in steps.items()}
        curves[f"whole step, {way}"] = {n: 1000 * sum(step) for n, step in steps.items()}
    note = "16 texts of 8,192 tokens, 2 bytes per number; H100, 8 in a machine. "
    note += "Latencies of 1 and 5 microseconds are assumed."
    title = "One decoding step of Llama 3 70B, computed"
    picture = line_plot(curves, title=title, xlabel="devices", ylabel="milliseconds", note=note)
    return Figure(TITLE, ("devices.js",), data, picture)
