"""Mistakes that show only in other circumstances: other calls, sizes, dtypes and devices, training, positions, caches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..anatomy import MANY, Anatomy
from ..examination import Examination
from ..labels import NOTHING
from ..lines import attribute_line, line_at, of_attribute, of_loop
from ..patient import PatientFailed
from ..probes import differs_from_call_to_call, other_sizes
from ..report import Finding
from ..trace import Operation, Trace, write_down
from .heads import in_pieces
from .pipeline import softmaxes

RANDOM = re.compile(r"dropout|bernoulli|rand|normal_|uniform_|multinomial")


def check_repeats(examination: Examination) -> Iterator[Finding]:
    """Two runs in evaluation must agree whatever random numbers there are."""
    try:
        apart = differs_from_call_to_call(examination.patient, examination.x) if examination.free else 0.0
    except PatientFailed:
        apart = 0.0
    drawn = examination.first(lambda op: bool(RANDOM.search(op.name)) and op.number in examination.alive)
    if apart > 1e-9 and drawn is not None:
        where = attribute_line(drawn, examination.patient.code, _hidden_dropout) or drawn.where
        yield Finding.named("dropout-at-eval", f"two runs in evaluation are up to {apart:.4f} apart", where)


def _hidden_dropout(value: Any) -> bool:
    """A plain list of modules, which eval() does not reach."""
    return isinstance(value, (list, tuple)) and any(isinstance(one, nn.Module) for one in value)


def check_input(examination: Examination) -> Iterator[Finding]:
    """x must be after the call what it was before."""
    trace = examination.trace
    writes = [op for op in trace.operations if op.in_place and op.outputs and op.outputs[0].storage == trace.x.storage]
    changed = [op for op in writes if not torch.equal(op.inputs[0].tensor, op.outputs[0].tensor)]
    if changed:
        before, after = changed[0].inputs[0].tensor, changed[0].outputs[0].tensor
        apart = float((before.double() - after.double()).abs().nan_to_num().max())
        yield Finding.named(
            "input-modified", f"`{changed[0].name}` writes into x, by up to {apart:.4f}", changed[0].where
        )


def check_state(examination: Examination) -> Iterator[Finding]:
    """What a module keeps of one prompt must not reach the next."""
    patient = examination.patient
    if not isinstance(patient.original, nn.Module):
        return
    code = patient.copy(torch.float64)
    other = examination.x.flip(1) * 0.5 + 0.25
    try:
        fresh = patient.run(examination.x, patient.copy(torch.float64))
        patient.run(other, code)
        second = patient.run(examination.x, code)
    except PatientFailed as failure:
        kept = examination.first(lambda op: op.name in ("copy_", "cat") and op.number in examination.alive)
        yield Finding.named(
            "stale-cache", f"a second prompt fails: {failure}", failure.line or (kept.where if kept else None)
        )
        return
    if fresh.shape != second.shape:
        words = f"after another prompt the output has the shape {tuple(second.shape)}"
        yield Finding.named("stale-cache", words, _cache_line(examination, _second_run(examination)))
        return
    apart = float((fresh - second).abs().nan_to_num(nan=torch.inf).where(fresh.isfinite(), 0.0).max())
    if apart > 1e-9:
        yield Finding.named(
            "stale-cache",
            f"after another prompt the same x gives an output that is up to {apart:.4f} off",
            _cache_line(examination, _second_run(examination)),
        )


def _second_run(examination: Examination) -> Trace:
    """The trace of a run that follows another one."""
    patient = examination.patient
    code = patient.copy(torch.float64)
    patient.run(examination.x.flip(1) * 0.5 + 0.25, code)
    return patient.trace(examination.x, code)[0]


def _cache_line(examination: Examination, trace: Trace | None = None) -> str | None:
    """Where new keys are put into the cache or joined to the old ones."""
    anatomy = examination.anatomy
    kept = [op for op in (trace or examination.trace).operations if op.name in JOINS]
    if trace is not None:  # of a later run: what joins something that was there before
        old = [op for op in kept if any(v.made_by is None and v is not trace.x for v in op.inputs)]
        return (old or kept)[0].where if kept else None
    if anatomy is not None:
        kept = [op for op in kept if any((anatomy.sources[v.number] != NOTHING).any() for v in op.inputs)] or kept
        apart = [op for op in kept if op.name == "cat" and _other_tokens(anatomy, op)]
        kept = apart or [op for op in kept if op.name != "cat"] or kept
    return kept[0].where if kept else None


JOINS = ("copy_", "index_copy_", "index_put_", "cat", "scatter_", "stack")


def _other_tokens(anatomy: Anatomy, operation: Operation) -> bool:
    """Whether an operation joins numbers of different tokens."""
    held = [set(anatomy.single(v).flatten().tolist()) for v in operation.inputs]
    return len(held) > 1 and not set.intersection(*held)


def check_cache(examination: Examination) -> Iterator[Finding]:
    """In a run in pieces, every earlier token must be met, once."""
    from .visibility import seen_pattern

    anatomy = examination.anatomy
    if not in_pieces(anatomy) or not examination.causal:
        return
    met: dict[tuple[int, int], set[int]] = {}
    double = None
    strange = None
    for row in anatomy.rows:
        held = met.setdefault((row.head, row.query), set())
        held.update(row.keys)
        known = [key for key in row.keys if key >= 0]
        if len(known) != len(set(known)):
            double = row
        if any(key == MANY for key in row.keys):
            strange = row
        if row.score_keys != row.keys or row.blanks:
            strange = row
    seen = seen_pattern(examination)
    for (head, query), keys in sorted(met.items()):
        absent = [key for key in range(query + 1) if key not in keys]
        if absent and not all(seen[0, head, query, key] for key in absent):
            yield Finding.named(
                "stale-cache",
                f"query {query} does not meet the keys of the tokens {absent}",
                _cache_line(examination),
            )
            return
    row = double or strange
    wrong = not torch.equal(seen, examination.expected)
    if row is None and wrong:
        row = next((r for r in anatomy.rows if r.keys != sorted(r.keys)), None)
    if row is not None:
        yield Finding.named(
            "stale-cache",
            f"query {row.query} meets the keys of the tokens {row.score_keys} and the values of {row.keys}",
            _cache_line(examination),
        )


def check_sizes(examination: Examination) -> Iterator[Finding]:
    """Other numbers of tokens and samples must work; a longest length is nobody's mistake."""
    if not examination.free:
        return
    patient, x = examination.patient, examination.x
    failed = other_sizes(patient, x)
    for name, mistake in (("tokens", "fixed-length"), ("samples", "fixed-batch")):
        if name in failed:
            words, line = failed[name]
            yield Finding.named(mistake, words, _fixing(examination, name) or of_loop(line, _last(examination)) or line)


