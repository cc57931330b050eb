"""What the doctor says of rotations, windows and second paths, in numbers that are computed here by other means."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.diagnosis import diagnose

from .bank.case import some_x
from .bank.parts import Parts, turned

X = some_x(2, 6, 10)


class Turned(Parts):
    def __init__(self, opposite):
        super().__init__(d_in=10, heads=3, head_dim=8)
        self.opposite = opposite

    def turn(self, t, sign):
        rates = 100.0 ** (-torch.arange(4, dtype=t.dtype, device=t.device) / 4)
        angle = sign * torch.outer(torch.arange(t.shape[-2], dtype=t.dtype, device=t.device), rates)
        a, b = t.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def forward(self, x):
        q, k, v = self.qkv(x)
        return self.attend(self.scores(self.turn(q, 1), self.turn(k, -1 if self.opposite else 1)), v)


@pytest.mark.parametrize("opposite", [False, True])
def test_a_turn_is_wrong_exactly_if_scores_of_one_distance_differ(opposite):
    module = Turned(opposite).double()
    same = X.double()[:1, :1].expand(1, 6, 10)
    q, k, _ = module.qkv(same)
    scores = (module.turn(q, 1) @ module.turn(k, -1 if opposite else 1).mT).detach()
    spread = max(float(scores.diagonal(-step, -2, -1).std(-1).max()) for step in range(4))
    assert (spread > 1e-3) == opposite
    report = diagnose(module.float(), X, num_heads=3)
    assert report.mistakes == (("rotary-wrong-turn",) if opposite else ())


class OfTwoPaths(Parts):
    def __init__(self, wrong):
        super().__init__(d_in=10, heads=2, head_dim=6)
        self.wrong = wrong

    def forward(self, x, need_weights=False):
        q, k, v = (turned(t) for t in self.qkv(x)[:2]), None, self.qkv(x)[2]
        q, k = q
        if not need_weights:
            return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)), None
        scores = self.scores(q, k) * (2.0 if self.wrong == "scale" else 1.0)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = (scores if self.wrong == "mask" else scores.masked_fill(future, -torch.inf)).softmax(-1)
        return self.merge(weights @ v), weights


@pytest.mark.parametrize(
    ("wrong", "mistake", "words"),
    [
        (None, None, ""),
        ("mask", "mask-lost-on-option", "with need_weights=True, a change of the last token changes the outputs of"),
        ("scale", "paths-differ", "with need_weights=True, the output is up to "),
    ],
)
def test_a_path_with_weights_is_run_too(wrong, mistake, words):
    report = diagnose(OfTwoPaths(wrong), X, num_heads=2)
    assert report.mistakes == (() if mistake is None else (mistake,)), report
    assert all(finding.evidence.startswith(words) for finding in report.findings)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_a_window_is_named_if_it_is_one_off(width):
    class Windowed(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            hidden = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril().triu(1 - width)
            return self.merge(self.scores(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v)

    report = diagnose(Windowed(d_in=10, heads=2, head_dim=6), X, num_heads=2, window=3)
    expected = {2: ("window-off-by-one",), 3: (), 4: ("window-off-by-one",)}.get(width, (None,))
    assert report.mistakes == expected, report


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


@pytest.mark.parametrize("wrong", [False, True])
def test_a_switch_is_set_on_the_attention_that_is_examined_inside_a_whole(wrong):
    torch.manual_seed(0)
    model = torch.nn.Sequential(Switched(False), torch.nn.Tanh(), Switched(wrong))
    report = diagnose(model, X, num_heads=2)
    found = [(part.name, one.mistake) for part in report.attentions for one in part.findings]
    assert found == ([("2", "paths-differ")] if wrong else []), report
    assert not report.not_examined, report
    assert model[0].use_kernel and model[2].use_kernel


class Capped(Switched):
    """A cap of the scores, which the kernel lacks, turns the kernel off."""

    def __init__(self, cap):
        super().__init__(wrong=False)
        self.cap = cap
        if self.cap:
            self.use_kernel = False

    def scores(self, q, k):
        scores = super().scores(q, k)
        return self.cap * torch.tanh(scores / self.cap) if self.cap else scores


@pytest.mark.parametrize("cap", [None, 2.0])
def test_a_switch_that_a_condition_turned_off_stays_off(cap):
    report = diagnose(Capped(cap), X, num_heads=2)
    assert report.ok, report


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


class PreparedMask(NamedKernel):
    """The mask is made for one kernel only, when the module is."""

    def __init__(self):
        super().__init__()
        self.hidden = None
        if self.backend == "manual":
            self.hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)

    def hide(self, scores):
        return scores if self.hidden is None else scores.masked_fill(self.hidden, -torch.inf)


@pytest.mark.parametrize(("wrong", "mistake"), [("mask", "mask-lost-on-option"), ("scale", "paths-differ")])
def test_a_kernel_that_is_chosen_by_name_is_run_too(wrong, mistake):
    report = diagnose(NamedKernel(wrong), X, num_heads=2)
    assert report.mistakes == (mistake,), report
    assert report.findings[0].evidence.startswith("with backend='manual', ")


def test_a_kernel_that_is_chosen_by_name_may_be_right_or_prepared_for_its_name():
    assert diagnose(NamedKernel(), X, num_heads=2).ok
    assert diagnose(PreparedMask(), X, num_heads=2).ok
