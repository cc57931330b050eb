"""A kernel gets a mask or `is_causal=True`, not both."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from course_lib.diagnosis.finding import Finding, error_message
from course_lib.diagnosis.measure import FailedRun, FreshRuns, Run, UntraceableRun, Visibility
from course_lib.diagnosis.measure.calling import mask_argument
from course_lib.diagnosis.registry import rule
from course_lib.tracing import FunctionWatch, SourceLine, last_line, without_gradients

BOTH = re.compile(r"attn_mask should not be set when is_causal|mask.*is_causal=True|is_causal.*mask.*same time", re.I)
REFUSED = "PyTorch refuses both from 2.14 on, and before that some of its kernels combined them"
OF_MODULE = (F.multi_head_attention_forward,)


@rule()
def check_both(failed: FailedRun) -> Iterator[Finding]:
    """Whether PyTorch refuses a mask beside is_causal."""
    yield from _refused(failed.error)


@rule()
def check_both_untraced(run: UntraceableRun) -> Iterator[Finding]:
    """Whether PyTorch refuses a mask beside is_causal."""
    yield from _refused(run.error)


def _refused(error: Exception) -> Iterator[Finding]:
    message = error_message(error)
    if BOTH.search(message):
        evidence = f"{message} ({REFUSED})"
        yield Finding.named("is-causal-with-mask", evidence, last_line(error))


@rule()
def check_mask_beside_flag(visibility: Visibility, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether a kernel gets a mask beside is_causal."""
    calls = _flagged(fresh.run) if fresh.run.subject.is_module else []
    for call in calls:
        if call.kernel and call.masked:
            evidence = f"F.scaled_dot_product_attention gets a mask and is_causal=True: {REFUSED}"
            yield Finding.named("is-causal-with-mask", evidence, call.line)
            return
        if (call.masked or _takes_a_mask(visibility)) and _only_the_flag_counts(visibility):
            mask = "a mask, which is not read" if call.masked else "no mask"
            evidence = f"the kernel gets is_causal=True and {mask}: what only the mask hides gets a weight"
            yield Finding.named("is-causal-with-mask", evidence, call.line)
            return


def _takes_a_mask(visibility: Visibility) -> bool:
    """Return whether a mask may have reached the code, or it should make one of a window of its own."""
    options, code = visibility.attention.options, visibility.attention.run.subject.original
    return options.has_call or options.window is not None or mask_argument(code) is not None


def _only_the_flag_counts(visibility: Visibility) -> bool:
    """Return whether exactly the pairs are visible that a causal mask alone shows, although more should be hidden."""
    attention, options = visibility.attention, visibility.attention.options
    if not visibility.leaked.any() or not options.causal or (options.keep is None and options.window is None):
        return False
    plain = attention.expected.new_ones(attention.expected.shape[-2:]).tril() & attention.present[..., None]
    return bool((attention.seen == plain).all())


@dataclass(frozen=True)
class _Call:
    """A call with is_causal=True.

    Attributes:
        line: of the author.
        kernel: whether it is F.scaled_dot_product_attention rather than a module that calls it.
        masked: whether it gets a mask, too.
    """

    line: SourceLine | None
    kernel: bool
    masked: bool


def _flagged(run: Run) -> list[_Call]:
    """Return the calls with is_causal=True; none if the code can't be run again."""
    watch = _Flags()
    code = run.subject.copy(run.x.dtype)
    with suppress(Exception), torch.random.fork_rng(devices=[]), without_gradients(), watch:
        run.subject.call(code, run.x.clone())
    return watch.found


class _Flags(FunctionWatch):
    """Notes the calls of kernels with is_causal=True."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Call] = []

    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        kernel = func is F.scaled_dot_product_attention
        if (kernel or func in OF_MODULE) and (kwargs.get("is_causal") or (kernel and len(args) > 5 and args[5])):
            mask = (
                kwargs.get("attn_mask") if "attn_mask" in kwargs or not kernel else args[3] if len(args) > 3 else None
            )
            frame = next(self.author_frames(), None)
            line = None if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno)
            self.found.append(_Call(line, kernel, mask is not None))
        return func(*args, **kwargs)