def _last(examination: Examination) -> Operation | None:
    return examination.trace.operations[-1] if examination.trace.operations else None


def _fixing(examination: Examination, name: str) -> str | None:
    """The first operation that has the old number of samples or tokens in a run with another one."""
    patient, x = examination.patient, examination.x
    axis = ("samples", "tokens").index(name)
    old = x.shape[axis]
    for new in (old - 1, old + 1, 1):
        if new < 1 or new == old:
            continue
        other = torch.cat([x, x.flip(axis)], dim=axis).narrow(axis, 0, new)
        trace, _ = patient.trace(other)
        known = trace.of_x()
        for operation in trace.operations:
            if not operation.outputs or operation.number not in known:
                continue
            shapes = [tuple(v.tensor.shape) for v in operation.inputs if v.made_by in known or v is trace.x]
            out = tuple(operation.outputs[0].tensor.shape)
            if shapes and len(out) > 2 and axis == 0 and out[0] == old and all(s and s[0] == new for s in shapes):
                return operation.where
    return None


def check_dtypes(examination: Examination) -> Iterator[Finding]:
    """Each dtype must come out as it went in, in its own precision."""
    patient, x = examination.patient, examination.x
    if not isinstance(patient.original, nn.Module):
        dtypes = ()
    else:
        dtypes = (torch.bfloat16, torch.float64)
    for dtype in dtypes:
        try:
            output = patient.run(x.to(dtype), patient.copy(dtype))
        except PatientFailed as failure:
            words = str(failure)
            if not re.search(r"dtype|type|Half|BFloat16|Double|Float", words) or "not implemented" in words:
                continue
            line = _pinned(examination, dtype) or failure.line
            yield Finding.named("dtype-pinned", f"with {dtype}: {words}", line)
            return
        if output.dtype != dtype:
            yield Finding.named(
                "dtype-pinned", f"the output is {output.dtype} for an input of {dtype}", _pinned(examination, dtype)
            )
            return
    rough = _rough(examination)
    if rough is not None:
        yield rough


