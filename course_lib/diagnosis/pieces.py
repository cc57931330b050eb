"""Run code in pieces where it takes a cache, so that nothing is called right on a path that was never run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor, nn

from course_lib.attention import KVCache
from course_lib.calling import CACHE, MASK, code_of, first_tensor, parameters_of
from course_lib.mistakes import Symptom
from course_lib.tracing import SourceLine, error_message, is_refused, tensors_in, without_gradients

from .finding import Finding
from .measure.cache_stand_in import StandIn
from .measure.calling import Call, handing, usual_call
from .measure.context import beside, usual_context_call
from .measure.copying import copy_of
from .measure.decoding import (
    Arguments,
    Decoding,
    Empty,
    Result,
    Run,
    arguments_that_keep,
    find_decodings,
    in_chunks,
    in_steps,
    parts_of,
)
from .measure.kept_inside import differing, methods_that, set_up, state_of
from .measure.run import MAX_SAMPLES, MAX_TOKENS, noise_of
from .measure.subject import Subject
from .measure.waking import zero_weights
from .report import NotRun, Report

Cut = Callable[[int], list[slice]]
Examine = Callable[..., Report]  # (call=...) -> report
SAME = 1e-5  # of the largest element: parts of the code may compute in float32
FEWEST = 4  # tokens that show a prompt and two steps
TO_RUN_IT = (
    "it was run without it; to run it token by token, give `call`: a function of (code, x) that makes a new cache, "
    "feeds x to the code in pieces and joins the outputs"
)


class InPieces:
    """A `call` of (code, x) that gives the code x in pieces."""

    def __init__(self, decoding: Decoding, call: Call, cut: Cut) -> None:
        self.decoding, self.call, self.cut = decoding, call, cut

    def __call__(self, code: Callable[..., Any], x: Tensor) -> Tensor:
        with _reset(code) if isinstance(code, nn.Module) else nullcontext():
            return self.decoding.outputs(_run(code, self.call), x, self.cut(x.shape[1]))


@contextmanager
def _reset(code: nn.Module) -> Iterator[None]:
    """Put back what a module keeps in its attributes, so that the next prompt starts as the first one did."""
    kept = [(one, {**vars(one)}, {**one._buffers}) for one in code.modules()]
    held = {id(value): type(value)(value) for _, own, _ in kept for value in own.values() if type(value) is list}
    try:
        yield
    finally:
        for one, own, buffers in kept:
            vars(one).update(own)
            for name in vars(one).keys() - own.keys():
                del vars(one)[name]
            one._buffers.clear()
            one._buffers.update(buffers)
            for value in own.values():
                if id(value) in held:
                    value[:] = held[id(value)]


def examine_pieces(
    report: Report, is_row: bool, asks_for_all: bool, code: Any, x: Tensor, call: Any, examine: Examine, context: Any
) -> Report:
    """Return the report on code, with what shows where it is given x in pieces and keeps a cache.

    Args:
        report: on the code in one pass.
        is_row: whether x is a row of tokens.
        asks_for_all: whether the caller says who may see whom, so that what `call` gives may hold a mask of all tokens.
        call: as it was given; None for the usual one.
        examine: diagnoses the code with another call.
        context: what the code is given besides x, or None.
    """
    if isinstance(call, InPieces):
        return report
    beside_it = report.findings if all(one.origin.symptom is Symptom.ELSEWHERE for one in report.findings) else ()
    if beside_it:  # what shows on another device or in another dtype says nothing of the cache
        alone = replace(report, findings=())
        report = examine_pieces(alone, is_row, asks_for_all, code, x, call, examine, context)
        found = {one.mistake for one in report.findings}
        return replace(report, findings=(*report.findings, *(one for one in beside_it if one.mistake not in found)))
    named = [one.name for one in parameters_of(code)[1:] if CACHE.fullmatch(one.name)] if call is None else []
    if report.exit_status != 0:  # wrong, or unseen in any case
        said = (f"its cache `{name}` was not examined" for name in named)
        return replace(report, remarks=(*report.remarks, *said))
    is_row = is_row and x.dim() == (3 if x.is_floating_point() else 2)
    if not is_row or not (isinstance(code, nn.Module) or (call is None and context is None)):
        return _without(report, named)
    if context is not None and x.is_floating_point() and context.dim() == 3:
        x, call = beside(_long_enough(x), context, call or usual_context_call(code))
    pieces = _Pieces(code, x, call, asks_for_all=asks_for_all, shape=None if context is None else context.shape[1:])
    if pieces.is_fed or pieces.arguments is None:
        return report if pieces.is_fed else _without(report, named)
    arguments = pieces.arguments
    decoding, apart = pieces.best(arguments) if pieces.hides_the_future() else (None, torch.inf)
    if decoding is None:
        names = [name for name in named if name in arguments.free]
        return _without(report, names or pieces.caches(arguments), pieces.made)
    if apart <= SAME:
        return pieces.in_chunks(pieces.after_reset(report, decoding), decoding, examine)
    return pieces.accused(report, decoding, apart, examine)


def _without(report: Report, names: Sequence[str], made: Sequence[str] = ()) -> Report:
    """Return a report that is clean in one pass, and says which caches were not examined."""
    unseen = [f"what `{name}` makes" for name in made] or [f"its cache `{name}`" for name in names]
    return replace(report, not_run=tuple(NotRun(one, TO_RUN_IT) for one in unseen))


class _Pieces:
    """Code that is run in one pass and in pieces.

    Attributes:
        arguments: those that may have to do with a cache; None if the code does not run so.
        may_mask: whether `call` may give a mask that fits all tokens only.
        is_fed: whether `call` gives the code several pieces itself.
        complete: whether no argument that `call` gives may say where a piece stands.
        made: the methods that made what the code keeps its cache in.
    """

    def __init__(self, code: Any, x: Tensor, call: Call | None, *, asks_for_all: bool, shape: Any) -> None:
        self.call = call or usual_call(code)
        self.may_mask = asks_for_all and call is not None
        self.subject = Subject(code)
        self.subject.awake = isinstance(code, nn.Module) and bool(zero_weights(code))
        owner = getattr(code, "__self__", code)  # of a method
        self.empty = [_cache_of_course(owner)] if hasattr(owner, "cache_sizes") else []
        self.shape, self.made = shape, list[str]()  # of a context
        self.arguments: Arguments | None = None
        self.is_fed = False
        self.complete = True
        for dtype in (torch.float64, self.subject.dtype(x)):
            self.dtype, self.x = dtype, _long_enough(x[:MAX_SAMPLES, :MAX_TOKENS].detach().cpu())
            self.x = self.x.to(dtype) if x.is_floating_point() else self.x
            given: list[dict[str, Any]] = []
            with suppress(Exception):  # it may not run in float64
                self.plain = self._begin(given)(self.x).output
                self.is_fed = len(given) > 1
                has_rows = isinstance(self.plain, Tensor) and self.plain.dim() > 2
                if has_rows and self.plain.shape[1] == self.x.shape[1] and given:
                    self._sort(given[0])
                return

    def _sort(self, given: dict[str, Any]) -> None:
        """Sort the arguments of the code by what they may have to do with a cache."""
        own = parameters_of(self.subject.original)[1:]
        own = [one for one in own if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        values = {one.name: given.get(one.name, one.default) for one in own}
        self.arguments = Arguments.of(values)
        self.complete = not any(
            not MASK.search(name) and any(part.shape[1:] != self.shape for part in tensors_in(one))
            for name, one in values.items()
        )

    def _begin(self, given: list[dict[str, Any]] | None = None, code: Any = None) -> Run:
        code = self.subject.copy(self.dtype) if code is None else code
        run, apart = _run(code, self.call, given), self.subject.apart(self.x)

        def quietly(piece: Tensor, **more: Any) -> Result:
            with torch.random.fork_rng(devices=[]), without_gradients(), apart:
                torch.default_generator.manual_seed(0)
                return run(piece.clone(), **more)

        return quietly

    def hides_the_future(self) -> bool:
        """Return whether no output of one pass moves with a later token, as where the caller has to give a mask."""
        later = self.x.clone()
        later[:, -1] = self.x[:, 0] if not self.x.is_floating_point() else self.x[:, -1] * -0.5 + 1.5
        moves = (self._begin()(later).output - self.plain)[:, :-1].abs().nan_to_num()
        return bool(moves.max() <= SAME * max(float(self.plain.abs().max()), 1e-9))

    def best(self, arguments: Arguments) -> tuple[Decoding | None, float]:
        """Return the way to give pieces whose output is nearest to that of one pass, and how far it is; None if none.

        What differs with a stand-in for a cache may be the stand-in's fault. Without any way, methods of the code make
        what it may keep its cache in, if there are such.
        """
        best, nearest = None, torch.inf
        for decoding in find_decodings(self._begin, arguments, self.x, self.empty):
            apart = self._apart(decoding, in_steps)
            if apart <= SAME:
                return decoding, apart
            stands_in = decoding.empty is not None and isinstance(decoding.empty(self.x), StandIn)
            if not stands_in and (best is None or apart < nearest):
                best, nearest = decoding, apart
        if best is not None or self.made or not self.subject.is_module:
            return best, nearest
        before, original = self.subject, cast(nn.Module, self.subject.original)
        code = copy_of(original)
        self.made = [one.__name__ for one in set_up(code, self.x)]
        self.subject = Subject(code)
        self.subject.awake = before.awake
        best, nearest = self.best(arguments) if self.made else (None, nearest)
        if best is None:
            with suppress(Exception):  # what no longer runs needs more than was made
                self._begin()(self.x)
                self.subject, self.made = before, []
        return best, nearest

    def caches(self, arguments: Arguments) -> list[str]:
        """Return the arguments that act as a cache, and the attributes that would if they were not None."""
        found = arguments_that_keep(self._begin, arguments, self.x)
        root: Any = self.subject.copy(self.dtype) if self.subject.is_module else nn.Module()
        for path, name in [key for key, held in state_of(root).items() if held is None]:
            cache, code = StandIn(), copy_of(root)
            owner = code.get_submodule(path)
            for held in (owner._buffers, owner._modules):
                held.pop(name, None)
            vars(owner)[name] = cache
            with suppress(Exception):  # a stand-in goes so far only
                self._begin(code=code)(self.x)
            found += [name] if cache.keeps else []
        return list(dict.fromkeys(found))

    def _apart(self, decoding: Decoding, cut: Cut, code: Any = None) -> float:
        output = decoding.outputs(self._begin(code=code), self.x, cut(self.x.shape[1]))
        most = float((output - self.plain).abs().nan_to_num(nan=torch.inf).max())
        return most / max(float(self.plain.abs().max()), 1e-9)

    def in_chunks(self, report: Report, decoding: Decoding, examine: Examine) -> Report:
        """Return the report on code that is right token by token, with what shows in longer pieces, if it runs so."""
        try:
            apart = self._apart(decoding, in_chunks)
        except Exception as error:
            if not is_refused(error):
                what = f"the cache of {decoding.name} in pieces of several tokens"
                return replace(report, not_run=(NotRun(what, f"it raised {error_message(error)}"),))
            apart = 0.0
        if apart > SAME:
            return self.accused(report, decoding, apart, examine, in_chunks)
        said = f"with the cache of {decoding.name}, token by token, it computes the same as in one pass"
        return replace(report, checked=(*report.checked, said))

    def after_reset(self, report: Report, decoding: Decoding) -> Report:
        """Return the report with what a text sees of one before it, after methods that set back what a module keeps."""
        if decoding.taken or not self.subject.is_module:
            return report
        code: Any = self.subject.copy(self.dtype)
        fresh = state_of(code)
        decoding.outputs(self._begin(code=code), self.x.flip(1), in_steps(self.x.shape[1]))

        def sets_back(call: MethodType) -> bool:
            before = differing(fresh, state_of(code))
            call()
            return bool(before - differing(fresh, state_of(code)))

        left = {name for _, name in differing(fresh, state_of(code))}
        methods = methods_that(sets_back, code, left)
        try:
            apart = self._apart(decoding, in_steps, code) if methods else 0.0
            said = f"gives an output that is up to {apart:.4f} off"
        except Exception as error:
            apart, said = torch.inf, f"raises {error_message(error)}"
        if apart <= SAME:
            return report
        evidence = f"after {' and '.join(f'`{one.__name__}()`' for one in methods)} another text {said}"
        written = code_of(methods[0])
        where = SourceLine(written.co_filename, written.co_firstlineno) if written else None
        return replace(report, findings=(Finding.named("stale-cache", evidence, where),))

    def accused(
        self, report: Report, decoding: Decoding, apart: float, examine: Examine, cut: Cut = in_steps
    ) -> Report:
        """Return the report on code that is wrong in pieces, which says nothing more of one pass."""
        free = self.arguments.free if self.arguments and self.made else []  # such as a mask for all that is kept
        if self.may_mask or not self.complete or any(name != decoding.position for name in free):
            names = list(decoding.taken) or [*decoding.options, decoding.position][:1]
            return _without(report, names, self.made)
        rules = not self.made and self.shape is None  # they know nothing of what was made, and of rows with a context
        found = examine(call=InPieces(decoding, self.call, cut)).findings if rules else ()
        found = tuple(one for one in found if one.mistake)
        how = "token by token" if cut is in_steps else "in pieces of several tokens"
        evidence = f"with the cache of {decoding.name}, {how}, the output is up to {apart:.4f} off"
        return replace(report, findings=found or (Finding.named("paths-differ", evidence),), checked=())


def _long_enough(x: Tensor) -> Tensor:
    """Return x with enough tokens for a prompt and steps."""
    lacking = FEWEST - x.shape[1]
    if lacking <= 0:
        return x
    if not x.is_floating_point():
        return x.repeat(1, FEWEST)[:, :FEWEST]
    return torch.cat([x, noise_of((len(x), lacking, x.shape[2]), seed=23).to(x.dtype)], dim=1)


def _run(code: Callable[..., Any], call: Call, given: list[dict[str, Any]] | None = None) -> Run:
    """Return how to run a copy by `call` on a piece with further arguments; note in `given` which it gets without."""

    def run(piece: Tensor, **more: Any) -> Result:
        if isinstance(code, nn.Module):
            with handing(code, more, given) as results:
                output = call(code, piece)
            return Result(output, parts_of(results[-1]) if results else {})
        if given is not None:
            given.append({})
        result = code(piece, **more)
        return Result(first_tensor(result), parts_of(result))

    return run


def _cache_of_course(code: Any) -> Empty:
    """Return what makes an empty cache for a module that says what sizes it must have, as those of the course do."""

    def make(x: Tensor) -> KVCache:
        num_kv_heads, head_dim, value_dim = code.cache_sizes
        return KVCache(len(x), num_kv_heads, x.shape[1], head_dim, value_dim=value_dim, dtype=x.dtype, device=x.device)

    return make
