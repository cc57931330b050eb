"""Answers that once passed although they are wrong, or were refused with a sentence that says nothing."""

import pytest

from course_lib.exercises import ALL, InputGenerator, LocalAnswer, review
from course_lib.exercises.lesson_07.scores_by_distance import EXERCISE as SCORES_BY_DISTANCE
from course_lib.exercises.review_answers import is_right, is_too_rough

from .written_answers import run_cell

GROWN = """
def append_to_cache(cache, keys, values):
    return torch.cat([cache[0]{keys}, keys], dim=2), torch.cat([cache[1]{values}, values], dim=2)
"""
BLOCKED = """
def blocked_attention(queries, keys, values, block, causal):
    context, computed = torch.zeros(len(queries), values.shape[1], dtype=values.dtype), 0
    for first in range(0, len(queries), block):
        rows = queries[first : first + block] * queries.shape[1] ** -0.5
        largest, total = torch.full_like(rows[:, 0], {start}), torch.zeros_like(rows[:, 0])
        mixed = torch.zeros(len(rows), values.shape[1], dtype=values.dtype)
        for at in range(0, first + 1 if causal else len(keys), block):
            scores = rows @ keys[at : at + block].T
            if causal and at == first:
                scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), {fill})
            new = torch.maximum(largest, scores.amax(-1))
            shrink, weights = (largest - new).exp(), (scores - new[:, None]).exp()
            total, mixed = total * shrink + weights.sum(-1), mixed * shrink[:, None] + weights @ values[at : at + block]
            largest, computed = new, computed + 1
        context[first : first + block] = mixed / total[:, None]
    return context, computed
"""
LEAKS = """
def leaks(code, x):
    before, found = code(x), []
    for token in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, token] += 1
        moved = (code(changed) - before).abs().amax(dim=(0, 2)) > 1e-9
        found += [one for one in range(token) if moved[one]]
    return {result}
"""
WIDE = """
class MyHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=False, {dtype})
        self.W_key = nn.Linear(d_in, d_out, bias=False, {dtype})
        self.W_value = nn.Linear(d_in, d_out, bias=False, {dtype})

    def forward(self, x):
        queries, keys = self.W_query(x), self.W_key(x)
        return (queries @ keys.transpose(1, 2) * keys.shape[2] ** -0.5).softmax(-1) @ self.W_value(x)
"""
SLIPS = [
    ("dropped_weights(w, drop, p, training)", "return w * ~drop / (1 - p) if training else w * (1 - p)", "have grown"),
    ("dropped_weights(w, drop, p, training)", "return w * ~drop if training else w * (1 - p)", "scales in evaluation"),
    ("slot_of(strides, index)", "return sum(a * b for a, b in zip(strides[:-1], index))", "along the last axis"),
    ("strides_by_head(t, h, d)", "return t * h * d, h, h * d, 1", "a head is head_dim wide"),
    ("from_heads(x)", "return x.transpose(2, 3).reshape(len(x), x.shape[2], -1)", "heads and tokens should be"),
    ("rows_of_head(w, i, h)", "n = len(w) // h; return w[(i - 1) * n : i * n]", "counted from 0"),
    ("rows_of_head(w, i, h)", "n = w.shape[1] // h; return w[i * n : (i + 1) * n]", "that the heads share"),
    ("to_torch_mha(q, k, v, out)", "return torch.cat([q.T, k.T, v.T]), out.T", "all four matrices transposed"),
    ("to_torch_mha(q, k, v, out)", "return torch.cat([q / len(q) ** 0.5, k, v]), out", "query matrix that is scaled"),
    (
        "rotary_table(t, d, base)",
        "a = torch.arange(t)[:, None] * 1e4 ** (-torch.arange(0, d, 2).double() / d); return a.cos(), a.sin()",
        "base of 10000",
    ),
    ("last_real_output(o, n)", "return o[torch.arange(len(o)), -n]", "counted from the end"),
    (
        "window_mask(n, w)",
        "d = torch.arange(n)[:, None] - torch.arange(n); return (d > 0) & (d < w)",
        "one token short",
    ),
    (
        "sink_weights(s, z)",
        "return torch.cat([s, z[:, None, None].expand(-1, s.shape[1], 1)], -1).softmax(-1)[..., 1:]",
        "the first key's column",
    ),
    (
        "future_probe(code, x, t)",
        "y = x.clone(); y[:, t] += 1; return not torch.allclose(code(y)[:, t + 1 :], code(x)[:, t + 1 :])",
        "behind the changed token",
    ),
    (
        "future_probe(code, x, t)",
        "y = x.clone(); y[:, t] += 1; return bool((code(y) - code(x))[:, :t].max() > 1e-9)",
        "overlooks outputs that move down",
    ),
    (
        "cache_probe(code, x, size)",
        "c = {}; return (torch.cat([code(one, c) for one in x.chunk(size, 1)], 1) - code(x, {})).abs().max()",
        "for `size` pieces",
    ),
    (
        "cache_probe(code, x, size)",
        "c, n = {}, len(x[0]) // size * size; y = x[:, :n]; "
        "return (torch.cat([code(one, c) for one in y.split(size, 1)], 1) - code(y, {})).abs().max()",
        "without the last piece",
    ),
]
WRONG = [
    ("append_to_cache", GROWN.format(keys=".detach()", values=".detach()"), "no gradient reaches `cache`"),
    ("append_to_cache", GROWN.format(keys="", values=".data"), "no gradient reaches `cache`"),
    ("blocked_attention", BLOCKED.format(start="0.0", fill="-torch.inf"), "largest score starts at a number"),
    ("blocked_attention", BLOCKED.format(start="-1000.0", fill="-torch.inf"), "largest score starts at a number"),
    ("blocked_attention", BLOCKED.format(start="-torch.inf", fill="0.0"), "hidden scores are 0,"),
    ("blocked_attention", BLOCKED.format(start="-torch.inf", fill="-1000.0"), "hidden scores are -1000"),
    ("leaks", LEAKS.format(result="found"), "names a token once for each later token"),
    ("leaks", LEAKS.replace(".abs()", "").format(result="sorted(set(found))"), "overlooks outputs that move down"),
    (
        "last_real_output",
        "def last_real_output(outputs, lengths): return outputs[:, lengths - 1]",
        "all samples by all",
    ),
]
RIGHT = [
    ("append_to_cache", GROWN.format(keys="", values="")),
    ("blocked_attention", BLOCKED.format(start="-torch.inf", fill="-torch.inf")),
    *(("leaks", LEAKS.format(result=one)) for one in ("set(found)", "sorted(set(found))", "torch.tensor([*{*found}])")),
]


