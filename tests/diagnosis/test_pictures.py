"""The picture of a finding shows the mistake; code that can't be traced is still asked from outside."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose
from course_lib.mistakes import CATALOGUE
from tools.book.mistake_code import read_example, run_example

pytestmark = pytest.mark.one_in(8)

X = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0))
SHOWN = {
    "mask-discarded": "Your head 0 and attention differ most",
    "softmax-wrong-axis": "Your head 0 and attention differ most",
    "missing-scale": "Your head 0 and attention differ most",
    "causal-top-left": "Your head 0 and attention differ most",
    "heads-share-scores": "Rows are queries, columns are keys",
    "heads-share-weights": "Rows are queries, columns are keys",
    "split-without-transpose": "The result is scrambled",
    "merge-without-transpose": "The result is scrambled",
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", SHOWN)
def test_a_mistake_is_drawn(mistake):
    example = read_example(CATALOGUE[mistake].example)
    report = run_example(example.wrong, example.call)
    finding = next(one for one in report.findings if one.mistake == mistake)
    picture = finding.picture  # drawn anew each time
    assert SHOWN[mistake] in picture.caption
    assert f'<img alt="{picture.description.splitlines()[0][:20]}' in report._repr_html_()


class Weights(TorchDispatchMode):
    """Keeps what each softmax of a run returns, rows (query, key) of the first sample's first head."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function in (torch.ops.aten._softmax.default, torch.ops.aten._safe_softmax.default):
            self.rows += made.reshape(-1, *made.shape[-2:])[0]
        return made


def weights_of(source, call):
    """The attention weights (query, key) that code computes, in one pass or in pieces."""
    names = {"__name__": "attention"}
    exec(source, names)
    with torch.random.fork_rng(devices=[]):
        exec(call, names)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), Weights() as seen:
        names["options"].get("call", lambda module, x: module(x))(names["module"], names["x"])
    return torch.nn.utils.rnn.pad_sequence(seen.rows, batch_first=True)


COMPARED = [
    "bias-wrong-sign",
    "causal-top-left",
    "double-softmax",
    "mask-after-softmax",
    "mask-discarded",
    "mask-inverted",
    "mask-off-by-one",
    "mask-rank",
    "mask-scaled",
    "mask-skipped-when-cached",
    "mask-transposed",
    "mask-with-zero",
    "missing-scale",
    "no-causal-mask",
    "softmax-wrong-axis",
    "weights-transposed",
    "window-lost-in-decode",
    "window-off-by-one",
    "wrong-scale",
]


# Not all that a softmax returns: a second one comes after it, or a mask or a transpose.
OTHER_WEIGHTS = ("double-softmax", "mask-after-softmax", "weights-transposed")


@pytest.mark.parametrize("mistake", COMPARED)
def test_the_compared_weights_are_those_of_the_code_and_of_the_mended_code(mistake, monkeypatch):
    drawn = []
    monkeypatch.setattr("course_lib.pictures.compare", lambda wrong, right, *_, **names: drawn.append((wrong, right)))
    example = read_example(CATALOGUE[mistake].example)
    finding = next(one for one in run_example(example.wrong, example.call).findings if one.mistake == mistake)
    assert finding.picture is None and len(drawn) == 1
    ((wrong, right),) = drawn
    torch.testing.assert_close(right.float(), weights_of(example.right, example.call), atol=1e-6, rtol=0)
    if mistake not in OTHER_WEIGHTS:
        torch.testing.assert_close(wrong.float(), weights_of(example.wrong, example.call), atol=1e-6, rtol=0)


@pytest.mark.slow
def test_every_comparison_of_the_pages_is_asked():
    for name in CATALOGUE.keys() - set(COMPARED):
        example = read_example(CATALOGUE[name].example)
        for finding in run_example(example.wrong, example.call).findings:
            assert finding.picture is None or "attention differ most" not in finding.picture.caption, name


@pytest.mark.parametrize(
    ("on_queries", "on_keys", "on_scores"), [(0.5, 0, 0), (0, 0.5, 0), (0.25, 0.25, 0), (0, 0, 0.5)]
)
def test_a_scale_before_the_product_counts_once(on_queries, on_keys, on_scores, monkeypatch):
    to_q, to_k = (torch.randn(11, 7, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))

    def unmasked(x):
        scores = (x @ to_q * 7**-on_queries) @ (x @ to_k * 7**-on_keys).mT * 7**-on_scores
        return scores.softmax(-1) @ x

    drawn = []
    monkeypatch.setattr("course_lib.pictures.compare", lambda wrong, right, *_, **names: drawn.append((wrong, right)))
    (finding,) = diagnose(unmasked, X).findings
    assert finding.mistake == "no-causal-mask" and finding.picture is None
    ((wrong, right),) = drawn
    torch.testing.assert_close(wrong[-1], right[-1], atol=1e-9, rtol=0)  # the last token may see everything
    torch.testing.assert_close(right, wrong.tril() / wrong.tril().sum(-1, keepdim=True), atol=1e-9, rtol=0)


