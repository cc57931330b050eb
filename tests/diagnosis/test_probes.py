"""The probes: each sees the mistakes it is made for, and leaves the healthy and the subject alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHeadAttentionWrapper, SingleHeadAttention
from course_lib.diagnosis.measure.probes import influence, other_sizes
from course_lib.diagnosis.measure.subject import Subject, SubjectFailed
from course_lib.diagnosis.rules.purity import difference_between_calls
from course_lib.mutations import WRONG_STEPS
from tests.diagnosis.bank.weights import run

from .test_wrong_steps import G, H, M, T, modules, weights_of

X = torch.randn(2, T, M, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
HEALTHY = {
    "single head": SingleHeadAttention(M, 7),
    "wrapper": MultiHeadAttentionWrapper(M, 2 * 7, 2, dropout=0.3),
    **modules(bias=True, dropout=0.3),
    "nn.MultiheadAttention": nn.MultiheadAttention(M, 1, batch_first=True),
}


def call_of(name):
    if name == "nn.MultiheadAttention":
        mask = torch.ones(9, 9, dtype=torch.bool).triu(1)
        return lambda module, x: module(x, x, x, attn_mask=mask[: x.shape[1], : x.shape[1]], need_weights=False)[0]
    return None


def wrong_subject(name, form="multi-head", number=0):
    weights = weights_of(modules()[form])
    wrong = [steps for steps in WRONG_STEPS if name in steps.mistakes][number]
    return Subject(lambda x: run(wrong.attention, weights, x))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", HEALTHY)
def test_the_healthy_pass_every_probe(name):
    module = HEALTHY[name].train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.get_rng_state()
    subject = Subject(module, call_of(name))
    seen = influence(subject, X)
    assert torch.equal(seen > 1e-9, torch.ones(T, T, dtype=torch.bool).tril())
    samples = influence(subject, X, axis=0)
    assert torch.equal(samples > 1e-9, torch.eye(2, dtype=torch.bool))
    assert other_sizes(subject, X) == {}
    assert difference_between_calls(subject, X) == 0
    # The subject is as it was.
    assert module.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


LOWER, EYE = torch.ones(T, T, dtype=torch.bool).tril(), torch.eye(T, dtype=torch.bool)
PATTERNS = {
    "no-causal-mask": LOWER | LOWER.T,
    "mask-with-zero": LOWER | LOWER.T,
    "mask-transposed": LOWER.T,
    "weights-not-applied": EYE,
    "scores-from-values": LOWER,
    "missing-scale": LOWER,
    "split-without-transpose": None,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_each_mask_mistake_has_its_pattern_of_influence(name):
    seen = influence(wrong_subject(name), X) > 1e-9
    if PATTERNS[name] is None:
        assert not torch.equal(seen, LOWER)
    else:
        assert torch.equal(seen, PATTERNS[name])


def test_a_diagonal_that_is_off_shows():
    sees_one_more = influence(wrong_subject("mask-off-by-one", number=0), X) > 1e-9
    assert bool(sees_one_more.diagonal(1).all()) and not bool(sees_one_more.diagonal(2).any())
    without_itself = influence(wrong_subject("mask-off-by-one", number=1), X)
    assert bool(without_itself[0].isinf().all())  # the first row is nan


def test_mixed_samples_show():
    mixing = Subject(lambda x: x + x.mean(dim=0, keepdim=True))
    assert bool((influence(mixing, X, axis=0) > 1e-9).all())


def test_sizes_that_are_built_in_show():
    fixed_tokens = other_sizes(Subject(lambda x: x.view(-1, T, M) * torch.ones(T, 1)), X)
    assert fixed_tokens.keys() == {"tokens"}
    words, line = fixed_tokens["tokens"]
    assert "with an input of (2, 4, 11): RuntimeError: shape" in words and line.startswith("test_probes.py:")
    fixed_samples = other_sizes(Subject(lambda x: x.view(2, -1, M) * 1.0), X)
    assert fixed_samples.keys() == {"tokens", "samples"} or fixed_samples.keys() == {"samples"}
    folded = other_sizes(Subject(lambda x: x.reshape(1, -1, M)), X)
    assert "its output has the shape (1, 8, 11)" in folded["tokens"][0]


def test_multiples_of_a_number_are_no_size_that_is_built_in():
    def frames(x, lead, most):
        if x.shape[1] > most:
            raise ValueError(f"at most {most} tokens")
        return torch.cat([x[:, :lead], x[:, lead:].unflatten(1, (-1, 4)).flatten(1, 2)], dim=1)

    for count, lead, most in ((8, 0, 100), (8, 0, 8), (9, 1, 100), (9, 1, 9), (10, 2, 17)):
        x = torch.randn(2, count, M, dtype=torch.float64)
        assert other_sizes(Subject(lambda x, lead=lead, most=most: frames(x, lead, most)), x) == {}, (count, lead, most)


def test_a_context_is_not_shortened_to_find_a_number_of_tokens():
    def of_four(x):
        return torch.cat([x[:, :-5].unflatten(1, (-1, 4)).flatten(1, 2), x[:, -5:]], dim=1)

    def of_eight(x):
        return torch.cat([x[:, :-5].reshape(len(x), 8 if x.shape[1] > 5 else 0, M), x[:, -5:]], dim=1)

    x = torch.randn(2, 8 + 5, M, dtype=torch.float64)
    assert other_sizes(Subject(of_four), x, num_context=5) == {}
    assert other_sizes(Subject(of_eight), x, num_context=5).keys() == {"tokens"}


def test_dropout_that_stays_on_shows():
    assert difference_between_calls(Subject(lambda x: F.dropout(x, 0.1)), X) > 1e-3


def test_what_can_not_be_run_is_reported_with_its_line():
    def breaks(x):
        y = x * 2
        return y.view(7)

    with pytest.raises(SubjectFailed, match=r"RuntimeError: shape '\[7\]' is invalid") as caught:
        influence(Subject(breaks), X)
    assert caught.value.line == f"test_probes.py:{breaks.__code__.co_firstlineno + 2}"
    with pytest.raises(SubjectFailed, match="shapes cannot be multiplied") as caught:
        influence(Subject(nn.Linear(3, 3)), X)
    assert caught.value.line is None  # no line but PyTorch's own
    with pytest.raises(SubjectFailed, match="it gave back NoneType instead of a tensor"):
        influence(Subject(lambda x: None), X)
    with pytest.raises(SubjectFailed, match=r"shape \(2, 55\) for an input of \(2, 5, 11\): there is no row"):
        influence(Subject(lambda x: x.flatten(1)), X)
    with pytest.raises(TypeError, match="module_or_function must be a module or a function, got int"):
        Subject(3)


def test_the_sizes_of_the_bank_differ():
    assert len({2, T, M, H, G, 7}) == 6
