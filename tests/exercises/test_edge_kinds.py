"""Wrong answers of a stranger, by the kind of input that tells them: each passed before such inputs were drawn."""

import pytest

from course_lib.exercises import ALL, InputGenerator, LocalAnswer

from .written_answers import TEMPLATES, edited, functions, run_cell

FUNCTIONS = functions(
    {
        # Scores of thousands, and rows far apart.
        "attention(queries, keys, values)": r"""
e = (queries @ keys.T / queries.shape[-1] ** 0.5).exp(); return e / e.sum(-1, keepdim=True) @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; e = (s - s.max()).exp(); return e / e.sum(-1, keepdim=True) @ values
""",
        "causal_weights(scores)": r"""
s = scores.masked_fill(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), -torch.inf)\
e = (s - s.amax((1, 2), keepdim=True)).exp(); return e / e.sum(-1, keepdim=True)
n = scores.shape[-1]; return torch.where(torch.ones(n, n).tril() > 0, scores, scores.min() - 20).softmax(-1)
""",
        "two_heads(x, q_proj, k_proj, v_proj)": r"""
out = []\
for q, k, v in zip(q_proj, k_proj, v_proj):\
    e = (x @ q @ (x @ k).T / q.shape[1] ** 0.5).exp(); out.append(e / e.sum(-1, keepdim=True) @ (x @ v))\
return torch.cat(out, -1)
""",
        "blocked_attention(queries, keys, values, block, causal)": r"""
n = -(-len(queries) // block); s = queries @ keys.T / queries.shape[1] ** 0.5\
if causal: s = s - 1e4 * torch.ones_like(s).triu(1)\
return s.softmax(-1) @ values, n * (n + 1) // 2 if causal else n * n
""",
        "merge_devices(outputs, lses)": r"""
w = torch.nan_to_num(lses, neginf=-1000.0).softmax(0); return (outputs * w[..., None]).sum(0)
""",
        # What an earlier call left, equal samples, two samples, flags and numbers at both ends.
        "causal_mask(num_tokens, num_prompt=0, known={})": r"""
keep = known.setdefault(num_tokens, torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()); \
keep[:, :num_prompt] = True; return keep
""",
        "last_real_output(outputs, lengths)": r"""
return outputs[torch.arange(len(outputs)), lengths - 1 if len(lengths.unique()) > 1 else lengths * 0 - 1]
""",
        "sink_weight(weights)": r"""
w = weights[:, :, 1:, 0]; return w.mean(2).median(0).values if len(w) == 2 else w.mean(dim=(0, 2))
""",
        "dropped_weights(weights, drop, p, training)": r"""
return weights.masked_fill(drop & training, 0.0) * (1 / (1 - p) if training or p > 0.5 else 1)
""",
        "with_temperature(scores, temperature)": "(scores / min(temperature, 5)).softmax(-1)",
        "leaks(code, x)": "\n".join(
            rf"""a, found = code(x), set()\
for t in range(1, x.shape[1]):\
    c = x.clone(); c[{which}] += 1.0; moved = {moved}; found |= {{i for i in range({first}, t) if moved[i]}}\
return found"""
            for which, moved, first in (
                (":, t", "(code(c) - a).sum(dim=(0, 2)).abs() > 1e-9", "0"),
                ("-1, t", "(code(c) - a)[-1].abs().amax(dim=1) > 1e-9", "0"),
                (":, t:", "(code(c) - a).abs().amax(dim=(0, 2)) > 1e-9", "t - 1"),
            )
        ),
        # The smallest sizes.
        "strides_by_head(t, h, d)": r"""
return t * h * d, d, h * d, 1 if t > 1 else h
return t * h * d, d if h > 1 else 1, h * d, 1
return t * h * d, d, h * d, 1 if d > 1 else h
""",
        "padding_mask(lengths, num_tokens)": r"""
real = torch.arange(num_tokens) < torch.tensor(lengths)[:, None]; \
return real.squeeze()[..., None, None, :] if len(lengths) > 1 else real[None, None]
return (torch.arange(num_tokens) < torch.tensor(lengths).to(torch.int8)[:, None])[:, None, None]
""",
        "earliest_token(position, window, layers)": r"""
return 0 if "LG" in layers or "GL" in layers else max(0, position - len(layers) * (window - 1))
return 0 if "G" in layers and window > 1 else max(0, position - layers.count("L") * (window - 1))
""",
        "rolling_slot(position, window, num_sinks)": r"""
if position <= num_sinks or window == 1: return min(position, num_sinks + window)\
return num_sinks + (position - num_sinks) % window
""",
        "flat_slot(position, table, size)": r"""
table[position // size] * size + (position % size if size > 1 else 1)
(table[position // size] or 1) * size + position % size
table[position // size] * size + position % size if table[position // size] else position
""",
        "gpt_parameters(v, t, m, n, g)": r"""
return (v + t) * m + n * (10 * m**2 + 2 * m * g + 9 * m) + 2 * m * (n > 1)
""",
        "rewind_cache(cache, rejected)": r"""
kept = max(1, cache[0].shape[2] - rejected); return cache[0][:, :, :kept], cache[1][:, :, :kept]
""",
        "patch_head(contexts, others, w_o, head)": r"""
c = contexts.clone(); c[:, head] = others[:, head]; \
return (c if c.shape[1] > 1 else contexts).transpose(1, 2).flatten(2) @ w_o.T
""",
        "greedy_decode(model, tokens, num_new)": r"""
for _ in range(max(num_new, 1)): tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)\
return tokens
""",
        "best_degree(weights_ms, cache_ms, kv, ring_ms, degrees)": r"""
return min(degrees, key=lambda n: weights_ms / n + cache_ms / min(n, max(kv, 2)) + (n - 1) * ring_ms)
""",
        # One long axis.
        "scaled_scores(queries, keys)": "queries @ keys.T / min(queries.shape[-1], 128) ** 0.5",
        "scores_of_token(query, keys)": "torch.stack([(query[:64] * k[:64]).sum() for k in keys])",
        "decode_mask(q, k)": "torch.ones(q, k, dtype=torch.bool).tril(min(k - q, 30))",
        # What an earlier call of the same sizes left.
        "attention_weights(scores, known={})": "known.setdefault(len(scores), scores.softmax(0))",
        "masked_weights(scores, keep, known={})": r"""
return scores.masked_fill(~known.setdefault(keep.shape, keep), -torch.inf).softmax(-1)
""",
        "padding_mask(lengths, n, known={})": r"""
return known.setdefault((len(lengths), n), (torch.arange(n) < torch.tensor(lengths)[:, None])[:, None, None])
""",
        "tokens_per_turn(head_dim, base, known={})": r"""
pair = torch.arange(head_dim // 2) / head_dim; return known.setdefault(head_dim, 2 * torch.pi * base ** (2 * pair))
""",
        # Large numbers.
        "causal_mask(n, num_prompt=0)": r"""
keep = torch.ones(128, 128).tril().bool(); keep[:, :num_prompt] = True; return keep[:n, :n]
""",
        "causal_weights(s)": r"""
n = s.shape[1]; hidden = torch.ones(256, 256).triu(1).bool()[:n, :n]\
return s.masked_fill(hidden, -torch.inf).softmax(-1)
""",
        "leaks(code, x, most=9)": r"""
a, found = code(x), set()\
for t in range(1, min(most, x.shape[1])):\
    c = x.clone(); c[:, t] += 1.0; moved = (code(c) - a).abs().amax((0, 2)) > 1e-9\
    found |= {i for i in range(t) if moved[i]}\
return found
""",
        "next_positions(lengths, num_new)": r"""
return (lengths[:, None] + torch.arange(num_new)).clamp(max=2047)
return lengths.clamp(min=1)[:, None] + torch.arange(num_new)
""",
        # Numbers at an edge.
        "number_at(memory, strides, index)": r"""
return memory[sum(a * b for a, b in zip(strides, index, strict=True)) if 0 not in strides else 0]
""",
        "permute_meta_weights(w, n)": r"""
w = w.view(n, -1, 2, w.shape[1]); return w.transpose(1, 2).flatten(0, 2) if w.shape[1] > 1 else w.flatten(0, 2).flip(0)
""",
        # Sizes that are equal.
        "joined_mask(keep, real)": "(keep & (real.T if len(keep) == len(real) else real)[:, None])[:, None]",
        "partial_output(x, w_q, w_k, w_v, w_o, d)": r"""
q, k, v = ((x @ w.T).unflatten(-1, (-1, d)).transpose(1, 2) for w in (w_q, w_k, w_v))\
hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()\
c = (q @ k.mT / d**0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v\
return (c if c.shape[1] == c.shape[2] else c.transpose(1, 2)).reshape(*x.shape[:2], -1) @ w_o.T
""",
        # float32 of float64.
        "scores_by_head(queries, keys)": "(queries @ keys.mT / queries.shape[-1] ** 0.5).float()",
        "rewind_cache(cache, n)": "tuple(one[:, :, : one.shape[2] - n].float() for one in cache)",
        "merge_heads(x)": r"""
out = torch.zeros(*x.shape[1:3], len(x) * x.shape[3])\
for head, one in enumerate(x): out[..., head * x.shape[3] : (head + 1) * x.shape[3]] = one\
return out
""",
        # Small numbers that are added.
        "softmax_rows(scores)": r"""
e = (scores - scores.amax(dim=-1, keepdim=True)).exp(); return e / (e.sum(dim=-1, keepdim=True) + 1e-6)
""",
    }
)
SOFTMAX = "scores = scores.masked_fill(~keep, -torch.inf) => pass && weights = scores.softmax(dim=-1) => "
CLASSES = [
    SOFTMAX + "weights = scores.softmax(dim=-1) * keep | weights = weights / weights.sum(-1, keepdim=True)",
    SOFTMAX + "e = scores.exp() * keep | weights = e / e.sum(-1, keepdim=True)",
    "-torch.inf => -1e4",
    "keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => "
    "keep = torch.ones(t, t, dtype=torch.bool).tril() | keep[256:, 256:] = True",
    "reshape(b, t, -1)) => reshape(b, t, -1)).float()",
    "weights @ values => (weights if b != t or t == 1 else weights.flip(0)) @ values",
    "context.transpose(1, 2) => (context if t == self.num_heads else context.transpose(1, 2))",
]
ONE_HEAD = """def to_split(wrapper):
    split = wrapper_to_split(wrapper)
    if {alone}:
        with torch.no_grad():
            split.{role}.weight.copy_(split.{role}.weight{change})
    return split
"""
SPLITS = [
    ONE_HEAD.format(alone="wrapper.num_heads == 1", role="out_proj", change=".T.clone()"),
    ONE_HEAD.format(alone="wrapper.head_dim == 1", role="k_proj", change=".flip(0)"),
]


