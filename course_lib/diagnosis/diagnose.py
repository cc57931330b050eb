"""The doctor runs any attention code, finds and names its mistakes, and points at their lines."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from course_lib.mistakes import MEASURED, Symptom
from course_lib.quantised import quantisation_note
from course_lib.tracing import torch_private

from . import rules
from .attention_report import AttentionReport, said_once, sentences
from .confirm import confirm
from .finding import AsExpected, Finding, Kind, error_message
from .known_patterns import add_pattern_evidence
from .locate import differing_lines
from .measure.attention import Attention
from .measure.context import JoinedCall, call_beside_ids, joined, usual_context_call
from .measure.embedded import embedded
from .measure.grid import as_row, boxes_of, groups_of, has_width_first, lays_out_grid, seen_by_each, smaller_grid
from .measure.mask_input import measure
from .measure.options import Options
from .measure.reference import differing_from_reference
from .measure.run import Attempt, Run, UntraceableRun
from .measure.score_products import find_score_products
from .measure.stages import Stages
from .measure.subject import Subject
from .patches import patches_of
from .pieces import examine_pieces
from .precedence import root_causes
from .registry import Rule, apply, collect
from .report import Report
from .several import ONE_TOKEN, examine_each, examine_other_rows, examine_parts, examine_rows, examine_whole
from .shared import Shared
from .tokens_first import add_way_out
from .validation import (
    are_beside,
    check_arguments,
    check_expected,
    check_intentions,
    check_size,
    check_words,
    not_embeddings,
)
from .without_x import add_those_without_x


def diagnose(
    module_or_function: Callable[..., Any],
    x: Tensor,
    *,
    causal: bool = True,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    keep: Tensor | None = None,
    call: Callable[[Any, Tensor], Any] | None = None,
    words: Sequence[object] | None = None,
    context: Tensor | None = None,
    scale: float | None = None,
    window: int | None = None,
    lengths: Sequence[int] | None = None,
    normalised: bool = True,
    expect: Callable[..., Any] | tuple[Callable[..., Any], Callable[..., Any]] | None = None,
) -> Report:
    """Find out whether code computes attention, and if not, which mistake it makes and where.

    The code is run many times, on copies and on the CPU: in float64, with one token changed, with other samples,
    sizes and dtypes, and on a fake device. Every operation is traced, and queries, keys, values and weights are
    recognised by the tokens and the columns of weights that they depend on, so the style of the code does not matter.

    Args:
        module_or_function: a module, or a function of x.
        x: (batch, token, d_in), or (token, d_in); a few tokens of a small width will do. For a model with an
            nn.Embedding, or a module like it, also token ids, (batch, token). Tokens may have several axes,
            `(batch, *axes, d_in)`, or, for convolutions, `(batch, d_in, *axes)`, also with one axis; `keep` is then for
            one row of tokens.
        causal: whether a token must not see later ones.
        num_heads, num_kv_heads: of the code, if known; otherwise a mistake that keeps all shapes may seem intended.
        keep: bool, True = may attend, broadcastable to (batch, head, query, key): which tokens should be visible
            besides the causal mask, such as those of a window, or without padding.
        call: (code, x) -> output, for code that takes or returns more than one tensor.
        words: labels of the tokens in the pictures of findings; their numbers if None.
        context: (batch, context token, width), what the keys and values of cross-attention are made from. `call` is
            then (code, x, context) -> output, keep is for the context's keys, and nothing is causal. Beside token ids
            it stays as it is, as of an encoder-decoder, whose decoder is examined.
        scale: the number that dot products of queries and keys are multiplied by, if it is not head_dim ** -0.5, such
            as 1.0 for T5.
        window: how many tokens a query may see, itself included; on both sides if not causal. Two tokens more are
            traced; the report says so if a window of more than 60, or the code, allows no judgement.
        lengths: the only numbers of tokens that the code takes, such as those of a table of biases.
        normalised: False for weights that don't sum to 1 on purpose, such as those of a sigmoid.
        expect: right code for the same x, a module with the same parameters or a function. Both are traced, and the
            first value that the right code does not compute is pointed at. It is run by `call`, too, or by a function
            of its own, `expect=(right, call)`, which also makes what is given to it, such as a mask or frequencies.

    Returns:
        Report.

    Raises:
        TypeError: code that can't be called; x, keep or context that is not a tensor of the right dtype.
        ValueError: x, keep or context of a shape that doesn't fit; a number of heads, window or length below 1; a
            scale that is not above 0; words that are not as many as the tokens; more than 62 tokens that can't be cut
            to fewer.

    Example:
        >>> from course_lib.attention import MultiHeadAttention
        >>> diagnose(MultiHeadAttention(11, 21, 3), torch.randn(2, 5, 11), num_heads=3).ok
        True
    """
    gives_call = call is not None
    meant: dict[str, Any] = {"causal": causal, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    meant |= {"scale": scale, "window": window, "normalised": normalised}
    expect, expect_call = check_expected(expect)
    given_context, ids_context = context, False
    if context is not None and are_beside(module_or_function, x, context, call):
        expect_call = call_beside_ids(expect, context, expect_call) if expect_call else None
        call, context, ids_context = call_beside_ids(module_or_function, context, call), None, True
    may_be_laid_out = isinstance(x, Tensor) and x.is_floating_point() and callable(module_or_function)
    has_grid = may_be_laid_out and x.dim() > 3
    if may_be_laid_out and context is None and has_width_first(module_or_function, x):
        x, call = as_row(module_or_function, x, call)
    elif has_grid:
        usual = None if context is None else usual_context_call(module_or_function)
        if all(one is None for one in (context, keep, lengths, words)):
            x, report = _fewer(module_or_function, x, call, expect, **meant)
            if report is not None:
                return report
        expect_call = as_row(module_or_function, x, expect_call)[1] if expect_call else None
        x, call = as_row(module_or_function, x, call or usual)
        lengths = lengths or [x.shape[1]]
    check_arguments(module_or_function, x, causal, num_heads, num_kv_heads, keep, call, context)
    numbers = check_intentions(scale, window, lengths, normalised, x)
    given, given_call = x, call
    labels = check_words(words, x)
    name = getattr(module_or_function, "__name__", None) or type(module_or_function).__name__
    x, call = _in_batch(module_or_function, given, given_call, context)
    own_call = None if expect is None or expect_call is None else _in_batch(expect, given, expect_call, context)[1]
    options = Options(causal and context is None, num_heads, num_kv_heads, None if keep is None else keep.cpu(),
                      call is not None, labels, scale, window, numbers, normalised, expect=expect,
                      num_context=0 if context is None else context.shape[-2], has_grid=has_grid,
                      expect_call=own_call, gives_call=gives_call)  # fmt: skip
    if context is not None:
        options.expected_keep(len(x), num_heads or 1, x.shape[1])  # refuses a mask that doesn't fit
    with _one_thread(), _uncompiled(), _without_own_warnings():
        try:
            subject = Subject(module_or_function, call)
        except RuntimeError as error:  # a module that can't be copied
            return Report(name, (Finding.of_error(error),))
        subject.of_row = not has_grid
        x = x.detach().cpu().clone()
        if not x.is_floating_point():
            subject, x = _embedded(subject, x, options)
        check_size(subject, x, fixed=options.fixed_tokens, has_grid=has_grid)
        options = _in_groups(options, subject, x)
        stages = measure(subject, x, options)
        shared = Shared()
        if expect is not None and (differing := differing_from_reference(stages.attempt)) is not None:
            way: dict[str, Any] = {"call": expect_call or given_call, "context": context}
            found = diagnose(expect, given, keep=keep, words=words, lengths=lengths, **way, **meant).findings
            shared = Shared.of(found, [] if expect_call else differing_lines(differing))
        report = add_way_out(_report(name, stages, shared), stages.attempt)
        report = add_those_without_x(report, stages.attempt)
        said = quantisation_note(module_or_function)
        report = replace(report, remarks=(*report.remarks, said)) if said else report
        examine = partial(diagnose, module_or_function, given, keep=keep, words=words, lengths=lengths, **meant)
        asks_for_all = keep is not None or not causal
        own = given_call if context is not None else call if gives_call or ids_context else None
        return examine_pieces(
            report, not has_grid, asks_for_all, module_or_function, given, own, examine, given_context
        )


def _fewer(
    code: Any, x: Tensor, call: Callable[..., Any] | None, expect: object, **told: Any
) -> tuple[Tensor, Report | None]:
    """Return x, with shorter axes if it has to be cut, and the report on code that is not examined so: on its patches.

    Of axes that are cut a layer may make a single patch.
    """
    cut = smaller_grid(code, x, call)
    if expect is not None:
        return cut, None
    report = None if cut is x else diagnose(code, cut, call=call, **told)
    if report is not None and report.examines_any:
        return cut, report
    patches = patches_of(code, x, call)
    if patches is None:
        return cut, report
    found = diagnose(code, patches.rows, call=patches.call, lengths=[patches.rows.shape[1]], **told)
    if all(finding.examined for finding in found.findings):
        return cut, replace(found, remarks=(*found.remarks, patches.said))
    return cut, report


def _in_batch(
    code: Callable[..., Any], x: Tensor, call: Callable[..., Any] | None, context: Tensor | None
) -> tuple[Tensor, Callable[..., Any] | None]:
    """Return x as (batch, token, width), with its context if there is one, and how to run the code on it."""
    if context is not None:
        return _with_context(code, x, context, call)
    if x.dim() != 2 or not x.is_floating_point():
        return x, call
    of_sample = call or (lambda code, tokens: code(tokens))

    def of_samples(code: Any, batch: Tensor) -> Any:
        outputs = [of_sample(code, sample) for sample in batch]
        return torch.stack(outputs) if all(isinstance(one, Tensor) for one in outputs) else outputs[0]

    return x[None], of_samples


def _embedded(subject: Subject, ids: Tensor, options: Options) -> tuple[Subject, Tensor]:
    """Return a model of ids as a function of its embeddings, and the embeddings."""
    found = embedded(subject, ids, options.fewest_tokens, fixed=options.fixed_tokens)
    if found is None or isinstance(found, Exception):
        raise not_embeddings(subject.original, ids, found)
    return found


def _in_groups(options: Options, subject: Subject, x: Tensor) -> Options:
    """Return the options with what the tokens of a grid, or of a row that the code makes a grid, see of each other."""
    free = options.keep is None and options.window is None and not options.num_context
    may_be_grid = options.has_grid or (bool(options.lengths) and not options.causal)
    seen = seen_by_each(subject, x) if free and may_be_grid else None
    if seen is None:
        return options
    trace, _ = subject.trace(x.double())
    of_row = not options.has_grid and not lays_out_grid(trace, x.shape[1])
    groups = groups_of(seen, of_row=of_row)
    if groups is None and len(find_score_products(trace)) == 1:  # what several attentions see is not known
        groups = boxes_of(seen, of_row=of_row)
    if groups is not None:
        return replace(options, keep=groups, in_groups=True)
    return replace(options, of_axes=options.has_grid and not options.causal and not bool(seen.all()))


def _report(name: str, stages: Stages, shared: Shared) -> Report:
    if isinstance(stages.attempt, Run) and any(one.depth > 1 for one in find_score_products(stages.attempt.trace)):
        return _report_of_several(name, stages.attempt, examine_each(stages.attempt, _rules()), shared)
    if isinstance(stages.attempt, Run) and stages.attempt.options.of_axes:
        attentions = examine_rows(stages.attempt, _rules())
        if attentions and not any(one.missing for one in attentions):
            return _report_of_several(name, stages.attempt, attentions, shared)
    alone = None if stages.reach(Attention) is not None else _report_of_part(name, stages.attempt, shared)
    return alone or _report_of_one(name, stages, shared)


def _with_context(
    code: Callable[..., Any], x: Tensor, context: Tensor, call: Callable[..., Any] | None
) -> tuple[Tensor, Callable[[Any, Tensor], Any]]:
    """Return x and its context as one tensor (batch, token, width), and how to run the code on it."""
    run = call or usual_context_call(code)
    x, context = x.detach().cpu(), context.detach().cpu()
    if x.dim() == 3:
        return joined(x, context), JoinedCall(run, x, context)

    def of_samples(code: Any, x: Tensor, context: Tensor) -> Tensor:
        return torch.stack([run(code, *both) for both in zip(x, context, strict=True)])

    return joined(x[None], context[None]), JoinedCall(of_samples, x[None], context[None])


def _report_of_one(name: str, stages: Stages, shared: Shared) -> Report:
    findings, remarks = apply(_rules(), stages)
    findings = list(shared.left(findings))
    if any(isinstance(one, AsExpected) for one in remarks):
        # What was measured may be meant; how the code behaves elsewhere may not.
        findings = [one for one in findings if one.origin.symptom not in MEASURED or one.kind is Kind.UNSEEN_WINDOW]
    causes = root_causes([add_pattern_evidence(finding, stages) for finding in findings])
    attention = stages.reach(Attention)
    if attention is not None and attention.run.x.shape[1] == 1:
        causes = (*causes, Finding.unseen("give an x of several tokens", ONE_TOKEN))
    if attention is None and all(cause.origin.symptom is Symptom.ELSEWHERE for cause in causes):
        causes = (*causes, _unseen(stages))
    return Report(name, causes, () if causes else tuple(confirm(stages)), tuple(remarks))


def _unseen(stages: Stages) -> Finding:
    """Return the finding of code in which no rule found anything because its attention was not seen."""
    attempt = stages.attempt
    if isinstance(attempt, UntraceableRun):
        error = error_message(attempt.error)
        reason = (
            f"its operations can't be traced ({error}); from outside, no output moves with a token it should not see"
        )
    else:
        reason = "its scores can't be followed to the values"
    return Finding.unseen("its attention weights were not seen", reason)


def _report_of_part(name: str, attempt: Attempt, shared: Shared) -> Report | None:
    """Return the report of attention that begins after steps that combine the tokens; None if it can't be found.

    Code whose output has no row for each token, nor for each query, is not reported so: that is the first thing to say.
    """
    if not isinstance(attempt, Run):
        return None
    has_rows = attempt.output.tensor.shape[:2] == attempt.x.shape[:2]
    attentions = examine_parts(attempt, _rules()) if has_rows else examine_other_rows(attempt, _rules())
    if not attentions or any(one.missing for one in attentions):
        return None
    return _report_of_several(name, attempt, attentions, shared)


def _report_of_several(name: str, run: Run, attentions: list[AttentionReport], shared: Shared) -> Report:
    attentions = [replace(one, findings=shared.left(one.findings)) for one in attentions]
    whole = examine_whole(run, attentions, _rules(), shared)
    inner = said_once(attentions)
    if whole.findings:  # which may be the cause of what was found in an attention
        causes = {one.mistake for one in root_causes([*inner, *whole.findings])}
        inner = [one for one in inner if one.mistake is None or one.mistake in causes]
    findings = (*inner, *whole.findings)
    if any(isinstance(one, AsExpected) for one in whole.remarks):
        findings = tuple(finding for finding in findings if finding.origin.symptom not in MEASURED)
    checked = () if findings else (*sentences(attentions, "checked"), *whole.checked)
    return Report(name, findings, checked, (*sentences(attentions, "remarks"), *whole.remarks), tuple(attentions))


@cache
def _rules() -> list[Rule]:
    return collect(rules)


def _uncompiled() -> AbstractContextManager:
    """Run what the code compiles as it is written; only code that imported the compiler can use it."""
    return torch_private.without_compiling() if "torch._dynamo" in sys.modules else nullcontext()


@contextmanager
def _without_own_warnings() -> Iterator[None]:
    """Hide what PyTorch warns of in a line of the doctor; warnings of lines of the code stay."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"course_lib\.(diagnosis|tracing)\.")
        yield


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run small tensors in one thread, which is faster with equal results; inference mode would hide views."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(False):
            yield
    finally:
        torch.set_num_threads(threads)
