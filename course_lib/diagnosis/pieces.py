"""Run code in pieces where it takes a cache, so that nothing is called right on a path that was never run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.attention import KVCache
from course_lib.calling import CACHE, MASK, first_tensor, parameters_of
from course_lib.tracing import error_message, is_refused, tensors_in, without_gradients

from .finding import Finding
from .measure.cache_stand_in import StandIn
from .measure.calling import Call, usual_call
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
    report: Report, is_row: bool, asks_for_all: bool, code: Any, x: Tensor, call: Call | None, examine: Examine
) -> Report:
    """Return the report on code, with what shows where it is given x in pieces and keeps a cache.

    Args:
        report: on the code in one pass.
        is_row: whether x is a row of tokens, with nothing beside it.
        asks_for_all: whether the caller says who may see whom, so that what `call` gives may hold a mask of all tokens.
        call: as it was given.
        examine: diagnoses the code with another call.
    """
    if isinstance(call, InPieces):
        return report
    named = [one.name for one in parameters_of(code)[1:] if CACHE.fullmatch(one.name)] if call is None else []
    if report.exit_status != 0:
        return _remarked(report, named)
    is_row = is_row and x.dim() == (3 if x.is_floating_point() else 2)
    if not is_row or not (isinstance(code, nn.Module) or call is None):
        return _without(report, named)
    pieces = _Pieces(code, x, call, asks_for_all=asks_for_all)
    if pieces.is_fed:
        return report
    arguments = pieces.arguments
    if arguments is None:
        return _without(report, named)
    decoding, apart = pieces.best(arguments) if pieces.hides_the_future() else (None, torch.inf)
    if decoding is None:
        return _without(report, [name for name in arguments.free if name in {*named, *pieces.keeping(arguments)}])
    if apart <= SAME:
        return pieces.in_chunks(report, decoding, examine)
    return pieces.accused(report, decoding, apart, examine)


def _without(report: Report, names: list[str]) -> Report:
    """Return a report that is clean in one pass, and says which caches were not examined."""
    return replace(report, not_run=tuple(NotRun(f"its cache `{name}`", TO_RUN_IT) for name in names))


def _remarked(report: Report, names: list[str]) -> Report:
    """Return a report on code that is wrong or unseen in any case, with the caches as a remark."""
    return replace(report, remarks=(*report.remarks, *(f"its cache `{name}` was not examined" for name in names)))


class _Pieces:
    """Code that is run in one pass and in pieces.

    Attributes:
        arguments: those that may have to do with a cache; None if the code does not run so.
        may_mask: whether `call` may give a mask that fits all tokens only.
        is_fed: whether `call` gives the code several pieces itself.
        complete: whether no argument that `call` gives may say where a piece stands.
    """

    def __init__(self, code: Callable[..., Any], x: Tensor, call: Call | None, *, asks_for_all: bool) -> None:
        self.call = call or usual_call(code)
        self.may_mask = asks_for_all and call is not None
        self.subject = Subject(code)
        self.subject.awake = isinstance(code, nn.Module) and bool(zero_weights(code))
        owner = getattr(code, "__self__", code)  # of a method
        self.empty = [_cache_of_course(owner)] if hasattr(owner, "cache_sizes") else []
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
        self.arguments = Arguments(
            [name for name, one in values.items() if one is None],
            [name for name, one in values.items() if one is False],
            [name for name, one in values.items() if type(one) is int],
        )
        self.complete = not any(
            not MASK.search(name) and any(True for _ in tensors_in(one)) for name, one in values.items()
        )

    def _begin(self, given: list[dict[str, Any]] | None = None) -> Run:
        run, apart = _run(self.subject.copy(self.dtype), self.call, given), self.subject.apart(self.x)

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

        What differs with a stand-in for a cache may be the stand-in's fault.
        """
        best, nearest = None, torch.inf
        for decoding in find_decodings(self._begin, arguments, self.x, self.empty):
            apart = self._apart(decoding, in_steps)
            if apart <= SAME:
                return decoding, apart
            stands_in = decoding.empty is not None and isinstance(decoding.empty(self.x), StandIn)
            if not stands_in and (best is None or apart < nearest):
                best, nearest = decoding, apart
        return best, nearest

    def keeping(self, arguments: Arguments) -> list[str]:
        """Return the arguments that act as a cache."""
        return arguments_that_keep(self._begin, arguments, self.x)

    def _apart(self, decoding: Decoding, cut: Cut) -> float:
        output = decoding.outputs(self._begin(), self.x, cut(self.x.shape[1]))
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

    def accused(
        self, report: Report, decoding: Decoding, apart: float, examine: Examine, cut: Cut = in_steps
    ) -> Report:
        """Return the report on code that is wrong in pieces, which says nothing more of one pass."""
        names = list(decoding.taken) or [*decoding.options, decoding.position][:1]
        if self.may_mask or not self.complete:
            return _without(report, names)
        found = tuple(one for one in examine(call=InPieces(decoding, self.call, cut)).findings if one.mistake)
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
    names = [one.name for one in parameters_of(code)]
    if not isinstance(code, nn.Module):
        return _run_function(code, given)

    def run(piece: Tensor, **more: Any) -> Result:
        results: list[Any] = []

        def give(_: nn.Module, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
            placed = dict(zip(names, args, strict=False))
            if given is not None:
                given.append({**placed, **named})
            own = tuple(more.get(name, one) for name, one in placed.items()) + args[len(placed) :]
            return own, {**named, **{name: one for name, one in more.items() if name not in placed}}

        def note(_: nn.Module, args: tuple, result: Any) -> None:
            results.append(result)

        with code.register_forward_pre_hook(give, with_kwargs=True), code.register_forward_hook(note):
            output = call(code, piece)
        return Result(output, parts_of(results[-1]) if results else {})

    return run


def _run_function(code: Callable[..., Any], given: list[dict[str, Any]] | None) -> Run:
    def run(piece: Tensor, **more: Any) -> Result:
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