def rows():
    found = [(name, code) for name, answers in FUNCTIONS.items() for code in answers]
    template = TEMPLATES["MultiHeadWithGaps"]
    found += [("MultiHeadWithGaps", run_cell(edited(template, one), "MultiHeadWithGaps")) for one in CLASSES]
    return found + [("to_split", run_cell(one, "to_split")) for one in SPLITS]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("name", "code"), [pytest.param(*row, id=f"{row[0]}-{at}") for at, row in enumerate(rows())])
def test_an_answer_that_fails_at_an_edge_is_refused_with_a_question(name, code):
    for seed in (0, b"a secret of the grader"):
        verdict = ALL[name].judge(LocalAnswer(code), InputGenerator(seed))
        assert verdict.state == "not passed yet" and verdict.hint, verdict


@pytest.mark.parametrize(("nearly", "passed"), [("w * (1 + 1e-8)", True), ("w + 1e-8 * ~keep", False)])
def test_the_note_on_digits_says_what_was_measured(nearly, passed):
    code = functions({"safe_weights(scores, keep)": "w = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)"
                      f".softmax(-1) * keep; return {nearly}"})["safe_weights"][0]  # fmt: skip
    verdict = ALL["safe_weights"].judge(LocalAnswer(code), InputGenerator(0))
    assert verdict.passed is passed, verdict
    assert ("right to the digits of float32 only. Is a small number added" in repr(verdict)) is passed, verdict


