"""Samples must not affect each other, and other numbers of samples and tokens must work."""

import re
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial

import torch
from torch import nn

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_layout
from course_lib.diagnosis.locate import attributes_read, locate_attribute, locate_fixed_loop
from course_lib.diagnosis.measure import (
    SOFTMAXES,
    Dependence,
    FreshRuns,
    JoinedCall,
    Run,
    Structure,
    SubjectFailed,
    other_sizes,
)
from course_lib.diagnosis.measure.embedded import EmbeddedSubject
from course_lib.diagnosis.measure.run import changed
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import VIEWS, Operation, SourceLine, Trace, Value, storage_of, tensors_in

SAME = 1e-7  # relative to the largest output
LOOKUPS = ("index", "index_select", "gather", "embedding")


@rule(of=Of.BOTH)
def check_samples(dependence: Dependence) -> Iterator[Finding]:
    """Whether samples affect each other."""
    run, batch = dependence.run, dependence.sizes[0]
    bits = dependence.samples[run.output.number]
    own = 1 << torch.arange(batch).view(-1, *[1] * (bits.dim() - 1))
    stray = (bits & ~own) != 0
    if not stray.any():
        return
    mixing = _first_mixing(dependence)
    sample = int(stray.flatten(1).any(1).nonzero()[0, 0])
    other = next(i for i in range(batch) if i != sample and ((bits[sample] >> i) & 1).any())
    evidence = f"the output of sample {sample} changes when sample {other} changes"
    folding = _folding_view(dependence)
    if mixing is not None and mixing.name in SOFTMAXES:
        yield Finding.named("softmax-wrong-axis", f"softmax runs over the samples: {evidence}", mixing.where)
    elif folding is not None:
        yield Finding.named("fixed-batch", f"samples are folded into tokens: {evidence}", folding.where)
    else:
        misplaced = _locate_first(dependence, [run.output], _is_misplaced)
        where = misplaced if mixing is None else _locate_overlay(dependence, mixing) or mixing.where
        yield Finding.named("batch-mixed", evidence, where, partial(picture_of_layout, run))


@rule(of=Of.BOTH)
def check_order_of_samples(dependence: Dependence, fresh: FreshRuns) -> Iterator[Finding]:
    """Whether a sample's place in the batch matters."""
    run, options = fresh.run, fresh.run.options
    if options.has_call or options.keep is not None or options.num_context or dependence.combines_samples(run.output):
        return
    subject = copy(run.subject)
    if isinstance(subject, EmbeddedSubject):
        if len(subject.template) != len(run.x):
            return
        subject.template = subject.template.flip(0)
    trace, _ = subject.trace(run.x.flip(0))
    before, now = run.output.tensor, trace.output
    if now is None or now.tensor.shape != before.shape or len(trace.operations) != len(run.trace.operations):
        return
    apart = float((now.tensor.flip(0) - before).abs().nan_to_num(nan=0.0).max())
    if apart > SAME * float(before.abs().nan_to_num(nan=0.0).max()):
        first = next((one for one in run.live_operations if _is_of_place(dependence, one, trace)), None)
        evidence = f"in another place of the batch, with the same samples, a sample's output is up to {apart:.4f} off"
        where = first.where if first else None
        yield Finding.unnamed("a sample's output depends on its place in the batch", evidence, where)


def _is_of_place(dependence: Dependence, operation: Operation, flipped: Trace) -> bool:
    """Return whether an operation's result has other rows for the same samples in another order."""
    if not operation.outputs or not dependence.on_input(operation.outputs[0]):
        return False
    before, now = operation.outputs[0].tensor, flipped.operations[operation.number].outputs[0].tensor
    if len(before.shape) < 2 or len(before) != dependence.sizes[0] or before.shape != now.shape:
        return False
    return bool(changed(now.flip(0), before).any())


def _first_mixing(dependence: Dependence) -> Operation | None:
    """Return the first live operation that combines samples although none of its inputs does."""
    live, combines = dependence.run.live_operations, dependence.combines_samples
    return next((op for op in live if combines(op.outputs[0]) and not any(map(combines, op.inputs))), None)


def _locate_first(
    dependence: Dependence, values: list[Value], wrong: Callable[[Dependence, Value], bool]
) -> SourceLine | None:
    """Find the line from which on values, or what they are made of, have their samples in the wrong place."""
    found = [value for value in values if wrong(dependence, value)]
    while found and found[0].made_by is not None:
        operation = dependence.run.trace.operations[found[0].made_by]
        found = [value for value in operation.inputs if wrong(dependence, value)]
        if not found:
            return operation.where
    return None


