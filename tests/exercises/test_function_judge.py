"""What a stranger found in the judge of functions: inputs that were never drawn, and sentences that were not true."""

import pytest
import torch

from course_lib.exercises import ALL, InputGenerator, LocalAnswer
from course_lib.exercises.differences import Expected, difference
from course_lib.exercises.factors import constant_factor
from course_lib.exercises.relations import relation

from .written_answers import functions

SCORES = "causal_weights(scores)"
SAFE = "safe_weights(scores, keep)"
MERGE = "merge_partial(out_a, lse_a, out_b, lse_b)"
LEAKS = r"""
y = code(x); f = set() \
for t in range(1, x.shape[1]): \
    c = x.clone(); c[:, t{0}] += 1; f |= {{i for i in range(t) if not torch.allclose(code(c)[:, i{1}], y[:, i{1}])}} \
return sorted(f)
"""
PART = "b, t, _ = x.shape; q, k, v = ((x @ w.T).view(b, t, -1, head_dim).transpose(1, 2) for w in (w_q, w_k, w_v)); "
PART += "w = (q @ k.mT / head_dim ** 0.5).masked_fill(torch.ones(t, t).triu(1).bool(), -30.0).softmax(-1); "
PART += "return (w @ v).transpose(1, 2).flatten(2) @ w_o.T"

# Signature, answer, words of the message. All of these passed, or were told something that was not true.
SAID = [
    (
        "split_heads(x, num_heads)",
        "y = x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3); return y if y.shape[3] > 1 else y.flip(1)",
        ("reverse order of head",),
    ),
    (
        "multi_query(queries, keys, values)",
        "y = F.scaled_dot_product_attention(queries, keys[:, None], values[:, None]); "
        "return y if y.shape[1] > 1 else y[:, 0]",
        ("an axis of size 1 is missing",),
    ),
    (SCORES, "e = scores.exp().tril(); return e / e.sum(-1, keepdim=True)", ("without a guard",)),
    (SCORES, "w = scores.softmax(-1).tril(); return w / w.sum(-1, keepdim=True)", ("nothing is left",)),
    (SCORES, "(scores - 100 * torch.ones_like(scores).triu(1)).softmax(-1)", ("a fixed number was taken",)),
    (SCORES, "scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -1e4).softmax(-1)", ("not below all scores",)),
    (
        SAFE,
        "e = (scores - scores.amax(-1, keepdim=True)).exp() * keep; return e / e.sum(-1, keepdim=True).clamp(min=1e-30)",
        ("hidden scores still count",),
    ),
    (SAFE, "e = scores.exp() * keep; return e / e.sum(-1, keepdim=True).clamp(min=1e-9)", ("without a guard",)),
    (SAFE, "scores.masked_fill(~keep, -30.0).softmax(-1) * keep", ("a fill value that is not below",)),
    (
        MERGE,
        "m = torch.maximum(lse_a, lse_b).max(); a, b = (lse_a - m).exp(), (lse_b - m).exp(); "
        "return (a[:, None] * out_a + b[:, None] * out_b) / (a + b)[:, None], m + (a + b).log()",
        ("the largest lse of all queries",),
    ),
    ("leaks(code, x)", LEAKS.format(", 0", ""), ("the first channel only",)),
    ("leaks(code, x)", LEAKS.format("", ", 0"), ("the first channel only",)),
    ("partial_output(x, w_q, w_k, w_v, w_o, head_dim)", PART, ("not below all others",)),
    (
        "without_gradient(module, x, token)",
        "module(x)[:, :token + 1].square().sum().backward(); "
        "return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]",
        ("up to this one",),
    ),
    (
        "padding_mask(lengths, num_tokens)",
        "lengths = sorted(lengths); return (torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None]",
        ("another one's mask",),
    ),
    (
        "padding_mask(lengths, num_tokens)",
        "lengths.append(1); return (torch.arange(num_tokens) < torch.tensor(lengths)[:-1, None])[:, None, None]",
        ("changes the list itself", "`.append()`"),
    ),
    (
        "strides_by_head(num_tokens, num_heads, head_dim)",
        "num_tokens * num_heads * head_dim / 1, head_dim, num_heads * head_dim, 1",
        ("They are fractions", "`/` or `//`"),
    ),
    (
        "cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number)",
        "2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number / 1024",
        ("1 / 1024 in every call",),
    ),
    (SCORES, "(scores + torch.full_like(scores, -torch.inf).triu(1)).log_softmax(-1)", ("these are logarithms",)),
    (
        "ablate_head(contexts, w_o, head)",
        "c = contexts.clone(); c[:, head - 1] = 0; return c.transpose(1, 2).flatten(2) @ w_o.T",
        ("without the head before",),
    ),
]
UNSAID = [
    ("softmax_rows(scores)", "(-scores).softmax(-1)", "reverse order"),
    ("split_heads(x, num_heads)", "x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3).roll(1, 2)", "reverse order"),
    ("mix_heads(contexts, w_o)", "sum(c @ w_o[:, :c.shape[-1]].T for c in contexts)", "parameters"),
    (
        "ablate_head(contexts, w_o, head)",
        "c = contexts.clone(); c[:, head // 2 * 2 + 1] = 0; return c.transpose(1, 2).flatten(2) @ w_o.T",
        "in place of a size",
    ),
]


