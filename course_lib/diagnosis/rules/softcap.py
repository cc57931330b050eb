"""A soft cap, c * tanh(scores / c), keeps small scores as they are and comes before the mask."""

import ast
import re
from collections.abc import Iterator

import torch

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import attributes_in_source, locate_attribute
from course_lib.diagnosis.measure import SCALINGS, Attention, SoftmaxPath, Visibility, number_of
from course_lib.diagnosis.registry import rule
from course_lib.tracing import Value

from .scale import factor_before_scores

CAP = re.compile(r"soft_?cap|logit_?cap|^cap$", re.I)
TANH = ("tanh", "tanh_")
CLOSE = 1e-4


@rule(of_dot_products=True)
def check_order_of_cap(visibility: Visibility) -> Iterator[Finding]:
    """Whether the cap comes before the mask."""
    path = visibility.path
    for operation in path.operations if visibility.leaked.any() else ():
        if operation.name in TANH:
            before = path.trace.ancestors([operation.inputs[0]])
            if any(one.number in before for one in path.masking):
                leak = float(visibility.attention.weights[visibility.leaked].abs().max())
                evidence = f"tanh turns the mask into a finite number: a hidden token gets a weight of up to {leak:.4f}"
                yield Finding.named("softcap-missing", evidence, operation.where)
                return


@rule(of_dot_products=True)
def check_cap(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """Whether small scores pass the cap unchanged."""
    caps = [operation for operation in path.operations if operation.name in TANH]
    if not caps or not path.softmaxes or caps[0].number >= path.softmaxes[0].number:
        return
    before = factor_before_scores(attention.structure)
    into = _factor(path, None, caps[0].inputs[0])
    back = _factor(path, caps[0].outputs[0], path.softmaxes[0].inputs[0])
    if back is None:
        return
    divisor, right = _divisor_of(caps[0].inputs[0], path), attention.options.scale or attention.structure.head_dim**-0.5
    if before is None or into is None:  # normalised queries and keys have a scale that nobody can judge
        if into is not None and abs(into / right - 1) < CLOSE < abs(back - 1):
            evidence = f"tanh gets the scores as they are scaled, and its result is multiplied by {back:g}"
            yield Finding.named("softcap-missing", evidence, caps[0].where)
        elif divisor is not None and divisor > 1 + CLOSE and abs(back - 1) < CLOSE:
            evidence = f"tanh gets the scores divided by {divisor:g}, and its result is not multiplied by it"
            yield Finding.named("softcap-missing", evidence, caps[0].where)
        return
    kept = before * into * back / right
    wrong = abs(kept - 1) > CLOSE
    if wrong and (abs(back - 1) < CLOSE or abs(kept / back - 1) < CLOSE or _is_ratio(kept, back, divisor)):
        evidence = f"tanh is multiplied by {back:g} afterwards, so that small scores come out {kept:.4f} times as large"
        yield Finding.named("softcap-missing", f"{evidence} as without the cap", caps[0].where)


@rule(of_dot_products=True)
def check_idle_cap(path: SoftmaxPath) -> Iterator[Finding]:
    """Whether a cap that is set is read."""
    if any(operation.name in TANH for operation in path.operations):
        return
    subject = path.run.subject
    for module in subject.modules.values():
        for name, value in vars(module).items():
            number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if (
                number
                and CAP.search(name)
                and not any(isinstance(node.ctx, ast.Load) for node in attributes_in_source(module, name))
            ):
                where = locate_attribute(subject, name)
                yield Finding.named("softcap-missing", f"`{name}` is {value:g} and nothing reads it", where)
                return


def _factor(path: SoftmaxPath, start: Value | None, end: Value) -> float | None:
    """Return the factor between two stages of the same scores, from the dot products if there is no start."""
    labels = path.scores.labels[end.number].flatten()
    after = end.tensor.flatten().double()
    if start is None:
        before = path.scores.dot_products[labels.clamp(min=0)]
    else:
        known = torch.zeros(len(path.scores.dot_products), dtype=torch.float64)
        at = path.scores.labels[start.number].flatten()
        known[at[at >= 0]] = start.tensor.flatten().double()[at >= 0]
        before = known[labels.clamp(min=0)]
    usable = (labels >= 0) & after.isfinite() & (after > -1e3) & (before.abs() > 1e-9)
    ratio = (after / torch.where(usable, before, 1.0))[usable]
    if len(ratio) < 2 or float(ratio.max() - ratio.min()) > CLOSE * float(ratio.abs().max()):
        return None
    return float(ratio.mean())


def _divisor_of(value: Value, path: SoftmaxPath) -> float | None:
    """Return the number that a value was divided by last."""
    made = None if value.made_by is None else path.trace.operations[value.made_by]
    factor = number_of(made) if made is not None and made.name in SCALINGS else None
    return None if factor is None else 1 / factor


def _is_ratio(kept: float, back: float, divisor: float | None) -> bool:
    return divisor is not None and abs(kept * divisor / back - 1) < CLOSE
