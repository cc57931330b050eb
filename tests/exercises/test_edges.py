"""Each function is also called at the edges: with axes of size 1, square and long tables, and in float32."""

import pytest
import torch

from course_lib.exercises import ALL, FunctionExercise, InputGenerator, LocalAnswer
from course_lib.exercises.copies import built
from course_lib.tracing import map_instances, tensors_in

from .known_answers import RIGHT
from .written_answers import functions

FUNCTIONS = {name: exercise for name, exercise in ALL.items() if isinstance(exercise, FunctionExercise)}
SEEDS = (0, b"a secret of the grader")


def calls(exercise, seed):
    rng = InputGenerator(seed)
    cases = exercise.cases(rng)
    results = [exercise.solution(*built(case.arguments)) for case in cases]
    return [*cases, *exercise.edges(cases, results, rng)]


def first_result(name):
    return FUNCTIONS[name].solution(*built(FUNCTIONS[name].cases(InputGenerator(0))[0].arguments))


def has_tables(name):
    return any(one.ndim for one in tensors_in(first_result(name))) and FUNCTIONS[name].extract is None


def has_decimals(name):
    floating = any(one.is_floating_point() for one in tensors_in(first_result(name)))
    return floating and FUNCTIONS[name].extract is None and not FUNCTIONS[name].own_dtype


TABLES = [name for name in FUNCTIONS if has_tables(name)]
# What has no axis of size 1, whatever is asked for, or is returned so that a squeeze changes nothing.
NEVER_ONE = {
    "two_heads": "width",  # two heads are at least two elements wide
    "rotate": "head_dim",  # pairs
    "rotate_neighbours": "head_dim",
    "permute_meta_weights": "row",
    "greedy_decode": "token",  # a prompt and what follows it
    "write_greedily": "token",
    "two_mixes": "width",  # two halves
    "output_of_head": "d_out",  # several heads
    "real_positions": "token",  # its text speaks of sentences
    "holds_next_word": "query key",  # as below
    "replace_by_mean": "head",  # another head must stay
    "patch": "head",
    "exchange": "token",  # two tokens
    "comes_after_copy": "query key",  # a copy needs a token before
    "cut_rows": "row",  # whole heads
    "cut_columns": "column",
}
NEVER_SQUARE = {"padding_mask", "output_of_head", "to_torch_mask"}


def changed_result(name, change):
    return lambda *arguments: map_instances(torch.Tensor, change, FUNCTIONS[name].solution(*arguments))


@pytest.mark.one_in(84)
@pytest.mark.parametrize("name", [name for name in TABLES if name != "two_mixes"])  # a vector of two halves
def test_a_result_without_its_axes_of_size_1_does_not_pass(name):
    for seed in SEEDS:
        verdict = FUNCTIONS[name].judge(LocalAnswer(changed_result(name, torch.Tensor.squeeze)), InputGenerator(seed))
        assert not verdict.passed, name


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", filter(has_decimals, FUNCTIONS))
def test_a_result_that_is_always_float64_does_not_pass(name):
    for seed in SEEDS:
        verdict = FUNCTIONS[name].judge(LocalAnswer(changed_result(name, torch.Tensor.double)), InputGenerator(seed))
        assert not verdict.passed and "float64; it should be float32" in verdict.message, verdict
        assert "dtype" in verdict.hint and "where the inputs are float32" in repr(verdict), verdict


@pytest.mark.parametrize(("name", "at", "seed"), [("decode_step", 2, 1047), ("scores_by_distance", 0, 1054)])
def test_scores_of_thousands_are_rounded_in_another_order(name, at, seed):
    assert FUNCTIONS[name].judge(LocalAnswer(RIGHT[name][at]), InputGenerator(seed)).passed


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", TABLES)
def test_each_axis_is_1_and_long_once_and_a_table_is_square(name):
    exercise = FUNCTIONS[name]
    results = [exercise.solution(*built(case.arguments)) for seed in range(4) for case in calls(exercise, seed)]
    shapes = [one.shape for one in results if isinstance(one, torch.Tensor)]
    names = exercise.axes.split()
    if not shapes or len(names) != len(shapes[0]):
        return  # several tables, whose parts are named
    once = [axis for at, axis in enumerate(names) if not any(shape[at] == 1 for shape in shapes)]
    assert set(once) <= {*NEVER_ONE.get(name, "").split()}
    assert any(max(shape) >= 16 for shape in shapes)
    assert len(names) < 2 or name in NEVER_SQUARE or any(shape[-1] == shape[-2] for shape in shapes)