def judged(name, source, seed=0):
    return ALL[name].judge(LocalAnswer(run_cell(source, name)), InputGenerator(seed))


@pytest.mark.one_in(10)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("name", "source", "words"), WRONG)
def test_it_is_refused_and_named(name, source, words, seed):
    verdict = judged(name, source, seed)
    assert not verdict.passed and words in verdict.message


@pytest.mark.parametrize(("signature", "body", "words"), SLIPS)
def test_a_slip_is_named_however_it_is_written(signature, body, words):
    verdict = judged(signature.split("(")[0], f"def {signature}: {body}")
    assert not verdict.passed and words in verdict.message


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "source"), RIGHT)
def test_its_right_neighbour_passes(name, source):
    assert judged(name, source).passed


def test_layers_in_a_dtype_of_their_own_get_a_note():
    """The judge computes in float64; with PyTorch's default dtype such a class would stop."""
    wide = judged("MyHead", WIDE.format(dtype="dtype=torch.float64"))
    assert wide.passed and "`W_query.weight` is made in float64, which is not PyTorch's default" in repr(wide)
    assert "is made in" not in repr(judged("MyHead", WIDE.format(dtype="")))


@pytest.mark.parametrize("seed", range(30))
def test_no_two_sizes_of_scores_by_distance_coincide(seed):
    """Pairs, elements and distances: a table of (5, 5) would hide a transposed one."""
    for query, _, distances, _ in (case.arguments for case in SCORES_BY_DISTANCE.cases(InputGenerator(seed))):
        assert len({len(query) // 2, len(query), distances}) == 3


def test_a_question_says_how_precise_its_answer_must_be():
    """0.33 for 1/3 is refused, with a sentence that says why; whole numbers need none."""
    assert not is_right(1 / 3, 0.33) and is_too_rough(1 / 3, 0.33) and is_right(1 / 3, "1/3") and is_right(1 / 3, 0.333)
    assert not any(is_too_rough(*pair) for pair in [(1 / 3, 3), (3, 2.9), (1 / 3, "a"), (1 / 3, True), ("yes", 0.3)])
    seen = [review("03", seed=seed).lines for seed in range(20)]
    fractions = [line for lines in seen for line in lines if "How large is each attention weight" in line]
    assert fractions and all("Give three digits, or a fraction as text" in line for line in fractions)
    at = next(seed for seed, lines in enumerate(seen) if "How large is each attention weight" in lines[0])
    assert any(
        "is near, but has too few right digits. " in review("03", [round(1 / n, 2) + 0.001, 0, 0], seed=at).lines[0]
        for n in range(2, 7)
    )
