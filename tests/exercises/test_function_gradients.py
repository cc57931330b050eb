"""A function whose result belongs into a layer that is trained lets gradients through."""

import pytest

from course_lib.exercises import ALL, EXERCISES, InputGenerator, LocalAnswer

from .written_answers import functions

SILENT = functions(
    {
        "attention(queries, keys, values)": r"""
(queries.detach() @ keys.T / queries.shape[1] ** 0.5).softmax(-1) @ values
(queries @ keys.T / queries.shape[1] ** 0.5).softmax(-1).data @ values
(queries @ keys.T / queries.shape[1] ** 0.5).softmax(-1) @ values.detach()
with torch.no_grad(): return (queries @ keys.T / queries.shape[1] ** 0.5).softmax(-1) @ values
""",
        "scaled_scores(queries, keys)": r"""
torch.tensor([[(q @ k).item() / len(q) ** 0.5 for k in keys] for q in queries])
""",
        "softmax_rows(scores)": r"""
e = (scores - scores.amax(-1, keepdim=True)).exp(); return e / e.sum(-1, keepdim=True).detach()
""",
        "causal_weights(scores)": r"""
s = scores.data.clone(); s[:, torch.ones_like(s[0]).triu(1).bool()] = -torch.inf; return s.softmax(-1)
""",
        "safe_weights(scores, keep)": r"""
scores.detach().masked_fill(~keep, -1e30).softmax(-1) * keep
""",
        "mix_heads(contexts, w_o)": r"""
torch.cat([contexts[0], *(c.detach() for c in contexts[1:])], -1) @ w_o.T
""",
        "two_heads(x, q_proj, k_proj, v_proj)": r"""
a = [F.scaled_dot_product_attention(x @ q, x @ k, x @ v) for q, k, v in zip(q_proj, k_proj, v_proj)]; \
return torch.cat([a[0], a[1].detach()], -1)
""",
        "multi_query(queries, keys, values)": r"""
F.scaled_dot_product_attention(queries, keys[:, None].detach(), values[:, None])
""",
        "split_heads(x, num_heads)": "x.detach().unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)",
        "cross_attention(x, context, w_q, w_k, w_v)": r"""
F.scaled_dot_product_attention(x @ w_q.T, context.detach() @ w_k.T, context @ w_v.T)
""",
        "rotate(x, cos, sin)": r"""
a, b = x.data.chunk(2, -1); return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
""",
        "masked_weights(scores, keep)": "scores.detach().masked_fill(~keep, -torch.inf).softmax(-1)",
        "output_of_head(context, w_o, head)": "context @ w_o.detach().split(context.shape[-1], 1)[head].T",
        "to_heads(x, num_heads)": "x.detach().unflatten(2, (num_heads, -1)).transpose(1, 2)",
        "from_heads(x)": "x.data.transpose(1, 2).flatten(2)",
        "project_to_heads(x, weight, num_heads)": r"""
(x @ weight.detach().T).unflatten(2, (num_heads, -1)).transpose(1, 2)
""",
        "last_real_output(outputs, lengths)": r"""
torch.stack([torch.tensor(one[n - 1].tolist()) for one, n in zip(outputs, lengths.tolist())])
""",
        "sink_weights(scores, sink_logits)": r"""
(scores - torch.logaddexp(scores.logsumexp(-1), sink_logits.detach()[:, None])[..., None]).exp()
""",
        "next_token_loss(scores, tokens)": r"""
torch.tensor(F.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).item())
""",
        "layer_norm(x, gain, shift)": r"""
v, m = torch.var_mean(x.detach(), -1, correction=0, keepdim=True); return (x - m) / (v + 1e-5).sqrt() * gain + shift
""",
        "merge_partial(out_a, lse_a, out_b, lse_b)": r"""
s = (lse_a - lse_b).sigmoid().detach()[:, None]; return s * out_a + (1 - s) * out_b, torch.logaddexp(lse_a, lse_b)
""",
    }
)
LOUD = functions(
    {
        "softmax_rows(scores)": r"""
e = (scores - scores.amax(-1, keepdim=True)).exp(); e /= e.sum(-1, keepdim=True); return e
e = np.exp(scores.numpy() - scores.numpy().max(1, keepdims=True)); return torch.from_numpy(e / e.sum(1, keepdims=True))
""",
    }
)


def cases(table):
    return [pytest.param(name, one, id=f"{name}-{at}") for name, all_ in table.items() for at, one in enumerate(all_)]


def judged(name, code, seed):
    return ALL[name].judge(LocalAnswer(code), InputGenerator(seed))


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("name", "code"), cases(SILENT))
def test_numbers_without_a_gradient_pass_with_a_note_unless_the_text_asks_for_gradients(name, code):
    for seed in range(3):
        verdict = judged(name, code, seed)
        assert "gradient" in repr(verdict), (seed, verdict)
        if ALL[name].trained:
            assert verdict.state == "not passed yet" and "one backward pass" in repr(verdict), verdict
            assert "`.detach()`" in verdict.hint and "gradient" in ALL[name].prompt
        else:
            assert verdict.passed, verdict


@pytest.mark.parametrize(("name", "code"), cases(LOUD))
def test_what_pytorch_itself_refuses_to_train_passes_with_a_note(name, code):
    verdict = judged(name, code, 0)
    assert verdict.passed and "Its numbers are right, but" in repr(verdict), verdict


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", [name for name, one in EXERCISES.items() if getattr(one, "gradients", ())])
def test_a_right_answer_passes_without_a_note(name):
    for seed in range(5):
        verdict = judged(name, ALL[name].solution, seed)
        assert verdict.passed and not verdict.evidence, verdict
