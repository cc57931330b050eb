"""Explain code that could not be measured by its error, its result, its products, or its inputs and outputs alone."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from traceback import walk_tb

import torch
from torch import nn

from course_lib.calling import part_to_take
from course_lib.diagnosis.finding import FOREIGN_KEYS, GIVE_CONTEXT, Finding, error_message
from course_lib.diagnosis.locate import locate_attribute, locate_missing_return, locate_pinned, returns_in
from course_lib.diagnosis.measure import (
    CACHE,
    SOFTMAXES,
    Dependence,
    FailedRun,
    NoStructure,
    Run,
    RunWithoutTensor,
    UntraceableRun,
    asks_for_gpu,
    context_argument,
    influence,
)
from course_lib.diagnosis.measure.score_products import find_score_products
from course_lib.diagnosis.registry import rule
from course_lib.diagnosis.rules.dtypes import is_of_call, tensors_of_call
from course_lib.tracing import (
    FACTORS,
    SourceLine,
    Value,
    contractions,
    last_line,
    set_in_script,
    source_of,
    statement_of,
    tensors_in,
)

DTYPE = re.compile(r"expected scalar type|same dtype")
WIDTH = re.compile(r"shapes cannot be multiplied|size mismatch|must match")
DEVICE = re.compile(r"(\w*_)?dev(ice)?")
BAD_CALL = re.compile(r"missing|positional argument|unexpected keyword|takes \d")
NOT_GIVEN = re.compile(r"NoneType|must (be )?(provide|specif|give|pass)|is required|should be provided|be None", re.I)
REMEDY = "let `call` make that from x, such as lambda module, x: module(x, context=x.flip(1))"
IDS = 'such as `x=torch.randint(20, (2, 9))` or `--x "torch.randint(20, (2, 9))"`'


@rule()
def check_failure(failed: FailedRun) -> Iterator[Finding]:
    """Whether the code runs."""
    error, subject, evidence, line = failed.error, failed.subject, error_message(failed.error), last_line(failed.error)
    projection = _broken_projection(failed)
    if subject.runs_in(subject.dtype(failed.given), failed.given):
        yield _of_float64(failed, evidence)
    elif "same device" in evidence:
        yield Finding.named("device-pinned", evidence, line)
    elif asks_for_gpu(error) and (method := _with_own_device(failed)):
        evidence += f"; let `call` give `{method}` the device of x"
        yield Finding.unseen("`call` lets it put a tensor on a GPU", evidence, line)
    elif asks_for_gpu(error):
        found = Finding.named("device-pinned", f"{evidence}; make the device that of x, or an argument", line)
        yield replace(found, title="A tensor is put on a GPU wherever the input is.")
    elif DTYPE.search(evidence):
        yield _of_call(failed, evidence, line) or Finding.named("dtype-pinned", evidence, line)
    elif projection is not None:
        where = locate_attribute(subject, projection, "Linear") or line
        yield Finding.named("output-projection-shape", evidence, where)
    elif "NoneType" in evidence and (last := _last_line_without_return(failed)):
        yield Finding.named("returns-none", f"a module inside it gave back None: {evidence}", last)
    else:
        yield Finding.of_error(error, _remedy(failed))


def _last_line_without_return(failed: FailedRun) -> SourceLine | None:
    """Return the last line of the `forward` that ended last before the error, if it gives nothing back."""
    raising = {frame.f_code: line for frame, line in walk_tb(failed.error.__traceback__)}
    own = [operation for operation in failed.trace.operations if operation.where]
    frames = own[-1].frames[::-1] if own else ()
    # a line behind the one that raises ran in an earlier call, as of the block before
    ended = [one[0] for one in frames if one[0] not in raising or statement_of(*one).line > raising[one[0]]]
    source = source_of(ended[0]) if ended and ended[0].co_name == "forward" else None
    if source is None or any(node.value is not None for node in returns_in(source)):
        return None
    return locate_missing_return(own[-1])


def _with_own_device(failed: FailedRun) -> str | None:
    """Return the method, other than `forward`, that `call` could have given a device; None if that is not at fault."""
    frames = [frame.f_code for frame, _ in walk_tb(failed.error.__traceback__)]
    called = frames[frames.index(failed.subject.caller) + 1 :] if failed.subject.caller in frames else []
    for code in called[:1]:
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return code.co_name if code.co_name != "forward" and any(map(DEVICE.fullmatch, names)) else None
    return None


def _of_float64(failed: FailedRun, evidence: str) -> Finding:
    """Return the finding for code that runs in its own dtype, but not in float64, in which everything is measured."""
    evidence, where = f"in float64: {evidence}", locate_pinned(failed, torch.float64) or last_line(failed.error)
    if found := _of_call(failed, evidence, where):
        return found
    if failed.subject.runs_in(torch.bfloat16, failed.given):
        return Finding.unseen("it runs in its own dtype and not in float64", evidence, where)
    return Finding.named("dtype-pinned", evidence, where)


def _of_call(failed: FailedRun, evidence: str, where: SourceLine | None) -> Finding | None:
    """Return the finding for code to which `call` gives a tensor of another dtype; None if that is not so."""
    given = tensors_of_call(failed.subject)
    narrow = any(one.is_floating_point() and one.dtype != failed.x.dtype for one in given)
    if not narrow and not is_of_call(failed, where):
        return None
    dtype = "next(m.parameters()).dtype" if failed.subject.makes_x else "x.dtype"
    remedy = f"let `call` make it with dtype={dtype}"
    return Finding.unseen("`call` makes a tensor of another dtype", f"{evidence}; {remedy}", where)


def _broken_projection(failed: FailedRun) -> str | None:
    """Return the attribute of the output projection if the run failed on a width after the weights were computed."""
    softmax = any("softmax" in operation.name for operation in failed.trace.operations)
    linears = [name for name, module in failed.subject.modules.items() if isinstance(module, nn.Linear)]
    if not softmax or not linears or not WIDTH.search(error_message(failed.error)):
        return None
    return next((part for part in reversed(linears[-1].split(".")) if not part.isdigit()), None)


def _remedy(failed: FailedRun) -> str:
    """Return what to do about an error, as the end of a clause; "" if nothing is known."""
    message = error_message(failed.error)
    if remedy := set_in_script(failed.error):
        return f"; {remedy}"
    if "indices" in message and "Long" in message:
        return f"; it takes token ids: give the attention inside it, which takes embeddings, or ids, {IDS}"
    if failed.options.has_call or not _lacks_arguments(failed, message):
        return ""
    if inspect.isclass(failed.subject.original):
        return "; it is a class: give an instance of it"
    cached = any(CACHE.fullmatch(name) for name in re.findall(r"'(\w+)'", message))
    return "; give `call`, a function of (code, x), to say how to run it" + ", with a new cache each time" * cached


def _lacks_arguments(failed: FailedRun, message: str) -> bool:
    """Return whether code was called with too little, or otherwise than it wants to be."""
    if NOT_GIVEN.search(message):
        return True
    return isinstance(failed.error, TypeError) and last_line(failed.error) is None and bool(BAD_CALL.search(message))


@rule()
def check_result(run: RunWithoutTensor) -> Iterator[Finding]:
    """Whether the output is a tensor."""
    own = [operation for operation in run.trace.operations if operation.where]
    if run.result is None:
        yield Finding.named("returns-none", "it gave back None", locate_missing_return(own[-1]) if own else None)
        return
    made = f"it gave back {type(run.result).__name__}"
    if run.options.gives_call:
        yield Finding.unseen("`call` gave back no tensor", f"{made}; {_output_of_call(run)}")
        return
    evidence, where = f"{made}; give `call` to say what of it is the output", own[-1].where if own else None
    if next(tensors_in(run.result), None) is None:
        yield Finding.unnamed("its output is not a tensor", evidence, where)
    else:
        yield Finding.unseen("which of its tensors is the output is not known", evidence, where)


def _output_of_call(run: RunWithoutTensor) -> str:
    """Return what `call` should give back, with an example if the output may be a part of what it gave back."""
    given = ", ".join(["x", "context"][: 2 if run.options.num_context else 1])
    part = part_to_take(run.result)
    example = f", such as `call=lambda a, {given}: a({given}){part}`" if part else ""
    return f"let `call` return the output, a tensor{example}"


@rule()
def check_shape(run: Run) -> Iterator[Finding]:
    """The shape of the output."""
    given, got = tuple(run.x.shape), tuple(run.output.tensor.shape)
    fewer = len(got) == 3 and got[0] == given[0] and got[1] != given[1]
    latents = (latents_of(run, got[1]) or _learned_queries(run)) if fewer else None
    if latents is not None:
        yield latents
    elif len(got) != 3 or got[:2] != given[:2]:
        evidence = f"for an input of {given} it gave {got}; (batch, token, width) was expected"
        if fewer and run.options.has_grid and got[1] < given[1]:
            yield Finding.unseen("its output is a smaller grid, as of pooled queries", evidence)
        elif run.is_pooled or (fewer and got[1] == 1):
            yield Finding.unseen("its output is one row for all tokens of a sample", evidence)
        else:
            yield Finding.unnamed("there is no row of the output for each token", evidence)


@rule()
def check_keys(dependence: Dependence, missing: NoStructure) -> Iterator[Finding]:
    """Whether the keys are made from x."""
    run = missing.run
    parameters = {read.number for reads in run.parameter_reads.values() for read in reads}
    if not run.subject.is_module:
        return
    for product in contractions(run.trace):
        for (queries, _), (keys, _) in (product.sides(), product.sides()[::-1]):
            if dependence.on_input(keys) or not (dependence.token_of(queries) >= 0).all():
                continue
            context = _context_of(run, keys, parameters)
            if context is not None:
                shape = tuple(context.tensor.shape)
                evidence = f"the keys come from a tensor of the shape {shape} that is the same for every x; {REMEDY}"
                yield Finding.unseen(FOREIGN_KEYS, evidence, product.operation.where)
                return


def _context_of(run: Run, keys: Value, parameters: set[int]) -> Value | None:
    """Return the tensor other than x that the keys are projected from."""
    ancestors = [run.trace.operations[number] for number in run.trace.ancestors([keys])]
    if not any(operation.name in FACTORS for operation in ancestors):
        return None
    for value in (value for operation in ancestors for value in operation.inputs):
        given = value.made_by is None and value.number not in parameters and value is not run.trace.x
        if given and value.tensor.dim() > 1 and value.tensor.is_floating_point():
            return value
    return None


@rule()
def check_unread_weights(missing: NoStructure) -> Iterator[Finding]:
    """Whether anything reads the weights."""
    run = missing.run
    after = run.trace.descendants({one.operation.number for one in find_score_products(run.trace)})
    softmaxes = [one for one in run.in_order(after) if one.name in SOFTMAXES]
    if softmaxes and run.live.isdisjoint(after) and run.returned.isdisjoint(after):
        last = max(after)
        instead = next((one for one in run.live_operations if one.number > last and one.where), softmaxes[-1])
        yield Finding.named("weights-not-applied", "no line reads the weights that softmax makes", instead.where)


@rule()
def check_queries(missing: NoStructure) -> Iterator[Finding]:
    """Whether queries and keys are made from the tokens of x."""
    run = missing.run
    latents = latents_of(run, run.x.shape[1])
    if latents is not None:
        yield latents
    elif run.options.has_call and not run.options.num_context and context_argument(run.subject.original):
        yield Finding.unseen(FOREIGN_KEYS, f"{missing.reason}; {GIVE_CONTEXT}")


def latents_of(run: Run, count: int) -> Finding | None:
    """Return the finding for code whose queries are a parameter of `count` rows; None if there is none."""
    for name, reads in run.parameter_reads.items():
        shape = tuple(reads[0].tensor.shape)
        if len(shape) > 1 and shape[-2] == count and not name.endswith("weight"):
            evidence = f"`{name}` has the shape {shape}; {GIVE_CONTEXT}, with the queries as x"
            return Finding.unseen(f"its queries are not made from x, but from `{name}`", evidence)
    return None


def _learned_queries(run: Run) -> Finding | None:
    """Return the finding for code that compares a parameter with x, and then applies softmax; None without."""
    reads, from_input = run.parameter_names, run.trace.descendants_of_input()
    for softmax in (one for one in run.live_operations if one.name in SOFTMAXES):
        before = run.trace.ancestors(softmax.inputs[:1])
        product = next((one for one in contractions(run.trace)[::-1] if one.operation.number in before), None)
        for value, _ in product.sides() if product else ():
            made = run.in_order(run.trace.ancestors([value]))
            sources = (one for operation in made for one in operation.inputs if one.storage in reads)
            source = next(sources, value if value.storage in reads else None)
            name = "" if source is None else reads[source.storage]
            if name and not name.endswith("weight") and from_input.isdisjoint(one.number for one in made):
                why = f"its queries are not made from x, but from `{name}`"
                return Finding.unseen(why, "no row of the output belongs to a token of x", softmax.where)
    return None


@rule()
def check_recognised(missing: NoStructure) -> Iterator[Finding]:
    """Whether queries and keys can be found."""
    yield Finding.unseen("its queries and keys can't be found", missing.reason)


@rule()
def check_influence(run: UntraceableRun) -> Iterator[Finding]:
    """Which tokens affect the output of each token."""
    seen = influence(run.subject, run.x) > 1e-9  # (token of the output, token of the input)
    batch, num_tokens, _ = run.x.shape
    expected = run.options.expected_keep(batch, 1, num_tokens)[:, 0].any(0)
    stray = (seen & ~expected & ~torch.eye(num_tokens, dtype=torch.bool)).nonzero()
    if len(stray):
        token, other = stray[0].tolist()
        evidence = f"the output of token {token} moves when token {other} changes"
        if run.options.causal and seen.all():
            yield Finding.named("no-causal-mask", evidence)
        else:
            yield Finding.unnamed("hidden tokens are seen", evidence)


@rule()
def check_influence_of_samples(run: UntraceableRun) -> Iterator[Finding]:
    """Whether samples affect each other."""
    if len(run.x) > 1:
        mixed = influence(run.subject, run.x, axis=0) > 1e-9
        mixed.fill_diagonal_(False)
        if mixed.any():
            sample, other = mixed.nonzero()[0].tolist()
            yield Finding.named("batch-mixed", f"the output of sample {sample} changes when sample {other} changes")
