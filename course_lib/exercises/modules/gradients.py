"""Compare the gradients of a learner's module with those of the formula."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from course_lib.exercises.answer import Ran
from course_lib.exercises.answering import INPUT
from course_lib.exercises.verdict import Verdict, not_passed

from .layouts import CandidateLayouts
from .row_orders import BIAS


def judge_gradients(
    ran: Ran,
    layouts: CandidateLayouts,
    candidates: Sequence[int],
    weights: Mapping[str, Tensor],
    x: Tensor,
    cotangent: Tensor | None,
) -> Verdict | None:
    """Compare the gradient of each matrix and of x; None if all are right, or none was asked for.

    Args:
        ran: A run whose output was right.
        layouts: What the parameters may mean.
        candidates: Which of the layouts fit.
        weights: The weights of the run.
        x: Its input.
        cotangent: The gradient of its output; None if there was no backward pass.
    """
    if cotangent is None:
        return None
    leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()} | {INPUT: x.clone()}
    x = leaves[INPUT].requires_grad_()
    own = {name: leaf for name, leaf in leaves.items() if name != INPUT}
    output = next(iter(layouts.outputs(own, x, candidates[:1]).values()))
    (output * cotangent).sum().backward()
    expected = {name: leaf.grad for name, leaf in leaves.items() if layouts.kinds.get(name) != BIAS}
    nonzero = {name: one for name, one in expected.items() if one is not None and bool(one.any())}
    missing = [name for name in nonzero if is_zero(ran.gradients.get(name))]
    if missing:
        return no_gradient([name for name in missing if name != INPUT], output_right=True)
    wrong = (name for name, gradient in nonzero.items() if not _close(ran.gradients.get(name), gradient))
    if (name := next(wrong, None)) is None:
        return None
    return not_passed(
        f"The output is right, but the gradient of `{name.lstrip('.')}` is not that of the formula.",
        hint="Does a part of the result leave the graph: `.detach()`, `.data`, `.item()`?",
    )


def without_gradient(ran: Ran, layouts: CandidateLayouts) -> Verdict | None:
    """Judge whether a gradient reaches every matrix, every parameter of the learner's own, and x."""
    names = [name for name, kind in layouts.kinds.items() if kind != BIAS or name in layouts.odd]
    missing = [name for name in names if is_zero(ran.gradients.get(name))]
    if not missing and not is_zero(ran.gradients.get(INPUT)):
        return None
    return no_gradient(missing, output_right=False)


def no_gradient(missing: Sequence[str], output_right: bool) -> Verdict:
    """Return the verdict on parameters that no gradient reaches; none are named if it is x."""
    names = ", ".join(f"`{name[:60]}`" for name in missing[:4])
    sentence = f"No gradient reaches {names}: training would never change {'them' if len(missing) > 1 else 'it'}."
    return not_passed(
        sentence if missing else "No gradient reaches the input `x`: layers in front of it could not be trained.",
        evidence=("The output was right; one backward pass was made from it.",) if output_right else (),
        hint="Is it used at all, and which line leaves the graph: `.detach()`, `.data` or `torch.no_grad()`?",
    )


def is_zero(gradient: Tensor | None) -> bool:
    """Return whether no gradient arrived, or one that is zero throughout."""
    return not isinstance(gradient, Tensor) or not bool(gradient.any())


def _close(own: Tensor | None, right: Tensor) -> bool:
    scale = float(right.abs().max())
    return own is not None and own.shape == right.shape and torch.allclose(own, right, 1e-3, 1e-3 * scale)