def judged(signature, body, seed):
    name = signature.split("(")[0]
    return ALL[name].judge(LocalAnswer(functions({signature: body})[name][0]), InputGenerator(seed))


@pytest.mark.one_in(20)
@pytest.mark.parametrize(("signature", "body", "said"), SAID)
def test_a_wrong_answer_is_named_on_every_seed(signature, body, said):
    for seed in range(3):
        verdict = judged(signature, body, seed)
        assert verdict.state == "not passed yet" and verdict.hint, (seed, verdict)
        assert all(words in repr(verdict) for words in said), (seed, verdict)


@pytest.mark.parametrize(("signature", "body", "unsaid"), UNSAID)
def test_a_sentence_that_is_not_true_is_not_said(signature, body, unsaid):
    for seed in range(3):
        verdict = judged(signature, body, seed)
        assert verdict.state == "not passed yet" and unsaid not in repr(verdict), (seed, verdict)


def test_integers_have_no_digits_after_the_point():
    found = difference(83.5, Expected(83))
    assert found is not None and "83.5000; it should be 83." in found.sentence
    found = difference(84.0, Expected(83.0))
    assert found is not None and "84.0; it should be 83.0." in found.sentence


def test_a_vector_that_is_right_at_its_beginning_only_is_described():
    right = torch.arange(1.0, 6.0, dtype=torch.float64).sin()
    wrong = torch.cat([right[:1], right[1:] ** 2])
    found = relation(wrong, Expected(right, axes="distance"))
    assert found is not None and "right at 0 and wrong elsewhere" in found.sentence


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ((2.0, 2.0), "2 in every call"), ((-2.0, -2.0), "-2 in every call"), ((0.5, 0.5), "1 / 2 in every call"),
        ((-0.25, -0.25), "1 / -4 in every call"), ((1 / 1024, 1 / 1024), "1 / 1024 in every call"),
        ((1.0, 1.0), ""), ((0.0, 0.0), ""), ((2.0, -2.0), ""), ((2.0, 1.0), ""), ((2.0,), ""),
    ],
)  # fmt: skip
def test_a_factor_of_all_calls_is_written_as_the_number_that_is_larger(factors, said):
    right = (torch.tensor([3.0, -5.0]), torch.tensor([0.5, 7.0]))
    calls = zip(factors, right[: len(factors)], strict=True)
    assert constant_factor([(factor * value, Expected(value)) for factor, value in calls]) == said
