"""What recording costs: the toy module alone, recorded, recorded with its steps computed, and drawn."""

from collections.abc import Iterator

from torch import Tensor

from course_lib.attention import MultiHeadAttention
from course_lib.inputs import dream_big
from course_lib.pictures import layout_steps
from course_lib.recorder import record
from course_lib.timing import Case
from tools.performance.experiment import FORWARD, Experiment, prepare


def recording(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases with the toy module of the lessons; quick makes no difference."""
    x = dream_big(device=device).batch
    module = prepare(MultiHeadAttention(3, 4, num_heads=2), device, "float32")

    def with_steps() -> Tensor:
        watched = record(module, x)
        _ = watched.steps
        return watched.output

    def drawn() -> Tensor:
        watched = record(module, x)
        layout_steps(watched, of="queries_by_head")
        return watched.output

    cases = [
        Case("the module alone", lambda: module(x)),
        Case("recorded", lambda: record(module, x).output),
        Case("recorded, its steps asked for", with_steps),
        Case("recorded and drawn, two steps", drawn),
    ]
    sizes = {"batch": 1, "num_tokens": 6, "num_heads": 2, "head_dim": 2}
    yield Experiment(
        "The recorder on the toy module: batch 1, 6 tokens, 2 heads of 2", "float32", cases, sizes, FORWARD
    )