def _pinned(examination: Examination, dtype: torch.dtype) -> str | None:
    """The line that makes or casts a tensor to another dtype and lets it meet the tokens."""
    patient = examination.patient
    code = patient.copy(dtype)
    trace, _ = patient.trace(examination.x.to(dtype), code)
    for operation in trace.operations:
        floats = [v for v in operation.inputs if v.tensor.is_floating_point()]
        out = [v for v in operation.outputs if v.tensor.is_floating_point()]
        if not out or out[0].tensor.dtype == dtype:
            continue
        if any(v.tensor.dtype == dtype for v in floats):
            others = [v for v in floats if v.tensor.dtype != dtype and v.made_by is not None]
            if others:
                first = trace.operations[others[0].made_by]
                return _made_where(trace, first) or operation.where
            return operation.where
    odd = [
        op
        for op in trace.operations
        if op.outputs and op.outputs[0].tensor.is_floating_point() and op.outputs[0].tensor.dtype != dtype and op.where
    ]
    return odd[0].where if odd else None


def _made_where(trace, operation: Operation) -> str | None:
    """Back through what only changes it to where a constant was made."""
    while True:
        floats = [v for v in operation.inputs if v.tensor.is_floating_point() and v.made_by is not None]
        if not floats or floats[0].tensor.dtype != operation.outputs[0].tensor.dtype:
            return operation.where
        operation = trace.operations[floats[0].made_by]


def _rough(examination: Examination) -> Finding | None:
    """In 64 bits, numbers that were rounded to 32 on the way; a softmax in 32 bits that is cast back is right."""
    trace, alive = examination.trace, examination.alive
    if examination.x.dtype != torch.float64:
        return None
    soft = {op.number for op in softmaxes(examination)} if examination.anatomy and examination.anatomy.mixes else set()
    for operation in trace.operations:
        if operation.number not in alive or not operation.outputs or not operation.inputs:
            continue
        out = operation.outputs[0].tensor
        source = operation.inputs[0].tensor
        if (
            operation.name == "_to_copy"
            and source.dtype == torch.float64
            and out.dtype in (torch.float32, torch.float16, torch.bfloat16)
        ):
            after = trace.below({operation.number})
            before_softmax = any(n in after for n in soft)
            products = [
                c for c in (examination.anatomy.products if examination.anatomy else []) if c.operation.number in after
            ]
            near = any(c.out.tensor.dtype == out.dtype for c in products)
            if before_softmax and not near:
                continue
            if not examination.anatomy or not examination.anatomy.tokens[operation.inputs[0].number].any():
                continue
            return Finding.named(
                "dtype-pinned",
                f"in a run in 64 bits {tuple(out.shape)} numbers are rounded to {out.dtype}",
                operation.where,
            )
    for operation in trace.operations:
        if operation.number not in alive or operation.name not in (
            "mul",
            "div",
            "mul_",
            "div_",
            "add",
            "add_",
            "sub",
            "where",
        ):
            continue
        wide = [v for v in operation.inputs if v.tensor.dtype == torch.float64]
        narrow = [v for v in operation.inputs if v.tensor.dtype == torch.float32]
        for value in narrow:
            back = value.tensor.double()
            exact = (
                back.isinf() | (back == back.round()) | ((back * 1024) == (back * 1024).round()) | (back.abs() > 1e6)
            )
            if wide and not exact.all() and value.made_by is not None:
                return Finding.named(
                    "dtype-pinned",
                    f"a number of {value.tensor.dtype}, {float(back.flatten()[0]):.9f}, meets numbers of 64 bits",
                    _made_where(trace, trace.operations[value.made_by]) or operation.where,
                )
    return None


def check_half(examination: Examination) -> Iterator[Finding]:
    """In the dtype it was given, the output must be finite where it is finite in 64 bits."""
    patient, x = examination.patient, examination.given
    original = patient.original
    dtype = x.dtype
    if isinstance(original, nn.Module):
        dtype = next((p.dtype for p in original.parameters()), x.dtype)
    exact = examination.trace.output.tensor if examination.trace.output is not None else None
    try:
        rough = patient.run(x.to(dtype), patient.copy(dtype) if isinstance(original, nn.Module) else None)
        full = patient.run(x.double()) if exact is None or exact.shape[:2] != x.shape[:2] else exact
    except PatientFailed:
        return
    halves = [op for op in examination.trace.operations if op.outputs and op.outputs[0].tensor.dtype == torch.float16]
    if full.isfinite().all() and rough.isfinite().all():
        return
    if rough.isfinite().all() or (not full.isfinite().all() and not halves and dtype != torch.float16):
        return
    code = patient.copy(dtype) if isinstance(original, nn.Module) else None
    trace, _ = patient.trace(x.to(dtype), code)
    for operation in trace.operations:
        out = operation.outputs[0].tensor if operation.outputs else None
        if out is None or not out.is_floating_point() or out.dtype != torch.float16 or not operation.inputs:
            continue
        grown = out.isinf() | out.isnan()
        products = operation.name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "sum", "mul", "linear")
        if (
            grown.any()
            and products
            and not any(v.tensor.isinf().any() for v in operation.inputs if v.tensor.is_floating_point())
        ):
            yield Finding.named(
                "overflow-half",
                f"a product of queries and keys grows beyond 65504 in {out.dtype}; "
                f"{int((~rough.isfinite()).sum())} of {rough.numel()} numbers of the output are not finite",
                operation.where,
            )
            return