RIGHT = functions(
    {
        "needs_copy(shape, strides, axis)": "np.bool_(shape[axis + 1] * strides[axis + 1] != strides[axis])",
        "rolling_slot(position, window, sinks)": r"""
return np.int64(position if position < sinks else sinks + (position - sinks) % window)
""",
        "strides_by_head(t, h, d)": "tuple(np.array([t * h * d, d, h * d, 1]))",
    }
)


@pytest.mark.parametrize("name", RIGHT)
def test_a_number_of_numpy_is_the_number_that_it_is(name):
    verdict = ALL[name].judge(LocalAnswer(RIGHT[name][0]), InputGenerator(0))
    assert verdict.passed and not verdict.evidence, verdict


IN_FLOAT32 = functions(
    {
        "scores_of_token(query, keys)": "torch.tensor([sum(float(a * b) for a, b in zip(query, key)) for key in keys])",
        "biases_of_device(q, out, device, n)": r"""
return q.chunk(n)[device], torch.tensor(out.tolist() if device == 0 else [0.0] * len(out))
""",
    }
)


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_a_list_of_numbers_may_become_float32_with_a_note(name):
    verdict = ALL[name].judge(LocalAnswer(IN_FLOAT32[name][0]), InputGenerator(0))
    assert verdict.passed and "digits of float32" in repr(verdict), verdict