def _locate_overlay(dependence: Dependence, mixing: Operation) -> SourceLine | None:
    """Find the line that put samples on a common axis before the operation that combined them."""
    run = dependence.run
    for name, value in attributes_read(mixing, run.subject):
        if isinstance(value, nn.MultiheadAttention) and not value.batch_first:
            return locate_attribute(run.subject, name)
    reordered = [value for value in mixing.inputs if _is_reordered(dependence, value)]
    reordered = reordered if len(reordered) < len(mixing.inputs) else []  # in all of them it is the layout
    overlaid = _locate_first(dependence, list(mixing.inputs), _is_astray)
    return overlaid or _locate_first(dependence, reordered, _is_reordered)


def _is_reordered(dependence: Dependence, value: Value) -> bool:
    """Return whether samples lie along one axis in another order, as after a flip."""
    samples = dependence.sample_of(value)
    axes = [axis for axis in range(samples.dim()) if (samples.diff(dim=axis) != 0).any()]
    return not (samples < 0).any() and len(axes) == 1 and bool((samples.diff(dim=axes[0]) < 0).any())


def _is_overlaid(dependence: Dependence, value: Value) -> bool:
    """Return whether samples lie along several axes, or along one that tokens lie along, too."""
    samples, tokens = dependence.sample_of(value), dependence.token_of(value)
    if (samples < 0).any():
        return False
    axes = [axis for axis in range(samples.dim()) if (samples.diff(dim=axis) != 0).any()]
    return len(axes) > 1 or any((tokens.diff(dim=axis) != 0).any() and (tokens >= 0).all() for axis in axes)


def _is_astray(dependence: Dependence, value: Value) -> bool:
    """Return whether samples lie along several axes, or the last, or another than the first, which has their number."""
    samples = dependence.sample_of(value)
    if _is_overlaid(dependence, value) or (samples < 0).any() or not samples.dim():
        return _is_overlaid(dependence, value)
    varies = [bool((samples.diff(dim=axis) != 0).any()) for axis in range(samples.dim())]
    return varies[-1] or (len(samples) == dependence.sizes[0] and not varies[0] and any(varies))


def _is_misplaced(dependence: Dependence, value: Value) -> bool:
    return _is_overlaid(dependence, value) or _is_reordered(dependence, value)


def _folding_view(dependence: Dependence) -> Operation | None:
    """Return the view that folds several samples into one."""
    batch = dependence.sizes[0]
    for operation in dependence.run.live_operations:
        if operation.name in ("view", "_unsafe_view") and re.search(r"view|reshape", operation.statement.source):
            before, after = operation.inputs[0].tensor.shape, operation.outputs[0].tensor.shape
            if len(before) >= 3 <= len(after) and before[0] == batch and after[0] == 1 and after[1] != batch:
                return operation
    return None


@rule(of=Of.WHOLE)
def check_sizes(structure: Structure, fresh: FreshRuns) -> Iterator[Finding | str]:
    """Whether other numbers of tokens and samples work."""
    run = fresh.run
    used = any(product.operation.number in run.live for product in structure.score_products)
    if run.options.keep is not None or not used:  # the size of a mask, or of weights from elsewhere, is fixed
        return
    num_context = run.options.num_context  # of the tokens of run.x
    lengths = [length + num_context for length in run.options.lengths]
    if num_context and not lengths and run.x.shape[1] - num_context == 1:
        lengths = [run.x.shape[1] + 1]
    failed = other_sizes(run.subject, run.x, lengths, num_context)
    learned = _learned_bias(structure) if "tokens" in failed and not run.options.lengths else None
    if learned is not None:
        del failed["tokens"]
        yield f"it takes {run.x.shape[1]} tokens only, because `{learned}` is a table of biases; `lengths` says so"
    if "tokens" in failed and _is_on_a_grid(structure):
        del failed["tokens"]
        yield f"{run.x.shape[1]} tokens are a grid that `call` makes, and so other numbers of tokens were not tried"
    if "tokens" in failed and _takes_equal_numbers(run):
        del failed["tokens"]
        yield "it takes as many tokens of x as of the context"
    if "samples" in failed and _has_samples_of_call(run):
        del failed["samples"]
        yield f"other numbers of samples were not tried, because `call` brings a tensor of {len(run.x)} samples"
    for name, mistake in (("tokens", "fixed-length"), ("samples", "fixed-batch")):
        if name in failed:
            evidence, line = failed[name]
            if name == "tokens" and not run.options.lengths and run.subject.is_whole:
                count = run.x.shape[1] - num_context
                evidence += f"; give `lengths=[{count}]` (--tokens {count} --lengths {count}) if it is meant"
            fixing = _locate_fixed_batch(run) if name == "samples" else _locate_fixed_length(run)
            where = fixing or locate_fixed_loop(line, run.trace.operations[-1]) or line
            yield Finding.named(mistake, evidence, where)


