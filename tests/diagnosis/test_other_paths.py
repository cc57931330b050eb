"""What the doctor says of rotations, windows and second paths, in numbers that are computed here by other means."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.diagnosis import diagnose

from .bank.case import some_x
from .bank.parts import Parts

X = some_x(2, 6, 10)


class Switched(Parts):
    """Attention whose attribute chooses between a kernel and a formula, which is wrong if `wrong`."""

    def __init__(self, wrong):
        super().__init__(d_in=10, heads=2, head_dim=6)
        self.wrong, self.use_kernel = wrong, True

    def forward(self, x):
        q, k, v = self.qkv(x)
        if self.use_kernel:
            return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.attend(self.scores(q, k) * (2.0 if self.wrong else 1.0), v)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_a_switch_is_set_on_the_attention_that_is_examined_inside_a_whole(wrong):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Switched(False), torch.nn.Tanh(), Switched(wrong))
    report = diagnose(model, X, num_heads=2)
    found = [(part.name, one.mistake) for part in report.attentions for one in part.findings]
    assert found == ([("2", "paths-differ")] if wrong else []), report
    assert not report.not_examined, report
    assert model[0].use_kernel and model[2].use_kernel


class NamedKernel(Parts):
    """Attention whose kernel is chosen by a name."""

    def __init__(self, wrong=None):
        super().__init__(d_in=10, heads=2, head_dim=6)
        self.wrong, self.backend = wrong, "sdpa"

    def hide(self, scores):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores if self.wrong == "mask" else scores.masked_fill(future, -torch.inf)

    def forward(self, x):
        q, k, v = self.qkv(x)
        if self.backend == "manual":
            return self.merge(self.hide(self.scores(q, k) * (2.0 if self.wrong == "scale" else 1.0)).softmax(-1) @ v)
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize(("wrong", "mistake"), [("mask", "mask-lost-on-option"), ("scale", "paths-differ")])
def test_a_kernel_that_is_chosen_by_name_is_run_too(wrong, mistake):
    report = diagnose(NamedKernel(wrong), X, num_heads=2)
    assert report.mistakes == (mistake,), report
    assert report.findings[0].evidence.startswith("with backend='manual', ")
