"""Find parameters that are not registered, unused or shared, and layers that stand in the wrong place."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from course_lib.exercises.answer import BuiltModule, Ran
from course_lib.exercises.learner_error import LearnerError

from .layouts import CandidateLayouts
from .row_orders import OUTPUT, PROJECTION

UNREADABLE = "Its parameters are laid out in a way that can't be compared with the solution's."


class Problem(NamedTuple):
    """What is wrong with the parameters: one sentence, the evidence, a question, and an id of the catalogue or None."""

    sentence: str
    evidence: tuple[str, ...]
    question: str
    mistake: str | None = None


def not_registered(module: BuiltModule) -> Problem | None:
    """Return the reason why too few parameters are registered, if the module's attributes show one."""
    if module.plain_modules:
        name = module.plain_modules[0]
        return Problem(
            f"`self.{name}` is a plain list or dict of modules, so their parameters are not registered.",
            ("An optimizer would never see them, and `.to(...)` and `.double()` leave them as they are.",),
            "Which container of `torch.nn` registers the modules that it holds?",
        )
    if module.plain_tensors:
        name = module.plain_tensors[0]
        return Problem(
            f"`self.{name}` is a tensor and no parameter, so that nothing would train it.",
            ("Only `nn.Parameter` and the layers of `torch.nn` are registered when they are assigned to `self`.",),
            "What makes a parameter out of a tensor?",
        )
    if not module.parameters:
        return Problem(
            "After `__init__` the module has no parameters.",
            ("Layers that are made in `forward` are new at each call: nothing could train them.",),
            "Where does a module make its layers, and where does it use them?",
        )
    return None


def made_in_forward(made: Sequence[str]) -> Problem:
    """Say that forward makes layers, which are listed as in `answering.run_module`."""
    return Problem(
        f"While `forward` runs, a new layer is made, `{made[0]}`: it is new at each call, and nothing could train it.",
        ("A layer that is made in `__init__` and kept in `self` is registered; its weights are then trained.",),
        "Where does a module make its layers, and where does it use them?",
    )


def examine(problem: Problem, run: Callable[[], Ran], layouts: CandidateLayouts) -> Problem:
    """Return what a run shows of a module whose parameters are wrong: layers made in forward, or never used.

    Args:
        problem: What is wrong with the parameters.
        run: Runs the module, forward and backward.
        layouts: What its parameters may mean.

    Raises:
        LearnerError: If forward is still a stub; other errors are not what is wrong first.
    """
    try:
        ran = run()
    except LearnerError as error:
        if error.unwritten:
            raise
        return made_in_forward(error.made) if error.made else problem
    return made_in_forward(ran.made) if ran.made else _unused_layer(layouts, ran) or problem


def _unused_layer(layouts: CandidateLayouts, ran: Ran) -> Problem | None:
    """Name the matrices that a backward pass does not reach, if they are just those that are too many."""
    unused = {
        name: shape
        for name, shape in layouts.shapes.items()
        if layouts.kinds[name] in (PROJECTION, OUTPUT) and ran.gradients and ran.gradients.get(name) is None
    }
    used = {name: math.prod(shape) for name, shape in layouts.shapes.items() if name not in unused}
    elements = [sum(size for name, size in used.items() if layouts.kinds[name] == one) for one in (PROJECTION, OUTPUT)]
    if not unused or elements != [sum(layouts.sizes.projected) * layouts.sizes.d_in, layouts.output_elements]:
        return None
    names = ", ".join(f"`{name[:60]}` {tuple(shape)}" for name, shape in list(unused.items())[:4])
    return Problem(
        f"{names} {'are' if len(unused) > 1 else 'is'} never used: no gradient arrives there in a backward pass.",
        (f"Without {'them' if len(unused) > 1 else 'it'} the module has as many parameters as it needs.",),
        "Which line of `forward` should use it, or is it left over?",
    )


def one_layer_for_two(shared: Mapping[str, str], built: str) -> Problem:
    """Say that one parameter has two names."""
    second, first = next(iter(shared.items()))
    return Problem(
        f"`{second[:60]}` is `{first[:60]}` under a second name: one matrix does the work of two.",
        (f"The module was built with {built}.",),
        "Which line makes each of the two, and does it make a new layer?",
        "projection-reused",
    )


def only_layer_in_front(layouts: CandidateLayouts, elements: int) -> Problem | None:
    """Say that one layer stands in front of queries, keys and values, if the others have so many elements."""
    shapes = layouts.shapes
    front = [name for name, kind in layouts.kinds.items() if kind == PROJECTION]
    sizes = layouts.sizes
    others = sum(math.prod(shape) for name, shape in shapes.items() if layouts.kinds[name] == OUTPUT)
    if len(front) != 1 or math.prod(shapes[front[0]]) != sizes.d_in * sizes.d_out or others != elements:
        return None
    return Problem(
        f"`{front[0][:60]}` {tuple(shapes[front[0]])} stands in front of queries, keys and values alike; each of them "
        "should be a projection of x itself.",
        (
            f"All three see only the d_out={sizes.d_out} numbers that it makes of d_in={sizes.d_in}: where d_out is "
            "smaller, that is less than three projections of x can use.",
        ),
        "Which matrices meet x itself?",
    )


def listed(shapes: Mapping[str, tuple[int, ...]], subject: str = "Its parameters") -> str:
    """Return one sentence that lists the first parameters with their shapes."""
    names = ", ".join(f"{name[:60]} {tuple(shape)}" for name, shape in list(shapes.items())[:12])
    return f"{subject}: {names or 'none'}{', ...' if len(shapes) > 12 else ''}."


def dtype_note(dtypes: Mapping[str, str]) -> str:
    """Say that parameters are made in a dtype of their own, which right numbers in the judge's float64 don't show."""
    name, dtype = next(iter(dtypes.items()))
    return (
        f"`{name[:60]}` is made in {dtype[:20]}, which is not PyTorch's default dtype, so that your module stops at an "
        "input in any other: leave `dtype=` out, and whoever needs it calls `.to(...)`."
    )