def _takes_equal_numbers(run: Run) -> bool:
    """Return whether the code takes one token less of x and of the context, which are equally long."""
    call, num_context = run.subject.given_call, run.options.num_context
    if not isinstance(call, JoinedCall) or num_context * 2 != run.x.shape[1] or num_context < 2:
        return False
    fewer, run_fewer = call.with_fewer_of_both()
    try:
        return run.subject.with_call(run_fewer).run(fewer.double()).shape[1] == fewer.shape[1]
    except SubjectFailed:
        return False


def _has_samples_of_call(run: Run) -> bool:
    """Return whether `call` gives the code a tensor, other than x, with a part for each sample, such as a memory."""
    if not run.options.has_call:
        return False
    modules = run.subject.code.modules() if isinstance(run.subject.code, nn.Module) else ()
    own = [tensor for module in modules for tensor in tensors_in(list(vars(module).values()))]
    storages = {storage_of(tensor) for tensor in own} | {run.trace.x.storage}
    given = (v for operation in run.live_operations for v in operation.inputs if v.made_by is None)
    return any(v.tensor.dim() > 2 and len(v.tensor) == len(run.x) and v.storage not in storages for v in given)


def _is_on_a_grid(structure: Structure) -> bool:
    """Return whether `call` splits the axis of tokens in two before it runs the code."""
    trace, num_tokens = structure.trace, structure.run.x.shape[1]
    for operation in trace.operations:
        if not operation.by(trace.caller):
            return False
        if operation.name in VIEWS and operation.inputs[0].storage == trace.x.storage:
            shape = operation.outputs[0].tensor.shape
            return len(shape) > 3 and num_tokens not in shape
    return False


def _learned_bias(structure: Structure) -> str | None:
    """Return the parameter that is a table of biases, looked up for each pair of tokens; None if none is.

    A table that is looked up by distances belongs to a window of one size; a bias that is added whole may be cut.
    """
    run, num_tokens = structure.run, structure.run.x.shape[1]
    names = {read.number: name for name, reads in run.parameter_reads.items() for read in reads}
    for operation in run.live_operations:
        if operation.name not in ("add", "add_", "baddbmm") or operation.number not in structure.score_descendants:
            continue
        for value in operation.inputs:
            fixed = not structure.dependence.on_input(value) and value.tensor.is_floating_point()
            if fixed and value.tensor.shape[-2:] == (num_tokens, num_tokens):
                before = structure.ancestors_of([value])
                read = [one.number for each in before for one in each.inputs]
                looked_up = any(one.name in LOOKUPS for one in before)
                return next((names[number] for number in read if looked_up and number in names), None)
    return None


def _locate_fixed_length(run: Run) -> SourceLine | None:
    """Find the line that makes a tensor, such as a mask, for the old number of tokens in a run with fewer of them."""
    old = run.x.shape[1] - run.options.num_context
    if run.options.num_context or old < 3:
        return None
    trace, _ = run.subject.trace(run.x[:, :-1])
    made = (one for one in trace.operations if one.outputs and not one.inputs and one.where)
    square = (one.where for one in made if one.outputs[0].tensor.shape[-2:] == (old, old))
    return next(square, None)


def _locate_fixed_batch(run: Run) -> SourceLine | None:
    """Find the first operation that keeps the old number of samples in a run with a different number."""
    old = len(run.x)
    for new in (old - 1, old + 1, 1):
        if new in (0, old):
            continue
        trace, _ = run.subject.trace(torch.cat([run.x, run.x.flip(0)])[:new])
        known = trace.descendants_of_input()
        for number in sorted(known):
            operation = trace.operations[number]
            shapes = [tuple(v.tensor.shape) for v in operation.inputs if v.made_by in known or v is trace.x]
            out = tuple(operation.outputs[0].tensor.shape) if operation.outputs else ()
            if operation.name in ("stack", "cat"):  # two keys and values, not two samples
                continue
            if shapes and len(out) > 2 and out[0] == old and all(shape and shape[0] == new for shape in shapes):
                return operation.where
    return None
