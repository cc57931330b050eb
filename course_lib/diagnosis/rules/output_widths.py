"""The output is as wide as x, unless the code is given another width."""

import inspect
import re
from collections.abc import Iterator, Mapping

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import OUTPUT, Attention, JoinedCall
from course_lib.diagnosis.registry import rule

from .outputs import OF_HEADS, OUT_ARGUMENTS, locate_last_weights

WIDTH = re.compile(r"dim|size|width|channel|feature|unit|hidden|embed|(^|_)(d|in|nf|c)(_|$)", re.I)

# Arguments that may say how wide the output is.
OTHER_WIDTHS = re.compile(
    r"class|label|categor|target|vocab|config|cfg|args|ratio|expan|reduc|mult|(^|_)out(_|put|$)", re.I
)


@rule()
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


@rule()
def check_width_of_projection(attention: Attention) -> Iterator[Finding]:
    """The width of the output projection."""
    # It is judged if queries, keys and values keep the width of x, the last operation with weights is called an output
    # projection, and a single argument can be a width: that of x.
    run, subject = attention.run, attention.run.subject
    names = _names_of_last_weights(attention) if attention.influence.last_projected else set()
    if not subject.is_module or subject.is_part or run.options.num_context or not names:
        return
    d_in, width = run.x.shape[-1], run.output.tensor.shape[-1]
    merged = attention.rows.num_heads * max(len(row.outputs) for row in attention.rows.all)
    called = all(OUTPUT.search(name) for name in names)
    if width in (1, d_in) or merged != d_in or not called or not _is_given_one_width(subject.examined, d_in, width):
        return
    evidence = f"its tokens come out {width} wide, while x and the heads together are {d_in}, and no argument says so"
    yield Finding.named("output-projection-shape", evidence, locate_last_weights(attention))


def _names_of_last_weights(attention: Attention) -> set[str]:
    """Return the names of the parameters that the last operation reads which reads any."""
    reads = attention.run.parameter_names
    found = (one for one in reversed(attention.run.live_operations) if any(v.storage in reads for v in one.inputs))
    last = next(found, None)
    return set() if last is None else {reads[value.storage] for value in last.inputs if value.storage in reads}


def _is_given_one_width(module: object, d_in: int, width: int) -> bool:
    """Return whether one argument, which is not that of heads, may be a width, and no number is that of the output."""
    given = {name: one for name, one in _arguments(module).items() if not OF_HEADS.search(name)}
    numbers = [getattr(module, name, one.default) for name, one in given.items()]
    widths = [name for name in given if WIDTH.search(name) and getattr(module, name, d_in) == d_in]
    unknown = [name for name, one in given.items() if not hasattr(module, name) and OTHER_WIDTHS.search(name)]
    of_any = any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in given.values())
    return len(widths) == 1 and not unknown and not of_any and width not in numbers


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