class _Dropped(TorchFunctionMode):
    """Turns every dropout into one that multiplies by 1 and notes what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func in (F.dropout, torch.dropout, F.alpha_dropout, F.dropout1d, F.dropout2d):
            self.given.append(args[0] if args else kwargs["input"])
            return self.given[-1] * 1.0
        return func(*args, **kwargs)


def check_dropout_place(examination: Examination) -> Iterator[Finding]:
    """In training, dropout must come after softmax."""
    patient = examination.patient
    if not isinstance(patient.original, nn.Module):
        return
    code = patient.copy(torch.float64, training=True)
    dropped = _Dropped()

    def run(x: Tensor) -> Any:
        with dropped:
            return patient.call(code, x)

    trace, result = write_down(run, examination.x, patient.examiner)
    if isinstance(result, Exception) or trace.output is None or not dropped.given:
        return
    trained = Examination(
        patient, examination.given, examination.x, examination.causal, examination.num_heads,
        examination.num_kv_heads, examination.keep, trace, result, examination.free,
    )  # fmt: skip
    if trained.anatomy is None or not trained.anatomy.meetings or not trained.anatomy.mixes:
        return
    soft = softmaxes(trained)
    if not soft:
        return
    meeting = min(m.operation.number for m in trained.anatomy.meetings)
    way = trace.ancestors([soft[0].inputs[0]])
    for operation in trace.operations:
        ones = operation.name == "mul" and len(operation.inputs) <= 2 and 1.0 in operation.args[1:]
        scored = (
            (trained.anatomy.score_labels[operation.outputs[0].number] != NOTHING).any() if operation.outputs else False
        )
        if ones and operation.number > meeting and operation.number in way and scored:
            yield Finding.named(
                "dropout-before-softmax",
                "in training, dropout is given scores; softmax comes after it",
                operation.where,
            )
            return


# -- positions --


def check_rotary(examination: Examination) -> Iterator[Finding]:
    """Tables of cosines must reach queries and keys, and must not reach the values."""
    anatomy, trace, alive = examination.anatomy, examination.trace, examination.alive
    trig = [op for op in trace.operations if op.name in ("cos", "sin", "polar", "cos_", "sin_")]
    queries_or_keys = [v for meeting in anatomy.meetings for v, _ in meeting.sides()]
    used = trace.ancestors(queries_or_keys)
    code = examination.patient.code
    tables = _tables(code)
    read = {v.storage for v in trace.values if v.made_by is None for op in [None]}
    met = {v.storage for op in trace.operations if op.number in alive for v in op.inputs}
    unread = [name for name, storage in tables if storage not in met]
    if trig and not any(op.number in alive for op in trig):
        yield Finding.named(
            "rotary-unused", "cosines and sines are computed and nothing reads them", _unturned(examination, trig)
        )
    elif tables and len(unread) == len(tables):
        yield Finding.named(
            "rotary-unused",
            f"`{unread[0]}` is prepared and never changes the output",
            _unturned(examination, _readers(examination, unread)) or of_attribute(code, unread[0].split(".")[0]),
        )
    elif not trig and not tables:
        idle = _idle_rotary(examination)
        if idle is not None:
            yield Finding.named("rotary-unused", f"`{idle}` is never called", of_attribute(code, idle.split(".")[-1]))
    _ = used, read
    yield from _turned_values(examination)


def _tables(code: Any) -> list[tuple[str, int]]:
    """Buffers and attributes that hold cosines, frequencies or positions."""
    found = []
    if not isinstance(code, nn.Module):
        return found
    for prefix, module in code.named_modules():
        own = dict(module.named_buffers(recurse=False)) | {
            k: v for k, v in vars(module).items() if isinstance(v, Tensor)
        }
        for name, tensor in own.items():
            if (
                re.search(r"cos|sin|freq|rot|rope|theta|angle|phase|cis", name, re.I)
                and tensor.is_floating_point() | tensor.is_complex()
            ):
                found.append((f"{prefix}.{name}" if prefix else name, tensor.untyped_storage()._cdata))
    return found


def _unturned(examination: Examination, start: list[Operation]) -> str | None:
    """The statement whose turned result is thrown away, or the line where queries and keys meet unturned."""
    trace, anatomy = examination.trace, examination.anatomy
    meeting = anatomy.meetings[0].operation
    dead = trace.below({op.number for op in start}) - examination.alive
    turned = [n for n in sorted(dead) if (anatomy.sources[trace.operations[n].outputs[0].number] != NOTHING).any()]
    if turned:
        place = trace.operations[turned[-1]].outermost
        if not any(place.names):
            return line_at(place)
    return meeting.where


def _readers(examination: Examination, names: list[str]) -> list[Operation]:
    storages = {storage for name, storage in _tables(examination.patient.code) if name in names}
    return [op for op in examination.trace.operations if any(v.storage in storages for v in op.inputs)]


def _idle_rotary(examination: Examination) -> str | None:
    code = examination.patient.code
    if not isinstance(code, nn.Module):
        return None
    for name, module in code.named_modules():
        if name and re.search(r"rot(ary)?|rope", name + type(module).__name__, re.I):
            return name
    return None


def _turned_values(examination: Examination) -> Iterator[Finding]:
    """With the same token everywhere, values must be the same everywhere."""
    anatomy, trace = examination.anatomy, examination.trace
    same = examination.x[:, :1].expand_as(examination.x).contiguous()
    seen = trace.replay(same)

    def moves(value, which_tokens) -> float:
        tokens = anatomy.single(value)
        sources, samples = anatomy.sources[value.number], anatomy.samples[value.number]
        if (tokens < 0).any() or (sources == NOTHING).any():
            return 0.0
        keys = (samples * 100_003 + sources).flatten()
        groups = torch.unique(keys, return_inverse=True)[1]
        numbers = seen[value.number].double().flatten()
        count = int(groups.max()) + 1
        low = torch.full((count,), torch.inf, dtype=torch.float64).scatter_reduce(0, groups, numbers, "amin")
        high = torch.full((count,), -torch.inf, dtype=torch.float64).scatter_reduce(0, groups, numbers, "amax")
        return float((high - low).max())

    from ..anatomy import share_side

    for mix in anatomy.mixes:
        value = mix.sides()[1 - share_side(anatomy, mix)][0]
        projected = [
            p.out
            for p in anatomy.projections
            if set(anatomy.sources[value.number].flatten().tolist())
            & set(anatomy.sources[p.out.number].flatten().tolist())
        ]
        apart = moves(value, None)
        if apart > 1e-6 and projected and all(moves(p, None) < 1e-9 for p in projected):
            way = trace.ancestors([value])
            turned = [
                op
                for op in trace.operations
                if op.number in way
                and op.name in ("mul", "view_as_complex", "bmm", "mm")
                and op.number > projected[0].made_by
                and moves(op.outputs[0], None) > 1e-6
            ]
            yield Finding.named(
                "rotary-on-values",
                f"with the same token everywhere, the values differ from place to place by up to {apart:.4f}",
                line_at(turned[0].place_in(mix.operation.code)) if turned else None,
            )
            return


# -- rows that see nothing --


def check_hidden_rows(examination: Examination) -> Iterator[Finding]:
    """A token that may look at nothing must give finite numbers."""
    output = examination.trace.output.tensor
    if examination.keep is None or not output.isnan().any():
        return
    from ..examination import expected_keep

    batch, num_tokens = examination.x.shape[:2]
    expected = expected_keep(examination.causal, examination.keep, batch, 1, num_tokens)[:, 0]
    blind = ~expected.any(-1)  # (batch, query)
    rows = output.isnan().any(-1)
    if not (rows & blind).any() or (rows & ~blind).any():
        return
    sample, query = (rows & blind).nonzero()[0].tolist()
    first = examination.first(
        lambda op: (
            bool(op.outputs)
            and op.outputs[0].tensor.is_floating_point()
            and bool(op.outputs[0].tensor.isnan().any())
            and not any(v.tensor.is_floating_point() and v.tensor.isnan().any() for v in op.inputs)
        )
    )
    yield Finding.named(
        "nan-on-hidden-rows",
        f"query {query} of sample {sample} may look at nothing and becomes nan; "
        f"{int(rows.sum())} of {rows.numel()} rows are nan",
        first.where if first else None,
    )
