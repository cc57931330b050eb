"""Mistakes at the way out: heads averaged, the projection forgotten, weights that mix nothing, samples that meet."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch
from torch import nn

from ..anatomy import single
from ..examination import Examination
from ..labels import LAYOUT, REDUCTIONS
from ..lines import of_attribute, of_return
from ..report import Finding
from ..trace import Operation
from .heads import OUT, role_of
from .pipeline import SOFTMAXES


def check_averaged(examination: Examination) -> Iterator[Finding]:
    """The output must react differently to the same change in different heads."""
    flow, anatomy = examination.flow, examination.anatomy
    if flow.same_for_heads is None or flow.same_for_heads > 1e-9 or not flow.reached.all():
        return
    after = examination.trace.below({mix.operation.number for mix in anatomy.mixes})
    sums = [
        op
        for op in examination.trace.operations
        if op.number in after
        and op.number in examination.alive
        and (op.name in ("mean", "sum", "add", "add_"))
        and op.number > min(mix.operation.number for mix in anatomy.mixes)
    ]
    reductions = [op for op in sums if op.name in REDUCTIONS] or sums
    yield Finding.named(
        "heads-averaged",
        f"the same change in each of {anatomy.num_heads} heads moves the output by the same numbers "
        f"(apart by {flow.same_for_heads:.1e})",
        reductions[0].where if reductions else None,
    )


def check_output_projection(examination: Examination) -> Iterator[Finding]:
    """A matrix that could be the output projection must be read."""
    anatomy = examination.anatomy
    width = len({row.head for row in anatomy.rows}) * len(anatomy.rows[0].outs) if anatomy.rows else None
    for name in examination.dead:
        shape = tuple(examination.parameters[name].shape)
        if role_of(name.split(".")[-2] if "." in name else name) and not OUT.search(name):
            continue
        if width is not None and width not in shape and not OUT.search(name):
            continue
        if examination.flow is not None and examination.flow.finished and not OUT.search(name):
            continue
        last = _last_own(examination)
        yield Finding.named(
            "output-projection-missing",
            f"`{name}` {shape} does not change the output",
            of_return(last) if last else None,
        )
        return


def _last_own(examination: Examination) -> Operation | None:
    own = [op for op in examination.trace.operations if op.code is not None and op.number in examination.alive]
    return own[-1] if own else None


def check_output_width(examination: Examination) -> Iterator[Finding]:
    """Where the code says which width it gives, it must give that width."""
    code, output = examination.patient.code, examination.trace.output
    if not isinstance(code, nn.Module) or output is None:
        return
    d_in = examination.x.shape[-1]
    said = _said_width(code)
    if said is None or output.tensor.shape[-1] == said or output.tensor.shape[-1] != d_in or said == d_in:
        return
    name = _last_linear(examination)
    yield Finding.named(
        "output-projection-shape",
        f"its tokens come out {output.tensor.shape[-1]} wide, as they came in, and d_out is {said}",
        (of_attribute(code, name) if name else None),
    )


def _said_width(code: nn.Module) -> int | None:
    """The value of d_out, dim_out, out_features …, as the module keeps it or as its other matrices show."""
    for name in (
        "d_out",
        "dim_out",
        "out_dim",
        "out_features",
        "dim_o",
        "output_dim",
        "d_output",
        "n_out",
        "out_channels",
    ):
        value = getattr(code, name, None)
        if isinstance(value, int):
            return value
    try:
        names = list(inspect.signature(type(code).__init__).parameters)
    except (TypeError, ValueError):
        return None
    if not any("out" in name and name not in ("dropout", "out_proj", "attn_dropout") for name in names):
        return None
    widths = {
        module.out_features
        for name, module in code.named_modules()
        if isinstance(module, nn.Linear) and role_of(name.split(".")[-1])
    }
    inputs = {
        m.in_features for n, m in code.named_modules() if isinstance(m, nn.Linear) and not role_of(n.split(".")[-1])
    }
    both = widths & inputs
    heads = [n for n in names if "head_dim" in n or "inner" in n or "d_k" in n or "hidden" in n]
    return both.pop() if len(both) == 1 and not heads else None


def _last_linear(examination: Examination) -> str | None:
    code = examination.patient.code
    names = [name for name, module in code.named_modules() if isinstance(module, nn.Linear)]
    return names[-1].split(".")[-1] if names else None


def check_applied(examination: Examination) -> Iterator[Finding]:
    """Scores that never meet the values."""
    anatomy = examination.anatomy
    if anatomy.mixes and any(mix.operation.number in examination.alive for mix in anatomy.mixes):
        return
    if any(op.number in examination.alive for op in (m.operation for m in anatomy.meetings)):
        return
    last = [op for op in examination.trace.operations if op.number not in examination.alive and op.name in SOFTMAXES]
    after = last[-1].number if last else anatomy.meetings[-1].operation.number
    own = [
        op for op in examination.trace.operations if op.number > after and op.number in examination.alive and op.where
    ]
    own = [op for op in own if op.where != (last[-1].where if last else None)] or own
    yield Finding.named(
        "weights-not-applied",
        "the output does not depend on the scores, and no token's output moves with another token",
        own[0].where if own else (last[-1].where if last else None),
    )


def check_samples(examination: Examination) -> Iterator[Finding]:
    """No sample's output may move with another sample."""
    anatomy, output = examination.anatomy, examination.trace.output
    batch = examination.x.shape[0]
    bits = anatomy.samples[output.number]
    if batch < 2 or output.tensor.dim() < 2 or output.tensor.shape[0] != batch:
        return
    own = 1 << torch.arange(batch).view(-1, *[1] * (bits.dim() - 1))
    stray = (bits & ~own) != 0
    if not stray.any():
        return
    operation = first_mixing(examination)
    where = operation.where if operation else None
    sample = int(stray.flatten(1).any(1).nonzero()[0, 0])
    others = [i for i in range(batch) if i != sample and ((bits[sample] >> i) & 1).any()]
    words = f"the output of sample {sample} moves when sample {others[0]} changes"
    if operation is not None and operation.name in SOFTMAXES:
        yield Finding.named("softmax-wrong-axis", f"softmax runs over the samples: {words}", where)
        return
    literal = _first_reshape(examination)
    if literal is not None:
        yield Finding.named("fixed-batch", f"samples are folded into tokens: {words}", literal.where)
        return
    yield Finding.named("batch-mixed", words, where)


def first_mixing(examination: Examination) -> Operation | None:
    """The first operation whose numbers depend on several samples although those it reads depend on one each."""
    anatomy = examination.anatomy
    for operation in examination.trace.operations:
        if operation.number not in examination.alive or not operation.outputs:
            continue
        if (single(anatomy.samples[operation.outputs[0].number]) < -1).any() and not any(
            (single(anatomy.samples[v.number]) < -1).any() for v in operation.inputs
        ):
            return operation
    return None


def _first_reshape(examination: Examination) -> Operation | None:
    """A view that makes one sample of several."""
    batch = examination.x.shape[0]
    for operation in examination.trace.operations:
        if operation.number in examination.alive and operation.name in ("view", "_unsafe_view") and operation.outputs:
            before, after = operation.inputs[0].tensor.shape, operation.outputs[0].tensor.shape
            if len(before) >= 3 and before[0] == batch and len(after) >= 3 and after[0] == 1 and after[1] != batch:
                return operation
    return None


_ = LAYOUT
