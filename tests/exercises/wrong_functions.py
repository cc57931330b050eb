"""Wrong answers to the exercises on functions, as beginners write them; see `written_answers.functions`."""

from .written_answers import functions

WRONG = functions(
    {
        "scores_of_token(query, keys)": r"""
query @ keys
query * keys.T
query @ keys.T.T
keys @ query.T @ query
for key in keys: return query @ key
torch.stack([key for key in keys])
sum(query @ key for key in keys)
(query @ key for key in keys)
[query @ key for key in keys]
np.array([float(query @ key) for key in keys])
(keys @ query).sum()
(keys @ query).unsqueeze(0)
keys @ keys.T
scores = torch.zeros(len(keys)); scores[:] = keys @ query; return scores.int()
scores = []; \
for i in range(len(keys)): \
    scores.append(query[i] * keys[i]) \
return torch.stack(scores)
scores = torch.zeros(5); \
for i, key in enumerate(keys): \
    scores[i] = query @ key \
return scores
scores = torch.zeros(len(keys) + 1); \
for i in range(len(keys) + 1): \
    scores[i] = query @ keys[i] \
return scores
-(keys @ query)
(keys - query).norm(dim=1)
torch.dot(query, keys)
quer @ keys.T
torch.matmul(keys, queries)
keys.matmul(query, dim=-1)
torch.cat([query @ key for key in keys])
print(keys @ query)
""",
        "scaled_scores(queries, keys)": r"""
queries @ keys
queries @ keys / queries.shape[-1] ** 0.5
queries * keys / queries.shape[-1] ** 0.5
queries @ keys.T / queries.shape[0] ** 0.5
queries @ keys.T / queries.shape[-1] ** -0.5
queries @ keys.T * queries.shape[-1]
queries @ keys.T / (queries.shape[-1] ** 0.5 + 1)
queries @ keys.T - queries.shape[-1] ** 0.5
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1)
queries @ keys.view(keys.shape[1], keys.shape[0]) / queries.shape[-1] ** 0.5
queries @ keys.reshape(keys.shape[1], -1) / queries.shape[-1] ** 0.5
queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5
queries @ keys.T / torch.sqrt(queries.shape[-1])
queries @ keys.T / math.sqrt(queries)
queries @ keys.T / queries.size ** 0.5
queries @ keys.T / queries.shape ** 0.5
queries @ keys.T / len(queries.shape) ** 0.5
torch.stack([query @ keys.T for query in queries])
for query in queries: return keys @ query / len(query) ** 0.5
queries @ keys.T / head_dim ** 0.5
queries @ keys.T / 8 ** 0.5
queries.T @ keys / queries.shape[-1] ** 0.5
(queries @ keys.T).mean(-1, keepdim=True)
torch.bmm(queries, keys.T) / queries.shape[-1] ** 0.5
F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
queries @ keys.T / queries.numel() ** 0.5
""",
        "softmax_rows(scores)": r"""
scores.exp() / scores.exp().sum(-1)
scores.exp() / scores.exp().sum()
scores.exp() / scores.exp().sum(0)
scores.exp() / scores.sum(-1, keepdim=True).exp()
(scores - scores.max()).exp() / (scores - scores.max()).exp().sum(-1, keepdim=True)
e = (scores - scores.mean(-1, keepdim=True)).exp(); return e / e.sum(-1, keepdim=True)
e = scores.exp() / scores.exp().sum(-1, keepdim=True); return e.nan_to_num()
e = scores.clamp(max=80).exp(); return e / e.sum(-1, keepdim=True)
e = (scores - scores.max(-1)).exp(); return e / e.sum(-1, keepdim=True)
e = (scores - scores.max(-1).values).exp(); return e / e.sum(-1, keepdim=True)
e = 2.718 ** (scores - scores.amax(-1, keepdim=True)); return e / e.sum(-1, keepdim=True)
e = scores.exp(); e /= e.sum(-1, keepdim=True); return e
scores.sigmoid()
scores / scores.norm(dim=-1, keepdim=True)
e = (scores - scores.amax(-1, keepdim=True)).exp(); return (e / e.sum(-1, keepdim=True)).round(decimals=3)
torch.exp(scores) / torch.sum(torch.exp(scores), axis=1)
np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
math.exp(scores) / math.exp(scores).sum()
scores.softmax()
scores.softmax(2)
e = (scores - 2500).exp(); return e / e.sum(-1, keepdim=True)
scores = scores.max(-1, keepdim=True).values; return scores.softmax(-1)
[row.softmax(0) for row in scores]
for row in scores: return row.softmax(0)
e = (scores - scores.amax(-1, keepdim=True)).exp(); return e / (e.sum(-1, keepdim=True) + 1e-3)
scores.argmax(-1)
F.one_hot(scores.argmax(-1), scores.shape[-1]).double()
""",
        "attention(queries, keys, values)": r"""
(queries @ keys / queries.shape[-1] ** 0.5).softmax(-1) @ values
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1) @ values.T
values @ (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1)
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1) * values
(queries @ keys.T / values.shape[-1] ** 0.5).softmax(-1) @ values
(queries @ keys.T / keys.shape[0] ** 0.5).softmax(-1) @ values
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1).T @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf).softmax(-1) @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.tril().softmax(-1) @ values
s = queries @ keys.T; weights = s.softmax(-1); return weights @ values / queries.shape[-1] ** 0.5
((queries @ keys.T).softmax(-1) / queries.shape[-1] ** 0.5).softmax(-1) @ values
F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
F.scaled_dot_product_attention(queries, keys, values).view(queries.shape)
F.scaled_dot_product_attention(keys, queries, values)
weights = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return weights, weights @ values
weights = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return weights @ values[0]
weights = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); weights @ values
s = scaled_scores(queries, keys); return s.softmax(-1) @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.exp() @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return (s.softmax(-1) @ values).mean(0)
s = queries @ keys.T / queries.shape[-1] ** 0.5; return (s.softmax(-1) @ values).sum(0)
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.argmax(-1)
values[(queries @ keys.T).argmax(-1)]
queries @ keys.T @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return torch.stack([w * v for w, v in zip(s.softmax(-1), values)])
keys -= keys.mean(0); return F.scaled_dot_product_attention(queries, keys, values)
F.scaled_dot_product_attention(queries, keys, values, dropout_p=0.1)
""",
        "causal_mask(num_tokens, num_prompt=0)": r"""
torch.tril(num_tokens)
torch.ones(num_tokens, num_tokens, dtype=bool).tril()
keep = torch.ones(num_tokens, num_tokens).tril(); keep[:, :num_prompt] = 1; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:num_prompt] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[num_prompt:, num_prompt:] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, num_prompt:] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, num_prompt] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, :num_prompt] = True; return keep.T
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, :num_prompt] = True; return keep[None]
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, :num_prompt] = True; return keep.tolist()
keep = torch.zeros(num_tokens, num_tokens).tril().bool(); keep[:, :num_prompt] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril(-1).bool(); keep[:, :num_prompt] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril(num_prompt).bool(); return keep
keep = torch.ones(num_tokens - num_prompt, num_tokens - num_prompt).tril().bool(); return keep
keep = torch.ones(num_tokens, num_tokens + num_prompt).tril(num_prompt).bool(); return keep
torch.arange(num_tokens) <= max(num_prompt, torch.arange(num_tokens)[:, None])
(torch.arange(num_tokens)[:, None] > torch.arange(num_tokens)) | (torch.arange(num_tokens) < num_prompt)
torch.arange(num_tokens) < num_prompt
torch.full((num_tokens, num_tokens), -torch.inf).triu(1).where(torch.arange(num_tokens) >= num_prompt, 0)
for q in range(num_tokens): return torch.arange(num_tokens) <= max(q, num_prompt - 1)
keep = np.tril(np.ones((num_tokens, num_tokens), dtype=bool)); keep[:, :num_prompt] = True; return keep
""",
        "causal_weights(scores)": r"""
scores.tril().softmax(-1).tril()
scores.softmax(-1).tril() / scores.softmax(-1).tril().sum()
keep = torch.ones_like(scores).tril().bool(); return scores[keep].softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(keep, -torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, -1).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, -20.0).softmax(-1)
keep = torch.ones_like(scores).tril(); return scores.masked_fill(keep, -torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril(); return scores.masked_fill(~keep, -torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return (scores * keep - torch.inf * ~keep).softmax(-1)
keep = torch.ones(5, 5).tril().bool(); return scores.masked_fill(~keep, -torch.inf).softmax(-1)
n = scores.shape[0]; keep = torch.ones(n, n).tril().bool(); return scores.masked_fill(~keep, -torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); scores.masked_fill(~keep, -torch.inf); return scores.softmax(-1) * keep
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, -torch.inf)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, -torch.inf).softmax(0)
keep = torch.ones_like(scores).tril().bool(); scores[~keep] = -torch.inf; return scores.softmax(-1)
keep = causal_mask(scores.shape[-1]); return scores.masked_fill(~keep, -torch.inf).softmax(-1)
scores.where(torch.ones_like(scores).tril()).softmax(-1)
scores.softmax(-1).triu()
n = scores.shape[-1]; return (scores + torch.full((n, n), -torch.inf).triu()).softmax(-1)
n = scores.shape[-1]; return (scores + torch.full((n, n), -torch.inf).triu(1)).exp()
""",
        "padding_mask(lengths, num_tokens)": r"""
torch.arange(num_tokens) < lengths[:, None]
torch.arange(num_tokens) < lengths
torch.arange(num_tokens) < torch.tensor(lengths)
torch.arange(num_tokens)[:, None] < torch.tensor(lengths)
(torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, :, None]
(torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[None, None]
(torch.arange(num_tokens) < torch.tensor(lengths).max())[None, None, None].expand(len(lengths), 1, 1, -1)
(torch.arange(1, num_tokens + 1) < torch.tensor(lengths)[:, None])[:, None, None]
(torch.arange(num_tokens) < torch.tensor(sorted(lengths))[:, None])[:, None, None]
(torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None].tolist()
keep = torch.zeros(len(lengths), 1, 1, num_tokens).bool(); keep[:, :, :, :lengths] = True; return keep
keep = torch.zeros(len(lengths), 1, 1, num_tokens).bool(); keep[:, :, :, :lengths[0]] = True; return keep
keep = torch.zeros(len(lengths), 1, 1, num_tokens).bool(); keep[0, :, :, :lengths[0]] = True; return keep
[[True] * n + [False] * (num_tokens - n) for n in lengths]
torch.tensor([[True] * n for n in lengths])[:, None, None]
torch.ones(len(lengths), 1, 1, num_tokens).bool()
keep = (torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None]; return keep & keep.mT
(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]
""",
        "safe_weights(scores, keep)": r"""
scores.masked_fill(keep, -torch.inf).softmax(-1)
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w / (w.sum(-1, keepdim=True) + 1e-9)
e = scores.exp() * keep; return e / (e.sum(-1, keepdim=True) + 1e-6)
e = scores.exp() * keep; return e / e.sum(-1, keepdim=True)
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w if not w.isnan().any() else w * 0
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); w[w == torch.nan] = 0.0; return w
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return torch.where(keep.any(), w, 0.0)
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w.nan_to_num(1.0)
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w.nan_to_num(1 / scores.shape[-1])
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return torch.nan_to_num(scores)
w = scores.masked_fill(~keep, -20.0).softmax(-1); return w * keep
w = scores.tril().masked_fill(~keep, -torch.inf).softmax(-1); return w.nan_to_num()
s = scores.masked_fill(~keep | torch.ones(scores.shape[1:]).triu(1).bool(), -torch.inf); return s.softmax(-1).nan_to_num()
if not keep.any(-1): return torch.zeros_like(scores)
if keep.any(-1) == False: return 0
s = scores.masked_fill(~keep, -torch.inf); s[:, 0] = 0; return s.softmax(-1)
s = scores.masked_fill(~keep, -torch.inf).softmax(-2); return s.nan_to_num()
scores[~keep] = -1e9; return scores.softmax(-1) * keep
scores.softmax(-1).masked_fill(~keep, 0) / scores.softmax(-1).masked_fill(~keep, 0).sum(-1)
s = scores.masked_fill(not keep, -torch.inf); return s.softmax(-1).nan_to_num()
""",
        "dropped_weights(weights, drop, p, training)": r"""
F.dropout(weights, p, training)
weights * (torch.rand_like(weights) > p) / (1 - p) if training else weights
weights * drop if training else weights
weights[~drop] / (1 - p) if training else weights
weights * -drop / (1 - p) if training else weights
weights.masked_fill(drop, 0) * (1 + p) if training else weights
weights.masked_fill(drop, 0) if training else weights * (1 - p)
weights.masked_fill(drop, 0) / (1 - p) if training else weights / (1 - p)
if training: return weights.masked_fill(drop, 0) / (1 - p)
weights.masked_fill(drop, -torch.inf).softmax(-1) if training else weights
weights.masked_fill(drop, p) / (1 - p) if training else weights
weights.masked_fill(drop, 0) / (1 - p) if not training else weights
(weights - drop) / (1 - p) if training else weights
weights * (1 - drop) / (1 - p) if training else weights
weights[drop] = 0; return weights / (1 - p) if training else weights
weights.masked_fill(drop, 0) / 0.8 if training else weights
weights.masked_fill(drop, 0) / (~drop).float().mean() if training else weights
""",
        "two_heads(x, q_proj, k_proj, v_proj)": r"""
x @ q_proj
q = x @ q_proj[0]; k = x @ k_proj[0]; v = x @ v_proj[0]; return (q @ k / q.shape[-1] ** 0.5).softmax(-1) @ v
q = x @ q_proj[0]; k = x @ k_proj[0]; v = x @ v_proj[0]; return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v
q, k, v = (torch.cat([x @ m for m in p], -1) for p in (q_proj, k_proj, v_proj)); return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return h
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return h[0] * h[1]
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i], is_causal=True) for i in range(2)]; return torch.cat(h, -1)
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(1, 3)]; return torch.cat(h, -1)
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return torch.stack(h, -1).flatten(-2)
h = [F.scaled_dot_product_attention(x @ q_proj[i].T, x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / x.shape[-1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / len(x) ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(0) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(-1) @ x for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ q_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
for i in range(2): return F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i])
for i in range(2): \
    out = F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) \
return torch.cat([out, out], -1)
""",
        "mix_heads(contexts, w_o)": r"""
torch.cat(contexts, dim=-1) @ w_o
torch.cat(contexts) @ w_o.T
torch.stack(contexts) @ w_o.T
torch.stack(contexts, -1) @ w_o.T
contexts @ w_o.T
w_o @ torch.cat(contexts, dim=-1)
torch.cat(contexts, dim=1) @ w_o.T
sum(contexts) @ w_o.T
sum(context @ w_o.T for context in contexts)
torch.cat(contexts, dim=-1) * w_o
nn.Linear(*w_o.T.shape, bias=False)(torch.cat(contexts, dim=-1))
F.linear(torch.cat(contexts, dim=-1), w_o.T)
torch.cat(contexts, dim=-1) @ w_o.T + 1
torch.cat([c @ w_o[:, :c.shape[-1]].T for c in contexts], -1)
d = contexts[0].shape[-1]; return sum(c @ w_o[i * d:(i + 1) * d].T for i, c in enumerate(contexts))
""",
    }
)
