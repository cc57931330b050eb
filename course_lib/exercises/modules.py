"""The judge of exercises whose answer is a class: numbers where weights can be carried over, and the doctor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .differences import difference
from .inputs import numbers
from .running import Stopped, copied, run, same
from .stubs import is_empty
from .verdict import Verdict, not_passed, not_written, passed

SIZES = ((2, 5), (3, 4))  # (batch, token) of the inputs


@dataclass(frozen=True)
class ModuleJudge:
    """Builds the learner's class, gives it the reference's weights, compares, and asks the doctor about the rest.

    Attributes:
        reference: builds the right module; takes what the learner's class takes.
        sizes: what both are built with; the first is d_in.
        causal: whether later tokens are hidden.
        num_heads, num_kv_heads: for the doctor.
    """

    reference: Callable[..., nn.Module]
    sizes: tuple[int, ...]
    causal: bool = True
    num_heads: int | None = None
    num_kv_heads: int | None = None
    inputs: tuple[tuple[int, int], ...] = field(default=SIZES)

    def __call__(self, answer: Any) -> Verdict:
        if is_empty(answer):
            return not_written()
        if not inspect.isclass(answer):
            return not_passed(f"The answer is a {type(answer).__name__}; it should be the class itself.")
        try:
            module = run(answer, *self.sizes)
            if not isinstance(module, nn.Module):
                return not_passed(f"{answer.__name__} is no `nn.Module`: write `class {answer.__name__}(nn.Module)`.")
            return self._judge(module.double().eval())
        except Stopped as stopped:
            return (
                not_written()
                if stopped.unwritten
                else not_passed(stopped.says, where=stopped.where, evidence=stopped.remark)
            )

    def _reference(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1)
            reference = self.reference(*self.sizes).double().eval()
        with torch.no_grad():
            for name, parameter in reference.named_parameters():
                if "q_proj" in name or "k_proj" in name:
                    parameter *= 4  # as if trained: attention that is neither flat nor all or nothing
        return reference

    def _judge(self, module: nn.Module) -> Verdict:
        fresh, reference = copied(module), self._reference()
        carried = _carry(reference, module)
        found = None
        for batch, num_tokens in self.inputs:
            x = numbers(batch, num_tokens, self.sizes[0])
            mine = copied(x)
            result = run(module, mine)
            if not same(x, mine):
                return not_passed("Your module changes its input in place.", "input-modified")
            if result is None:
                return not_passed("Your module gives back None: is a `return` missing?", "returns-none")
            if carried or not isinstance(result, Tensor):
                found = found or difference(result, reference(x), "batch token width")
        if carried and not found:
            return passed(f"Equal to the reference on {len(self.inputs)} inputs of different sizes.")
        return self._ask_doctor(fresh, found)

    def _ask_doctor(self, module: nn.Module, found: tuple[str, str | None] | None) -> Verdict:
        """Let the doctor name it, with the weights it was built with; `found` is how it differs from the reference."""
        from course_lib.diagnosis import diagnose

        batch, num_tokens = self.inputs[0]
        x = numbers(batch, num_tokens, self.sizes[0])
        options = {"causal": self.causal, "num_heads": self.num_heads, "num_kv_heads": self.num_kv_heads}
        measured = (found[0],) if found else ()
        for one in diagnose(module, x, **options).findings:
            told = {"where": one.where, "hint": one.hint, "lesson": one.lesson}
            return not_passed(one.title, one.mistake, evidence=(f"Seen: {one.evidence}.", *measured), **told)
        return not_passed(*found) if found else passed("The doctor finds nothing wrong with it.")


def _carry(reference: nn.Module, module: nn.Module) -> bool:
    """Give the module the reference's weights, if it has parameters of these names and shapes and no others."""
    theirs, mine = reference.state_dict(), module.state_dict()
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    fits = parameters == set(theirs) and all(mine[name].shape == theirs[name].shape for name in theirs)
    if fits:
        module.load_state_dict(theirs, strict=False)
    return fits
