"""The output of cross-attention is as wide as x, unless the code is given another width."""

import inspect
import re
from collections.abc import Iterator, Mapping

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import Attention, JoinedCall
from course_lib.diagnosis.registry import rule

from .outputs import OF_HEADS, OUT_ARGUMENTS, locate_last_weights

WIDTH = re.compile(r"dim|size|width|channel|feature|unit|hidden|embed|(^|_)(d|in|nf|c)(_|$)", re.I)


@rule(order=411)
def check_width_beside_context(attention: Attention) -> Iterator[Finding]:
    """The width of the output beside a context."""
    subject, call = attention.run.subject, attention.run.subject.given_call
    projected = subject.is_module and not subject.is_part and attention.influence.last_projected
    given = _arguments(subject.examined) if projected and isinstance(call, JoinedCall) else {}
    if not isinstance(call, JoinedCall) or not given or any(name in OUT_ARGUMENTS for name in given):
        return
    d_in, d_context = call.x.shape[-1], call.context.shape[-1]
    width = attention.run.output.tensor.shape[-1]
    merged = attention.rows.num_heads * max(len(row.outputs) for row in attention.rows.all)
    if width == d_in:
        return
    if width == d_context != merged or (width == merged and _is_of_no_argument(subject.examined, given, d_in, width)):
        like = "as the context's" if width == d_context else "a width that the code was not given"
        evidence = f"its tokens come out {width} wide, {like}, while those of x are {d_in} wide"
        yield Finding.named("output-projection-shape", evidence, locate_last_weights(attention))


def _arguments(module: object) -> Mapping[str, inspect.Parameter]:
    """Return the arguments that a module's class takes; none if they are unknown."""
    try:
        return inspect.signature(type(module)).parameters
    except (TypeError, ValueError):
        return {}


def _is_of_no_argument(module: object, given: Mapping[str, inspect.Parameter], d_in: int, width: int) -> bool:
    """Return whether a module was given the width of x, and no number that is, or may be, the width of the output."""
    unknown = (name for name in given if WIDTH.search(name) and not hasattr(module, name))
    if any(unknown) or any(map(OF_HEADS.search, given)):
        return False
    numbers = [getattr(module, name, one.default) for name, one in given.items()]
    return d_in in numbers and width not in numbers