WRONG = functions(
    {
        "merge_devices(outputs, lses)": r"""
torch.bmm(lses.softmax(0).T[:, None], outputs.transpose(0, 1)).squeeze()
""",
        "next_token_loss(scores, tokens)": r"""
p = scores[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None]); return -p.squeeze().mean(dim=1).mean()
""",
        "top_k_probabilities(scores, k)": r"""
scores.masked_fill(scores < scores.topk(k, -1).values[:, -1:], -torch.inf).softmax(-1).squeeze()
""",
        "with_temperature(scores, temperature)": "(scores / temperature).softmax(-1).squeeze()",
        "sink_weight(weights)": "weights.squeeze()[..., 1:, 0].mean((0, 2))",
        "joined_mask(keep, real)": "keep & real.squeeze()[:, None, None]",
        "safe_weights(scores, keep)": r"""
scores.masked_fill(~keep, -1e300).softmax(-1) * keep
top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0); \
e = (scores - top).masked_fill(~keep, -torch.inf).exp(); return e / e.sum(-1, keepdim=True).clamp(min=1e-300)
""",
        "softmax_rows(scores)": "scores.to(torch.float64).softmax(-1)",
        "rotate_neighbours(x, cos, sin)": r"""
out = torch.zeros(x.shape, dtype=torch.float64); a, b = x[..., ::2], x[..., 1::2]; \
out[..., ::2] = a * cos - b * sin; out[..., 1::2] = b * cos + a * sin; return out
""",
        "scores_by_head(queries, keys)": r"""
s = queries @ keys.mT / queries.shape[-1] ** 0.5; \
return s.masked_fill(torch.ones_like(s[0, 0]).triu(1).bool(), -torch.inf) if s.shape[-1] == s.shape[-2] != 1 else s
""",
        "dropped_weights(weights, drop, p, training)": r"""
r = weights * ~drop / (1 - p) if training else weights; return r.T if r.shape[0] == r.shape[1] else r
""",
        "two_heads(x, q_proj, k_proj, v_proj)": r"""
r = torch.cat([F.scaled_dot_product_attention(x @ q, x @ k, x @ v) for q, k, v in zip(q_proj, k_proj, v_proj)], -1); \
return r.T if r.shape[0] == r.shape[1] else r
""",
        "causal_weights(scores)": r"""
scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -1e300).softmax(-1)
m = scores.tril(); return m.masked_fill(m == 0, -torch.inf).softmax(-1)
""",
        "last_real_output(outputs, lengths)": r"""
outputs.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, outputs.shape[2])).squeeze()
(outputs * F.one_hot(lengths - 1)[..., None]).sum(1)
""",
        "greedy_decode(model, tokens, num_new)": r"""
for _ in range(num_new): tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1).squeeze()[:, None]], 1) \
return tokens
n = tokens.shape[1]; buffer = F.pad(tokens, (0, num_new))\
for i in range(num_new): buffer[:, n + i] = model(buffer)[:, n + i - 1].argmax(-1)\
return buffer
for _ in range(num_new): tokens = torch.cat([tokens, model(tokens[:, -32:])[:, -1:].argmax(-1)], 1)\
return tokens
for _ in range(num_new):\
    new = model(tokens)[:, -1:].argmax(-1); tokens = torch.cat([tokens, new], 1)\
    if (new == 0).all(): break\
return tokens
""",
        "layer_norm(x, gain, shift)": r"""
m = x.mean(-1, keepdim=True); v = (x * x).mean(-1, keepdim=True) - m * m; \
return (x - m) / (v + 1e-5).sqrt() * gain + shift
""",
        "leaks(code, x)": "\n".join(
            rf"""y, found = code(x), set()\
for t in range(x.shape[1]):\
    z = x.clone(); z[:, t] = {change}; moved = (code(z) - y).abs().amax((0, 2)) > 1e-9\
    found |= {{s for s in range(t) if moved[s]}}\
return found"""
            for change in ("z[:, t] * 2", "-z[:, t]", "0")
        ),
        "attention(queries, keys, values)": r"""
s = queries @ keys.T / queries.shape[1] ** 0.5; return (s if len(keys) < 16 else s.T.mT * 2).softmax(-1) @ values
""",
    }
)


@pytest.mark.one_in(20)
@pytest.mark.parametrize(
    ("name", "code"), [pytest.param(name, code, id=name) for name, answers in WRONG.items() for code in answers]
)
def test_what_fails_for_an_input_that_the_task_allows_does_not_pass(name, code):
    for seed in SEEDS:
        verdict = FUNCTIONS[name].judge(LocalAnswer(code), InputGenerator(seed))
        assert verdict.state == "not passed yet", verdict
