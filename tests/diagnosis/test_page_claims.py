"""What the doctor's page says of windows, masks, references, random outputs and code that can't be traced."""

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.attention import GroupedQueryAttention
from course_lib.diagnosis import diagnose
from course_lib.scan import scan
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(4)

HEADS, D = 3, 12
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))
SEVEN = torch.randn(2, 7, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Attention whose causal mask is made in a method of its own."""

    def __init__(self, window: int = 0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.q_proj, self.k_proj, self.v_proj, self.proj = (nn.Linear(D, D) for _ in range(4))
        self.window = window

    def scores(self, x):
        q, k, _ = self.split(x)
        return self.hide(q @ k.mT / 2)

    def split(self, x):
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]

    def hide(self, scores):
        return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)

    def merge(self, weights, x):
        return self.proj((weights @ self.split(x)[2]).transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.merge(self.scores(x).softmax(-1), x)


# --- windows ---


class Windowed(Base):
    def forward(self, x):
        scores = self.scores(x)
        far = torch.ones_like(scores, dtype=torch.bool).tril(-self.window)  # wrong
        return self.merge(scores.masked_fill(far, -torch.inf).softmax(-1), x)


class WindowedAtOnce(Base):
    def forward(self, x):
        q, k, _ = self.split(x)
        at = torch.arange(x.shape[1], device=x.device)
        future = at > at[:, None]
        past = at[:, None] - at >= self.window  # wrong
        return self.merge((q @ k.mT / 2).masked_fill(future, -torch.inf).masked_fill(past, -torch.inf).softmax(-1), x)


@pytest.mark.slow
@pytest.mark.parametrize("window", [8, 20])
def test_a_window_is_judged_on_more_tokens_than_it_holds(window):
    report = diagnose(Windowed(window), X, window=window)
    assert report.ok and f"of {window + 2} tokens" in report.checked[0], report
    assert diagnose(Windowed(window + 1), X.repeat(1, 6, 1), window=window).mistakes == ("window-off-by-one",)
    assert diagnose(Windowed(window - 1), X, window=window).mistakes == ("window-off-by-one",)


class OfIds(nn.Module):
    def __init__(self, window: int, most: int) -> None:
        super().__init__()
        self.embed, self.positions, self.attn = nn.Embedding(11, D), nn.Embedding(most, D), Windowed(window)

    def forward(self, ids):
        return self.attn(self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))


def test_a_window_of_a_model_of_ids_is_judged_if_the_model_takes_as_many_tokens():
    ids = torch.randint(11, (2, 9))
    assert diagnose(OfIds(12, 40), ids, window=12).ok
    assert diagnose(OfIds(13, 40), ids, window=12).mistakes == ("window-off-by-one",)
    report = diagnose(OfIds(13, 12), ids, window=12)
    assert report.exit_status == 2 and "takes no more" in str(report), report


REASONS = [({"window": 99}, "at most 62"), ({"window": 9, "lengths": [5]}, "`lengths`")]


@pytest.mark.parametrize(("options", "reason"), REASONS)
def test_a_window_that_is_not_shown_is_not_cleared(options, reason):
    report = diagnose(Windowed(99), X, **options)
    assert report.exit_status == 2 and reason in str(report), report


class Pinned(Windowed):
    def hide(self, scores):
        return super().hide(scores) + torch.zeros(scores.shape[-1], dtype=scores.dtype)


def test_that_a_window_is_not_shown_is_said_beside_what_is_found():
    report = diagnose(Pinned(99), X, window=99)
    assert report.mistakes == ("device-pinned", None), report
    assert report.verdict == "one thing is wrong, and whether it keeps to its window could not be examined."


@pytest.mark.one_in(1)
def test_that_a_window_is_not_shown_is_said_of_code_that_is_as_expected():
    report = diagnose(Windowed(99), X, window=99, expect=Windowed(99))
    assert report.exit_status == 2 and "at most 62" in str(report), report


@pytest.mark.parametrize(("count", "refused"), [(62, False), (64, True)])
def test_more_tokens_than_can_be_traced_are_refused(count, refused):
    x = torch.randn(2, count, D, generator=torch.Generator().manual_seed(0))
    assert diagnose(Windowed(99), x).ok
    if refused:
        with pytest.raises(ValueError, match=r"x has 64 tokens, .* at most 62 can be traced .* give it a smaller x"):
            diagnose(Windowed(99), x, lengths=[count])
    else:
        assert diagnose(Windowed(99), x, lengths=[count]).ok


class OfOneLength(Windowed):
    def forward(self, x):
        return super().forward(x + torch.arange(64.0, dtype=x.dtype, device=x.device)[:, None])


def test_code_that_takes_only_more_tokens_than_can_be_traced_is_not_examined():
    report = diagnose(OfOneLength(99), torch.randn(2, 64, D, generator=torch.Generator().manual_seed(0)))
    assert report.exit_status == 2 and "it takes no fewer than 64 tokens" in report.findings[0].evidence, report


@pytest.mark.parametrize("code", [Windowed, WindowedAtOnce])
def test_the_line_of_a_wrong_window_is_that_of_its_own_mask(code):
    (finding,) = diagnose(code(4), X, window=3).findings
    assert finding.mistake == "window-off-by-one" and finding.where in marked(code), finding


# --- code that can't be traced ---


class InNumPy(Base):
    def forward(self, x):
        scores = super().scores(x).detach().numpy()
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return self.merge(torch.from_numpy(weights / weights.sum(-1, keepdims=True)).to(x), x)


def test_of_a_softmax_in_numpy_only_what_moves_the_output_is_said():
    report = diagnose(InNumPy(), X)
    assert report.exit_status == 2 and report.mistakes == (None,) and "NumPy" in str(report), report


# --- tokens that `keep` hides ---


WITHOUT_2 = torch.arange(5) != 2


@pytest.mark.parametrize("keep", [torch.arange(5) < 4, WITHOUT_2, WITHOUT_2 & (torch.ones(5, 5).tril() > 0)])
def test_causal_code_without_a_mask_of_keys_is_told_that_hidden_tokens_are_seen(keep):
    (finding,) = diagnose(Base(), X, keep=keep).findings
    assert finding.mistake is None and "tokens are seen that `keep` hides" in finding.title, finding


class MaskOfQueries(Base):
    def forward(self, x, keep):
        return self.merge(self.scores(x).masked_fill(~keep[:, None], -1e9).softmax(-1), x)


def test_a_mask_of_keys_that_hides_queries_is_named():
    keep = torch.arange(5) < 4
    report = diagnose(MaskOfQueries(), X, keep=keep, call=lambda module, x: module(x, keep))
    assert report.mistakes == ("mask-rank",), report


# --- random outputs ---


class Noisy(Base):
    def forward(self, x):
        return super().forward(x + 0.01 * torch.randn_like(x))


class DroppedByHand(Base):
    def forward(self, x):
        weights = self.scores(x).softmax(-1)
        return self.merge(weights * (torch.rand_like(weights) > 0.2) / 0.8, x)


def test_noise_is_no_dropout():
    for report in (diagnose(Noisy(), X), scan(Noisy(), SEVEN)):
        (finding,) = report.findings
        assert finding.mistake is None and "its output is random" in finding.title, finding
    assert diagnose(DroppedByHand(), X).mistakes == ("dropout-at-eval",)
    assert [one.mistake for one in scan(DroppedByHand(), SEVEN).findings] == ["dropout-at-eval"]


# --- counts ---


def test_fewer_kv_heads_than_given_are_counted():
    (finding,) = diagnose(GroupedQueryAttention(D, D, 4, 2), X, num_heads=4, num_kv_heads=4).findings
    assert finding.mistake is None and "it has 2 kv heads, and num_kv_heads=4 was given" in finding.title, finding


def test_a_model_of_ids_that_gets_embeddings_is_told_how_to_give_ids():
    assert "--x" in str(diagnose(OfIds(3, 40), X))
    assert "--vocabulary" in scan(OfIds(3, 40), SEVEN).failure


# --- references ---


class Masked(Base):
    def __init__(self, alone: float = 1.0, fill: float = -torch.inf) -> None:
        super().__init__()
        self.alone, self.fill = alone, fill

    def forward(self, x, mask=None):
        scores = self.scores(x)
        scores = scores * self.alone if mask is None else scores + torch.zeros(()).to(x).masked_fill(~mask, self.fill)
        return self.merge(scores.softmax(-1), x)


def test_a_reference_is_compared_with_the_mask_and_without():
    keep = (torch.arange(5) != 1) | torch.eye(5, dtype=torch.bool)
    for options in ({"keep": keep}, {"keep": keep, "call": lambda module, x: module(x, keep)}):
        (finding,) = diagnose(Masked(alone=1.5), X, expect=Masked(), **options).findings
        assert "without `mask`" in finding.evidence, finding
        assert diagnose(Masked(), X, expect=Masked(), **options).ok
    (finding,) = diagnose(Masked(fill=-1.0), X, expect=Masked()).findings
    assert "with `mask`" in finding.evidence, finding
    assert diagnose(Masked(), X, expect=Masked()).ok


class Renamed(Base):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Parameter(torch.zeros(1))


def test_a_reference_that_got_no_parameters_is_named():
    report = diagnose(Renamed(), X, expect=Base())
    assert any("no parameter was copied" in one and "`extra`" in one for one in report.remarks), report
    assert not any("copied" in one for one in diagnose(Base(), X, expect=Base()).remarks)


# --- why the scale was not judged ---


class DropsAtEval(Base):
    def forward(self, x):
        return self.merge(nn.functional.dropout(self.scores(x).softmax(-1), 0.1), x)


def test_code_without_a_learned_factor_is_not_said_to_have_one():
    assert "learned factor" not in str(diagnose(DropsAtEval(), X))