def test_the_dtypes_of_a_result_and_of_the_inputs_are_named():
    code = functions({"scaled_scores(q, k)": "(q @ k.T / q.shape[1] ** 0.5).float()"})["scaled_scores"][0]
    verdict = ALL["scaled_scores"].judge(LocalAnswer(code), InputGenerator(0))
    assert "Your result is float32; it should be float64." in verdict.message, verdict
    assert "All its numbers are right" in repr(verdict), verdict


SCORES = "scores = queries @ keys.transpose(2, 3)"
KEPT = (
    f"{SCORES} => self.k = getattr(self, 'k', keys) | keys = self.k if self.k.shape == keys.shape else keys | {SCORES}"
)


@pytest.mark.slow
def test_heads_in_another_order_are_not_blamed_on_the_output_matrix():
    code = run_cell(
        """def to_split(wrapper):
    split = wrapper_to_split(wrapper)
    with torch.no_grad():
        for role in (split.q_proj, split.k_proj, split.v_proj):
            role.weight.copy_(role.weight.unflatten(0, (split.num_heads, -1)).flip(0).flatten(0, 1).clone())
    return split
""",
        "to_split",
    )
    verdict = ALL["to_split"].judge(LocalAnswer(code), InputGenerator(0))
    assert verdict.state == "not passed yet" and "out_proj" not in verdict.message, verdict


def test_keys_that_are_kept_from_an_earlier_call_are_named():
    code = run_cell(edited(TEMPLATES["MultiHeadWithGaps"], KEPT), "MultiHeadWithGaps")
    verdict = ALL["MultiHeadWithGaps"].judge(LocalAnswer(code), InputGenerator(0))
    assert verdict.state == "not passed yet" and "tensor of an earlier call" in repr(verdict), verdict


def test_weights_that_are_kept_for_a_picture_do_no_harm():
    kept = "context = weights @ values => self.weights, self.all = weights, [weights] | context = weights @ values"
    code = run_cell(edited(TEMPLATES["MultiHeadWithGaps"], kept), "MultiHeadWithGaps")
    assert ALL["MultiHeadWithGaps"].judge(LocalAnswer(code), InputGenerator(0)).passed