def test_without_known_logits_nothing_is_called_attention(monkeypatch):
    """Behind a soft cap, scores of another scale can't be computed from those that the softmax gets."""
    to_q, to_k = (torch.randn(11, 7, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))

    def capped(x):
        scores = 5 * ((x @ to_q) @ (x @ to_k).mT / 11**0.5 / 5).tanh()
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1) @ x

    monkeypatch.setattr("course_lib.pictures.compare", lambda *_, **names: pytest.fail("two tables"))
    (finding,) = diagnose(capped, X).findings
    assert finding.mistake == "wrong-scale" and "Rows are queries" in finding.picture.caption


def test_the_tokens_are_called_by_their_words_or_numbers():
    module, words = MultiHeadAttention(11, 21, 3, causal=False), ["Dream", "big", "and", "work", "hard"]
    told = {"num_heads": 3, "call": lambda m, x: m(x)}  # without a mask, although it takes one
    with_words, without = (diagnose(module, X, words=given, **told).findings[0].picture for given in (words, None))
    assert '"Dream" looks at' in with_words.caption or "Dream: " in with_words.description
    assert "0: " in without.description and "token 0" not in without.description


@pytest.mark.parametrize("words", [["a"] * 4, "a b c"])
def test_words_that_do_not_fit_are_refused(words):
    with pytest.raises(ValueError, match="words must be one label for each of the 5 tokens of x, got"):
        diagnose(MultiHeadAttention(11, 21, 3), X, words=words)


class Untraceable(nn.Module):
    """Runs, but not under anybody's eyes, as some extensions do."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if _get_current_dispatch_mode() is not None:
            raise RuntimeError("not while somebody looks on")
        return self.inner(x)


class Backwards(nn.Module):
    def forward(self, x):
        return x.flip(1).cumsum(1).flip(1)


class Mixed(nn.Module):
    def forward(self, x):
        return x + x.mean(dim=0, keepdim=True)


def test_what_can_not_be_traced_and_is_right_is_not_accused_but_not_called_right_either():
    report = diagnose(Untraceable(MultiHeadAttention(11, 21, 3)), X)
    assert (report.mistakes, report.exit_status) == ((None,), 2)
    assert "from outside, no output moves with a token it should not see" in str(report)


@pytest.mark.parametrize(
    ("inner", "mistake", "words"),
    [
        (MultiHeadAttention(11, 21, 3, causal=False), "no-causal-mask", "the output of token 0 moves when token 1"),
        (Backwards(), None, "the output of token 0 moves when token 1 changes"),
        (Mixed(), "batch-mixed", "the output of sample 0 changes when sample 1 changes"),
    ],
    ids=["no mask", "backwards", "mixed"],
)
def test_what_can_not_be_traced_is_asked_from_outside(inner, mistake, words):
    (finding,) = diagnose(Untraceable(inner), X).findings
    assert finding.mistake == mistake and words in finding.evidence


class InNumPy(nn.Module):
    """Attention whose scores and weights are computed by NumPy, where a trace can't follow."""

    def __init__(self, see=0):
        super().__init__()
        self.to_q, self.to_k, self.see = nn.Linear(11, 11), nn.Linear(11, 11), see

    def forward(self, x):
        queries, keys = (project(x).detach().numpy() for project in (self.to_q, self.to_k))
        scores = queries @ keys.swapaxes(1, 2) / 11**0.5
        exponentials = np.exp(scores) * np.tril(np.ones_like(scores), self.see)
        return torch.from_numpy(exponentials / exponentials.sum(-1, keepdims=True)) @ x


@pytest.mark.parametrize(("see", "status"), [(0, 2), (1, 1)])
def test_numbers_that_pass_by_the_trace_are_only_probed_from_outside(see, status):
    report = diagnose(InNumPy(see), torch.randn(2, 5, 11))
    assert report.exit_status == status, report
    said = (
        "leave PyTorch, for NumPy or for Python" if status == 2 else "the output of token 0 moves when token 1 changes"
    )
    assert said in report.findings[0].evidence


def test_steps_that_depend_on_x_are_no_numbers_outside_of_pytorch():
    """They can't be run again for another x, as those of a mixture of experts."""

    def routed(x):
        chosen = torch.nonzero(x[..., 0] > 0).unbind(0)  # another x has another number of them
        return x + sum(row.sum() * 0.0 for row in chosen)

    report = diagnose(routed, X)
    assert "leave PyTorch" not in str(report), report
