"""Wrong answers to the exercises on functions, as beginners write them; see `written_answers.functions`."""

from .written_answers import functions

STEP = "g = queries.shape[1] // key.shape[1]; K = torch.cat([cached_keys, key], 2); V = torch.cat([cached_values, value], 2); "
HEADS = "b, t, _ = x.shape; q, k, v = ((x @ w.T).view(b, t, -1, head_dim).transpose(1, 2) for w in (w_q, w_k, w_v)); "
HEADS += "keep = torch.ones(t, t).tril().bool(); "

WRONG = functions(
    {
        "scores_of_token(query, keys)": r"""
query @ keys
keys @ query.T @ query
for key in keys: return query @ key
torch.stack([key for key in keys])
(query @ key for key in keys)
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
-(keys @ query)
torch.dot(query, keys)
quer @ keys.T
torch.matmul(keys, queries)
keys.matmul(query, dim=-1)
torch.cat([query @ key for key in keys])
print(keys @ query)
(keys * query).sum(0)
(keys @ query).sort().values
keys @ query - (keys @ query).max()
""",
        "scaled_scores(queries, keys)": r"""
queries @ keys.T / queries.shape[0] ** 0.5
queries @ keys.T / queries.shape[-1] ** -0.5
queries @ keys.T * queries.shape[-1]
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1)
queries @ keys.reshape(keys.shape[1], -1) / queries.shape[-1] ** 0.5
queries @ keys.T / torch.sqrt(queries.shape[-1])
queries @ keys.T / queries.size ** 0.5
queries @ keys.T / queries.shape ** 0.5
torch.stack([query @ keys.T for query in queries])
(queries @ keys.T).mean(-1, keepdim=True)
torch.bmm(queries, keys.T) / queries.shape[-1] ** 0.5
queries @ keys.T // queries.shape[-1] ** 0.5
""",
        "softmax_rows(scores)": r"""
scores.exp() / scores.exp().sum()
scores.exp() / scores.exp().sum(0)
(scores - scores.max()).exp() / (scores - scores.max()).exp().sum(-1, keepdim=True)
e = (scores - scores.mean(-1, keepdim=True)).exp(); return e / e.sum(-1, keepdim=True)
e = scores.exp() / scores.exp().sum(-1, keepdim=True); return e.nan_to_num()
e = (scores - scores.max(-1)).exp(); return e / e.sum(-1, keepdim=True)
e = 2.718 ** (scores - scores.amax(-1, keepdim=True)); return e / e.sum(-1, keepdim=True)
e = (scores - scores.amax(-1, keepdim=True)).exp(); return (e / e.sum(-1, keepdim=True)).round(decimals=3)
np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
math.exp(scores) / math.exp(scores).sum()
scores.softmax()
e = (scores - 2500).exp(); return e / e.sum(-1, keepdim=True)
scores = scores.max(-1, keepdim=True).values; return scores.softmax(-1)
scores.argmax(-1)
e = (scores - scores.amax(-1, keepdim=True)).exp(); return e / e.sum(0, keepdim=True)
(-scores).softmax(-1)
scores.sigmoid()
""",
        "attention(queries, keys, values)": r"""
(queries @ keys.T / values.shape[-1] ** 0.5).softmax(-1) @ values
(queries @ keys.T / keys.shape[0] ** 0.5).softmax(-1) @ values
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1).T @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.tril().softmax(-1) @ values
s = queries @ keys.T; weights = s.softmax(-1); return weights @ values / queries.shape[-1] ** 0.5
F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
F.scaled_dot_product_attention(queries, keys, values).view(queries.shape)
F.scaled_dot_product_attention(keys, queries, values)
weights = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return weights, weights @ values
weights = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return weights @ values[0]
s = scaled_scores(queries, keys); return s.softmax(-1) @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.exp() @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return (s.softmax(-1) @ values).sum(0)
s = queries @ keys.T / queries.shape[-1] ** 0.5; return s.argmax(-1)
queries @ keys.T @ values
s = queries @ keys.T / queries.shape[-1] ** 0.5; return torch.stack([w * v for w, v in zip(s.softmax(-1), values)])
""",
        "causal_mask(num_tokens, num_prompt=0)": r"""
torch.tril(num_tokens)
torch.ones(num_tokens, num_tokens, dtype=bool).tril()
keep = torch.ones(num_tokens, num_tokens).tril(); keep[:, :num_prompt] = 1; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:num_prompt] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[num_prompt:, num_prompt:] = True; return keep
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, :num_prompt] = True; return keep.T
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:, :num_prompt] = True; return keep[None]
keep = torch.ones(num_tokens, num_tokens).tril(num_prompt).bool(); return keep
keep = torch.ones(num_tokens - num_prompt, num_tokens - num_prompt).tril().bool(); return keep
(torch.arange(num_tokens)[:, None] > torch.arange(num_tokens)) | (torch.arange(num_tokens) < num_prompt)
torch.arange(num_tokens) < num_prompt
torch.full((num_tokens, num_tokens), -torch.inf).triu(1).where(torch.arange(num_tokens) >= num_prompt, 0)
for q in range(num_tokens): return torch.arange(num_tokens) <= max(q, num_prompt - 1)
""",
        "causal_weights(scores)": r"""
scores.tril().softmax(-1).tril()
keep = torch.ones_like(scores).tril().bool(); return scores[keep].softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, -1).softmax(-1)
keep = torch.ones_like(scores).tril(); return scores.masked_fill(keep, -torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, torch.inf).softmax(-1)
keep = torch.ones_like(scores).tril().bool(); return scores.masked_fill(~keep, -torch.inf).softmax(0)
keep = causal_mask(scores.shape[-1]); return scores.masked_fill(~keep, -torch.inf).softmax(-1)
scores.where(torch.ones_like(scores).tril()).softmax(-1)
n = scores.shape[-1]; return (scores + torch.full((n, n), -torch.inf).triu()).softmax(-1)
n = scores.shape[-1]; return (scores + torch.full((n, n), -torch.inf).triu(1)).exp()
scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -1e4).softmax(-1)
s = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf); return s.log_softmax(-1)
w = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1); return w[0]
""",
        "padding_mask(lengths, num_tokens)": r"""
torch.arange(num_tokens) < lengths[:, None]
torch.arange(num_tokens) < lengths
torch.arange(num_tokens)[:, None] < torch.tensor(lengths)
(torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, :, None]
(torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[None, None]
(torch.arange(1, num_tokens + 1) < torch.tensor(lengths)[:, None])[:, None, None]
(torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None].tolist()
keep = torch.zeros(len(lengths), 1, 1, num_tokens).bool(); keep[:, :, :, :lengths] = True; return keep
keep = torch.zeros(len(lengths), 1, 1, num_tokens).bool(); keep[0, :, :, :lengths[0]] = True; return keep
[[True] * n + [False] * (num_tokens - n) for n in lengths]
torch.tensor([[True] * n for n in lengths])[:, None, None]
torch.ones(len(lengths), 1, 1, num_tokens).bool()
(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]
l = torch.tensor(lengths).sort().values; return (torch.arange(num_tokens) < l[:, None])[:, None, None]
lengths.sort(); return (torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None]
(torch.arange(num_tokens) < max(lengths)).expand(len(lengths), 1, 1, -1)
(torch.arange(num_tokens) >= num_tokens - torch.tensor(lengths)[:, None])[:, None, None]
""",
        "safe_weights(scores, keep)": r"""
scores.masked_fill(keep, -torch.inf).softmax(-1)
e = scores.exp() * keep; return e / (e.sum(-1, keepdim=True) + 1e-6)
w = scores.tril().masked_fill(~keep, -torch.inf).softmax(-1); return w.nan_to_num()
s = scores.masked_fill(~keep | torch.ones(scores.shape[1:]).triu(1).bool(), -torch.inf); return s.softmax(-1).nan_to_num()
if not keep.any(-1): return torch.zeros_like(scores)
s = scores.masked_fill(~keep, -torch.inf).softmax(-2); return s.nan_to_num()
e = scores.exp() * keep; return e / e.sum(-1, keepdim=True).clamp(min=1e-9)
w = scores.masked_fill(~keep, -30.0).softmax(-1); return w * keep
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w.nan_to_num(1 / scores.shape[-1])
w = scores.masked_fill(~keep, -1e30).softmax(-1) * keep; return w / w.sum(-1, keepdim=True)
""",
        "dropped_weights(weights, drop, p, training)": r"""
F.dropout(weights, p, training)
weights * (torch.rand_like(weights) > p) / (1 - p) if training else weights
weights * drop if training else weights
weights[~drop] / (1 - p) if training else weights
weights * -drop / (1 - p) if training else weights
weights.masked_fill(drop, 0) if training else weights * (1 - p)
weights.masked_fill(drop, 0) / (1 - p) if not training else weights
weights * (1 - drop) / (1 - p) if training else weights
w = weights.masked_fill(drop, 0) / (1 - p) if training else weights * (1 - p); return w
weights.masked_fill(drop, -torch.inf).softmax(-1) if training else weights
""",
        "two_heads(x, q_proj, k_proj, v_proj)": r"""
x @ q_proj
q = x @ q_proj[0]; k = x @ k_proj[0]; v = x @ v_proj[0]; return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return h
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i], is_causal=True) for i in range(2)]; return torch.cat(h, -1)
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(1, 3)]; return torch.cat(h, -1)
h = [F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return torch.stack(h, -1).flatten(-2)
h = [F.scaled_dot_product_attention(x @ q_proj[i].T, x @ k_proj[i], x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / x.shape[-1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(0) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h)
h = [((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(-1) @ x for i in range(2)]; return torch.cat(h, -1)
h = [((x @ q_proj[i]) @ (x @ q_proj[i]).T / q_proj[i].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in range(2)]; return torch.cat(h, -1)
for i in range(2): \
    out = F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i]) \
return torch.cat([out, out], -1)
torch.cat([((x @ q_proj[i]) @ (x @ k_proj[1 - i]).T / q_proj[0].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in (0, 1)], -1)
torch.cat([((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[0].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[1 - i]) for i in (0, 1)], -1)
torch.cat([((x @ q_proj[i]) @ (x @ k_proj[i]).T / len(x) ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in (0, 1)], -1)
""",
        "mix_heads(contexts, w_o)": r"""
torch.cat(contexts, dim=-1) @ w_o
torch.stack(contexts, -1) @ w_o.T
contexts @ w_o.T
nn.Linear(*w_o.T.shape, bias=False)(torch.cat(contexts, dim=-1))
torch.cat(contexts, dim=-1) @ w_o.T + 1
torch.cat([c @ w_o[:, :c.shape[-1]].T for c in contexts], -1)
torch.cat(contexts, -1) @ w_o.T / len(contexts) ** 0.5
""",
        "number_at(memory, strides, index)": r"""
memory[strides * index]
[memory[s * i] for s, i in zip(strides, index)]
slot = sum(s * i for s, i in zip(strides, index)); print(memory[slot])
""",
        "strides_by_head(num_tokens, num_heads, head_dim)": r"""
(num_tokens * num_heads * head_dim, num_tokens * head_dim, head_dim, 1)
(1, head_dim, num_heads * head_dim, num_tokens * num_heads * head_dim)
torch.tensor([num_heads * head_dim, head_dim, 1])
num_tokens, num_heads * head_dim, head_dim
"(t * w, d, w, 1)"
num_tokens * num_heads * head_dim / 1, head_dim / 1, num_heads * head_dim / 1, 1.0
""",
        "split_heads(x, num_heads)": r"""
x.view(num_heads, x.shape[0], x.shape[1], -1)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 2)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(2, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(0, 1)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(-1, -2).permute(1, 2, 0, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).permute(1, 2, 0)
x.view(x.shape[0], x.shape[1], num_heads, -1).permute(2, 1, 0, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).T
x.unsqueeze(1).expand(-1, num_heads, -1, -1)
x.chunk(num_heads, dim=-1)
t, b, d = x.shape; return x.view(t, b, num_heads, d // num_heads).permute(1, 2, 0, 3).reshape(t, b, d)
t, b, h, d = x.shape; return x.view(t, b, num_heads, d).permute(1, 2, 0, 3)
x.reshape(-1, num_heads, x.shape[0], x.shape[2] // num_heads)
x[:, :, :num_heads]
x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)[:, :, :, :max(2, x.shape[2] // num_heads)].roll(1, 2)
x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3).squeeze()
y = x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3); return y if num_heads < x.shape[2] else y.flip(1)
""",
        "merge_heads(x)": r"""
x.view(x.shape[1], x.shape[2], -1)
x.permute(1, 2, 0, 3).reshape(x.shape[0], x.shape[1], -1)
x.permute(1, 2, 3, 0).reshape(x.shape[1], x.shape[2], -1)
x.permute(1, 3, 0, 2).reshape(x.shape[1], x.shape[2], -1)
x.permute(1, 2, 0, 3).flatten(1)
x.transpose(0, 1).reshape(x.shape[1], x.shape[2], -1)
x.flatten(2).transpose(0, 1)
torch.cat([x[h] for h in range(x.shape[0])], dim=1)
torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)
torch.cat(x, dim=-1)
torch.stack([x[h] for h in range(x.shape[0])], dim=-1)
x.squeeze(0)
x.permute(1, 2, 0, 3).contiguous().view(x.shape[1], x.shape[2], x.shape[3])
x.permute(1, 2, 0, 3).contiguous()
x.max(0).values
x.permute(1, 2, 0, 3).reshape(x.shape[1], x.shape[2], -1).flip(-1)
x.transpose(0, 2).flatten(2)
""",
        "scores_by_head(queries, keys)": r"""
s = queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5; return s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
torch.einsum("bhqd,bhkd->bhkq", queries, keys) / queries.shape[-1] ** 0.5
queries @ keys.transpose(2, 3) / math.sqrt(queries.shape)
torch.stack([queries[:, h] @ keys[:, h].mT for h in range(queries.shape[1])]) / queries.shape[-1] ** 0.5
(queries @ keys.mT / queries.shape[-1] ** 0.5).mean(1, keepdim=True).expand(-1, queries.shape[1], -1, -1)
""",
        "to_split(wrapper)": r"""
s = wrapper_to_split(wrapper); s.q_proj.weight = torch.cat([h.q_proj.weight for h in wrapper.heads]); return s
s = wrapper_to_split(wrapper); s.load_state_dict(wrapper.state_dict()); return s
s = MultiHeadAttention(wrapper.d_in, wrapper.d_out, wrapper.num_heads); return s
s = wrapper_to_split(wrapper); s.q_proj.weight.data = torch.stack([h.q_proj.weight for h in wrapper.heads]); return s
s = wrapper_to_split(wrapper)
{r: torch.cat([getattr(h, r).weight for h in wrapper.heads]) for r in ("q_proj", "k_proj", "v_proj")}
""",
        "multi_query(queries, keys, values)": r"""
(queries @ keys[:, None].transpose(2, 3) / queries.shape[1] ** 0.5).softmax(-1) @ values[:, None]
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None], is_causal=True)
F.scaled_dot_product_attention(queries.mean(1), keys, values)
F.scaled_dot_product_attention(queries[:, 0], keys, values)
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None]).sum(1)
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None]).transpose(1, 2)
F.scaled_dot_product_attention(queries.flatten(1, 2), keys, values)
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1); return w.mean(1, keepdim=True).expand_as(w) @ values[:, None]
w = (queries @ keys[:, None].mT / keys.shape[1] ** 0.5).softmax(-1); return w @ values[:, None]
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1); return w @ values[:, None] * queries.shape[1]
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1).softmax(-1); return w @ values[:, None]
""",
        "kv_head_of(query_head, num_heads, num_kv_heads)": r"""
query_head // num_heads
query_head // (num_heads / num_kv_heads)
query_head // (num_kv_heads // num_heads)
query_head % num_heads
(query_head + 1) // (num_heads // num_kv_heads)
heads_per_group = num_heads / num_kv_heads; return query_head / heads_per_group
(query_head - 1) // (num_heads // num_kv_heads)
""",
        "share_heads(keys, num_heads)": r"""
keys.repeat(num_heads, dim=1)
keys.repeat_interleave(num_heads // keys.shape[1])
keys[:, :, None].expand(-1, -1, num_heads // keys.shape[1], -1, -1)
torch.stack([keys[h * keys.shape[1] // num_heads] for h in range(num_heads)], 1)
torch.stack([keys[:, h * keys.shape[1] // num_heads] for h in range(num_heads)])
keys.tile(1, num_heads // keys.shape[1], 1, 1)
keys
keys.repeat_interleave(num_heads // keys.shape[1], 1).flip(1)
keys[:, -1:].expand(-1, num_heads, -1, -1)
""",
        "cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number)": r"""
2 * num_tokens * num_layers * num_kv_heads * head_dim / bytes_per_number
4 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number
str(2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number)
""",
        "leaks(code, x)": r"""
code(x).isnan().nonzero()
changed = x.clone(); changed[:, -1] = 9; return torch.allclose(code(changed)[:, :-1], code(x)[:, :-1])
changed = x; changed[:, -1] = 9; return (code(changed) != code(x)).any(2).any(0).nonzero().flatten().tolist()
changed = x.clone(); changed[:, -1] = 9; return (code(changed) != code(x))[:, :-1].any(2).any(0).nonzero()
y = code(x.flip(1)).flip(1); return [t for t in range(x.shape[1]) if not torch.allclose(y[:, t], code(x)[:, t])]
[t for t in range(1, x.shape[1]) if not torch.allclose(code(x[0, :t]), code(x)[0, :t])]
[t for t in range(1, x.shape[1]) if not torch.allclose(code(x[:, :t]), code(x)[:, :t])]
y = code(x); found = []; \
for t in range(1, x.shape[1]): \
    changed = x.clone(); changed[:, t] += 1 \
    found.append(not torch.allclose(code(changed)[:, :t], y[:, :t])) \
return found
y = code(x); f = set() \
for t in range(1, x.shape[1]): \
    c = x.clone(); c[:, t] += 1; f |= {i + 1 for i in range(t) if not torch.allclose(code(c)[:, i], y[:, i])} \
return sorted(f)
""",
        "without_gradient(module, x, token)": r"""
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad.any()]
module(x)[:, token].sum().backward(); return [p for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if not p.requires_grad]
module(x)[:, token].sum(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or p.grad.sum() > 0]
module(x)[:, token].backward(); return []
module(x)[:, token].sum().backward(); return next(n for n, p in module.named_parameters() if p.grad is None or not p.grad.any())
module(x).sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, :token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x[:, token]).sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[token].square().sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, :token + 1].square().sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
""",
        "decode_mask(num_queries, num_keys)": r"""
torch.ones(num_queries, num_keys).tril(num_queries).bool()
torch.ones(num_keys, num_keys).tril().bool()[:num_queries]
torch.ones(num_queries, num_keys).triu(num_keys - num_queries).bool()
""",
        "joined_mask(keep, real)": r"""
keep[None, None].expand(len(real), 1, -1, -1) == real[:, None, None]
(keep & real[:1])[None, None].expand(len(real), 1, -1, -1)
(keep & real[:, None, None]).any(2, keepdim=True)
""",
        "to_torch_mask(keep, target)": r"""
keep if target == "scaled_dot_product_attention" else (~keep).float() * -1e9
keep if target == "scaled_dot_product_attention" else ~keep.flatten(0, 1)[:, 0] if keep.ndim == 4 else ~keep.T
""",
        "needs_copy(shape, strides, axis)": r"""
strides[axis] != shape[axis + 1]
strides[axis] % strides[axis + 1] != 0
""",
        "to_torch_mha(q_proj, k_proj, v_proj, out_proj)": r"""
torch.cat([q_proj, k_proj, v_proj]).T, out_proj
out_proj, torch.cat([q_proj, k_proj, v_proj])
""",
        "decode_step(queries, key, value, cached_keys, cached_values)": rf"""
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / queries.shape[-1] ** 0.5).softmax(1); return w @ V.repeat_interleave(g, 1), K, V
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / K.shape[2] ** 0.5).softmax(-1); return w @ V.repeat_interleave(g, 1), K, V
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / queries.shape[-1] ** 0.5).softmax(-1); return w, K, V
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / queries.shape[-1] ** 0.5).softmax(-1); return w @ K.repeat_interleave(g, 1), K, V
""",
        "pool_heads(weight, num_heads, num_kv_heads)": r"""
weight.view(num_kv_heads, num_heads // num_kv_heads, -1, weight.shape[1]).amax(1).flatten(0, 1)
weight.view(num_kv_heads, num_heads // num_kv_heads, -1, weight.shape[1]).median(1).values.flatten(0, 1)
weight.view(num_kv_heads, num_heads // num_kv_heads, -1, weight.shape[1])[:, -1].flatten(0, 1)
""",
        "append_to_cache(cache, keys, values)": r"""
[torch.stack([cache[0], keys]), torch.stack([cache[1], values])] if cache[0].shape == keys.shape else cache
torch.cat([cache[0], keys], 2), torch.cat([cache[0], values], 2)
torch.cat([cache[0].mean(2, keepdim=True), keys], 2), torch.cat([cache[1].mean(2, keepdim=True), values], 2)
""",
        "cross_attention(x, context, w_q, w_k, w_v)": r"""
((x @ w_q.T) @ (context @ w_k.T).mT / w_q.shape[0] ** 0.5).softmax(0) @ (context @ w_v.T)
((x @ w_q.T) @ (context @ w_k.T).mT / context.shape[-1]).softmax(-1) @ (context @ w_v.T)
F.scaled_dot_product_attention(x @ w_q.T, context @ w_k.T, context @ w_v.T).mean(1)
""",
        "permute_meta_weights(weight, num_heads)": r"""
weight.view(num_heads, -1, 2, weight.shape[1]).transpose(0, 1).reshape(weight.shape)
weight.view(num_heads, -1, 2, weight.shape[1])[:, :, 0].reshape(-1, weight.shape[1])
""",
        "rotary_table(num_tokens, head_dim, base)": r"""
a = torch.arange(num_tokens)[:, None] * base ** (-2 * torch.arange(head_dim // 2) / num_tokens); return a.cos(), a.sin()
a = torch.arange(num_tokens)[:, None] * base ** (-2 * torch.arange(head_dim // 2) / head_dim); return torch.stack([a.cos(), a.sin()], -1)
a = torch.arange(num_tokens)[:, None] / (base * 2 * torch.arange(head_dim // 2) / head_dim); return a.cos(), a.sin()
a = torch.arange(num_tokens)[:, None] * base ** (-2 * torch.arange(head_dim // 2).flip(0) / head_dim); return a.cos(), a.sin()
a = torch.arange(num_tokens)[:, None] * base ** (-2 * torch.arange(head_dim // 2) // head_dim); return a.cos(), a.sin()
""",
        "rotate(x, cos, sin)": r"""
a, b = x.chunk(2, -1); return torch.cat([a * cos - b * sin, a * cos + b * sin], -1)
a, b = x.chunk(2, -1); return torch.cat([b * cos - a * sin, a * cos + b * sin], -1)
a, b = x.chunk(2, -1); return torch.cat([a * cos[:1] - b * sin[:1], b * cos[:1] + a * sin[:1]], -1)
""",
        "scores_by_distance(query, key, num_distances, base)": r"""
torch.stack([query @ key * base ** -n for n in range(num_distances)])
""",
        "ablate_head(contexts, w_o, head)": r"""
c = contexts.clone(); c[head % len(c)] = 0; return c.transpose(1, 2).flatten(2) @ w_o.T
c = contexts.clone(); c[:, head] = c[:, head].mean(1, keepdim=True); return c.transpose(1, 2).flatten(2) @ w_o.T
c = contexts.clone(); c[:, head:] = 0; return c.transpose(1, 2).flatten(2) @ w_o.T
c = contexts.clone(); c[:, head] *= -1; return c.transpose(1, 2).flatten(2) @ w_o.T
""",
        "comes_after_copy(tokens)": r"""
e = (tokens[:, :, None] == tokens[:, None]).tril(-1); return e.any(1, keepdim=True).expand_as(e)
e = (tokens[:, :, None] == tokens[:, None]).tril(-1); f = torch.zeros_like(e); f[:, :, 2:] = e[:, :, :-2]; return f
e = (tokens[:1, :, None] == tokens[:1, None]).tril(-1).expand(len(tokens), -1, -1); f = torch.zeros_like(e); f[:, :, 1:] = e[:, :, :-1]; return f.tril()
""",
        "induction_score(weights, tokens)": r"""
weights.amax(-1).mean((0, 2))
m = (tokens[:, :, None] == tokens[:, None]).tril(-1).roll(1, 2); return (weights * m[:, None]).sum((0, 2, 3)) / m.any(-1).sum() * 2
""",
        "previous_token_score(weights)": r"""
weights.diagonal(-1, 2, 3).amax(-1).mean(0)
weights[:, :, -1, -2].mean(0)
""",
        "arithmetic_intensity(query_len, key_len, num_heads, num_kv_heads, head_dim, fused)": r"""
4 * num_heads * query_len * key_len * head_dim
n = 2 * num_heads * query_len * head_dim + 2 * num_kv_heads * key_len * head_dim + (0 if fused else 4 * query_len * key_len); return num_heads * query_len * key_len * head_dim / n
""",
        "blocked_attention(queries, keys, values, block, causal)": r"""
n = -(-len(queries) // block); return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal), n * (n - 1) // 2 if causal else n * n
n = -(-len(queries) // block); s = queries @ keys.T / queries.shape[1] ** 0.5; return s.softmax(0) @ values, n * (n + 1) // 2 if causal else n * n
""",
        "causal_blocks(num_tokens, query_block, key_block)": r"""
torch.arange(0, num_tokens, key_block) < torch.arange(0, num_tokens, query_block)[:, None]
torch.arange(0, num_tokens, query_block) <= torch.arange(0, num_tokens, key_block)[:, None] + key_block - 1
torch.arange(0, num_tokens, key_block) <= torch.arange(0, num_tokens, query_block)[:, None] + query_block
""",
        "merge_partial(out_a, lse_a, out_b, lse_b)": r"""
s = torch.softmax(torch.stack([lse_a, lse_b]), 1)[:, :, None]; return s[0] * out_a + s[1] * out_b, torch.logaddexp(lse_a, lse_b)
l = torch.logaddexp(lse_a, lse_b); return (lse_a / l)[:, None] * out_a + (lse_b / l)[:, None] * out_b, l
l = torch.logaddexp(lse_a, lse_b); w = lse_a > lse_b; return torch.where(w[:, None], out_a, out_b), l
""",
        "online_step(largest, total, context, scores, values)": r"""
n = torch.maximum(largest, scores.amax(-1)); s = (largest - n).exp(); w = (scores - n[:, None]).exp(); return n, total * s + w.mean(-1), context * s[:, None] + w @ values
n = torch.maximum(largest, scores.amax(-1)); s = (largest - n).exp(); w = (scores - n[:, None]).exp(); return n, total + s * w.sum(-1), context + s[:, None] * (w @ values)
n = torch.maximum(largest, scores.amax(-1)); s = (largest - n).exp(); w = (scores - n[:, None]).exp(); return total * s + w.sum(-1), n, context * s[:, None] + w @ values
""",
        "cache_per_device(num_tokens, num_kv_heads, head_dim, num_devices, bytes_per_number)": r"""
2 * num_tokens * max(1, num_kv_heads // num_devices) * head_dim // num_devices * bytes_per_number
""",
        "cut_columns(w_o, device, num_devices)": r"""
w_o[:, device * num_devices : (device + 1) * num_devices]
c = w_o.shape[1] // num_devices; return w_o[:, device * c : (device + 1) * c - 1]
""",
        "cut_rows(weight, device, num_devices)": r"""
r = len(weight) // num_devices; return weight[device : device + r]
r = len(weight) // num_devices; return weight[device * r : (device + 1) * r].flip(0)
""",
        "kv_heads_of_device(device, num_devices, num_kv_heads)": r"""
device // num_devices * num_kv_heads, max(1, num_kv_heads // num_devices)
device * num_kv_heads // num_devices, max(num_kv_heads, num_devices) // min(num_kv_heads, num_devices)
device * max(1, num_kv_heads // num_devices) // 2, max(1, num_kv_heads // num_devices)
""",
        "partial_output(x, w_q, w_k, w_v, w_o, head_dim)": rf"""
{HEADS}w = (q @ k.mT / head_dim ** 0.5).masked_fill(~keep, -30.0).softmax(-1); return (w @ v).transpose(1, 2).flatten(2) @ w_o.T
{HEADS}w = (q @ k.mT / head_dim ** 0.5).masked_fill(~keep, -torch.inf).softmax(-1); return (w @ (0 * v)).transpose(1, 2).flatten(2) @ w_o.T
{HEADS}w = (q @ k.mT / head_dim ** 0.5).masked_fill(keep, -torch.inf).softmax(-1); return (w @ v).transpose(1, 2).flatten(2) @ w_o.T
{HEADS}w = (q @ k.mT / head_dim ** 0.5).softmax(-1).tril(); return (w @ v).transpose(1, 2).flatten(2) @ w_o.T
""",
    }
)
