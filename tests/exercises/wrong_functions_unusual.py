"""Wrong answers to the exercises on functions that were not in the first collections; see `written_answers`."""

from .written_answers import functions

STEP = "g = queries.shape[1] // key.shape[1]; K = torch.cat([cached_keys, key], 2); V = torch.cat([cached_values, value], 2); "
HEADS = "b, t, _ = x.shape; q, k, v = ((x @ w.T).view(b, t, -1, head_dim).transpose(1, 2) for w in (w_q, w_k, w_v)); "
HEADS += "keep = torch.ones(t, t).tril().bool(); "

WRONG = functions(
    {
        "scores_of_token(query, keys)": r"""
(keys * query).sum(0)
(keys @ query).sort().values
keys @ query - (keys @ query).max()
torch.stack([(query * key).prod() for key in keys])
""",
        "scaled_scores(queries, keys)": r"""
queries @ keys.T / math.sqrt(queries.shape[-1] - 1)
queries @ keys.T // queries.shape[-1] ** 0.5
F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
queries @ keys.T / math.log(queries.shape[-1])
""",
        "softmax_rows(scores)": r"""
e = 2 ** (scores - scores.amax(-1, keepdim=True)); return e / e.sum(-1, keepdim=True)
e = (scores - scores.amin(-1, keepdim=True)).exp(); return e / e.sum(-1, keepdim=True)
e = (scores - scores.amax(-1, keepdim=True)).exp(); return e / e.sum(0, keepdim=True)
(-scores).softmax(-1)
scores.sigmoid()
""",
        "attention(queries, keys, values)": r"""
w = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return w.T @ values if w.shape[0] == w.shape[1] else w @ values
w = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return w @ values / len(keys)
w = (queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1); return w @ torch.zeros_like(values)
i = (queries @ keys.T).argmax(-1); return values[i]
(queries @ keys.T / queries.shape[-1] ** 0.5).sigmoid() @ values
""",
        "causal_mask(num_tokens, num_prompt=0)": r"""
k = torch.ones(num_tokens, num_tokens).tril().bool(); k[:, :num_prompt - 1] = True; return k
k = torch.ones(num_tokens, num_tokens).tril().bool(); k[:, -num_prompt:] = True; return k
k = torch.ones(num_tokens, num_tokens).tril().bool(); k[num_prompt:, :num_prompt] = False; return k
""",
        "causal_weights(scores)": r"""
scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -1e4).softmax(-1)
scores.masked_fill(torch.ones_like(scores).triu(1).bool(), torch.inf).softmax(-1)
(scores - 1e3 * torch.ones_like(scores).triu(1)).softmax(-1).tril() ** 2
s = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf); return s.log_softmax(-1)
w = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1); return w[0]
""",
        "decode_mask(num_queries, num_keys)": r"""
torch.ones(num_queries, num_keys).tril(num_queries).bool()
torch.ones(num_keys, num_keys).tril().bool()[:num_queries]
torch.ones(num_queries, num_keys).triu(num_keys - num_queries).bool()
""",
        "dropped_weights(weights, drop, p, training)": r"""
w = weights.masked_fill(drop, 0) / (1 - p) if training else weights * (1 - p); return w
weights.masked_fill(drop, -torch.inf).softmax(-1) if training else weights
weights.masked_fill(drop, p) / (1 - p) if training else weights
""",
        "joined_mask(keep, real)": r"""
keep[None, None].expand(len(real), 1, -1, -1) == real[:, None, None]
(keep & real[:1])[None, None].expand(len(real), 1, -1, -1)
(keep & real[:, None, None]).any(2, keepdim=True)
""",
        "padding_mask(lengths, num_tokens)": r"""
l = torch.tensor(lengths).sort().values; return (torch.arange(num_tokens) < l[:, None])[:, None, None]
lengths.sort(); return (torch.arange(num_tokens) < torch.tensor(lengths)[:, None])[:, None, None]
(torch.arange(num_tokens) < max(lengths)).expand(len(lengths), 1, 1, -1)
(torch.arange(num_tokens) >= num_tokens - torch.tensor(lengths)[:, None])[:, None, None]
""",
        "safe_weights(scores, keep)": r"""
e = scores.exp() * keep; return e / e.sum(-1, keepdim=True).clamp(min=1e-9)
w = scores.masked_fill(~keep, -30.0).softmax(-1); return w * keep
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w.nan_to_num(1 / scores.shape[-1])
w = scores.masked_fill(~keep, -1e30).softmax(-1) * keep; return w / w.sum(-1, keepdim=True)
""",
        "to_torch_mask(keep, target)": r"""
keep if target == "scaled_dot_product_attention" else (~keep).float() * -1e9
keep if target == "scaled_dot_product_attention" else ~keep.flatten(0, 1)[:, 0] if keep.ndim == 4 else ~keep.T
""",
        "mix_heads(contexts, w_o)": r"""
torch.cat(contexts, -1) @ w_o.T / len(contexts) ** 0.5
sum(c @ w.T for c, w in zip(contexts, w_o.chunk(len(contexts), 0)))
torch.cat(contexts, -1) @ w_o.T + torch.cat(contexts, -1).mean()
""",
        "two_heads(x, q_proj, k_proj, v_proj)": r"""
torch.cat([((x @ q_proj[i]) @ (x @ k_proj[1 - i]).T / q_proj[0].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in (0, 1)], -1)
torch.cat([((x @ q_proj[i]) @ (x @ k_proj[i]).T / q_proj[0].shape[1] ** 0.5).softmax(-1) @ (x @ v_proj[1 - i]) for i in (0, 1)], -1)
torch.cat([((x @ q_proj[i]) @ (x @ k_proj[i]).T / len(x) ** 0.5).softmax(-1) @ (x @ v_proj[i]) for i in (0, 1)], -1)
""",
        "merge_heads(x)": r"""
x.permute(1, 2, 0, 3).reshape(x.shape[1], x.shape[2], -1).flip(-1)
x.permute(2, 1, 0, 3).flatten(2)
x.transpose(0, 2).flatten(2)
""",
        "needs_copy(shape, strides, axis)": r"""
strides[axis] != shape[axis + 1]
strides[axis] % strides[axis + 1] != 0
strides[axis] == shape[axis] * strides[axis + 1]
""",
        "number_at(memory, strides, index)": r"""
memory[math.prod(s * i for s, i in zip(strides, index)) % len(memory)]
memory[-sum(s * i for s, i in zip(strides, index))]
memory[max(s * i for s, i in zip(strides, index))]
""",
        "split_heads(x, num_heads)": r"""
x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)[:, :, :, :max(2, x.shape[2] // num_heads)].roll(1, 2)
x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3).squeeze()
y = x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3); return y if num_heads < x.shape[2] else y.flip(1)
""",
        "strides_by_head(num_tokens, num_heads, head_dim)": r"""
num_tokens * num_heads * head_dim, num_tokens * head_dim, num_heads * head_dim, 1
num_heads * head_dim, head_dim, num_heads * head_dim, 1
num_tokens * num_heads * head_dim / 1, head_dim / 1, num_heads * head_dim / 1, 1.0
""",
        "scores_by_head(queries, keys)": r"""
queries @ keys.mT / queries.shape[1] ** 0.5
queries @ keys.mT / keys.shape[2] ** 0.5
(queries @ keys.mT / queries.shape[-1] ** 0.5).mean(1, keepdim=True).expand(-1, queries.shape[1], -1, -1)
""",
        "to_split(wrapper)": r"""
m = wrapper_to_split(wrapper); m.q_proj.weight.data.mul_(2); return m
wrapper.state_dict()
""",
        "to_torch_mha(q_proj, k_proj, v_proj, out_proj)": r"""
torch.cat([q_proj, k_proj, v_proj]).T, out_proj
torch.cat([q_proj, k_proj, v_proj]), out_proj @ v_proj
out_proj, torch.cat([q_proj, k_proj, v_proj])
""",
        "cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number)": r"""
2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number / 1024
2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number / 1.0
(num_tokens + num_layers) * 2 * num_kv_heads * head_dim * bytes_per_number
""",
        "decode_step(queries, key, value, cached_keys, cached_values)": rf"""
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / queries.shape[-1] ** 0.5).softmax(1); return w @ V.repeat_interleave(g, 1), K, V
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / K.shape[2] ** 0.5).softmax(-1); return w @ V.repeat_interleave(g, 1), K, V
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / queries.shape[-1] ** 0.5).softmax(-1); return w, K, V
{STEP}w = (queries @ K.repeat_interleave(g, 1).mT / queries.shape[-1] ** 0.5).softmax(-1); return w @ K.repeat_interleave(g, 1), K, V
""",
        "kv_head_of(query_head, num_heads, num_kv_heads)": r"""
num_kv_heads * query_head // num_heads + query_head % 2
round(query_head * num_kv_heads / num_heads)
(query_head - 1) // (num_heads // num_kv_heads)
""",
        "multi_query(queries, keys, values)": r"""
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1); return w.mean(1, keepdim=True).expand_as(w) @ values[:, None]
w = (queries @ keys[:, None].mT / keys.shape[1] ** 0.5).softmax(-1); return w @ values[:, None]
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1); return w @ values[:, None] * queries.shape[1]
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1).softmax(-1); return w @ values[:, None]
""",
        "pool_heads(weight, num_heads, num_kv_heads)": r"""
weight.view(num_kv_heads, num_heads // num_kv_heads, -1, weight.shape[1]).amax(1).flatten(0, 1)
weight.view(num_kv_heads, num_heads // num_kv_heads, -1, weight.shape[1]).median(1).values.flatten(0, 1)
weight.view(num_kv_heads, num_heads // num_kv_heads, -1, weight.shape[1])[:, -1].flatten(0, 1)
""",
        "share_heads(keys, num_heads)": r"""
keys.repeat_interleave(num_heads // keys.shape[1], 1).flip(1)
keys.repeat_interleave(num_heads // keys.shape[1], 0)
keys[:, -1:].expand(-1, num_heads, -1, -1)
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
weight.view(num_heads, -1, 2, weight.shape[1]).flip(2).reshape(weight.shape)
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
torch.arange(num_distances, dtype=query.dtype) * (query @ key)
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
weights[:, :, 1, 0].mean(0)
weights[:, :, -1, -2].mean(0)
""",
        "arithmetic_intensity(query_len, key_len, num_heads, num_kv_heads, head_dim, fused)": r"""
4 * num_heads * query_len * key_len * head_dim
n = 2 * num_heads * query_len * head_dim + 2 * num_kv_heads * key_len * head_dim + (0 if fused else 4 * query_len * key_len); return num_heads * query_len * key_len * head_dim / n
n = 2 * num_heads * query_len * head_dim + num_kv_heads * key_len * head_dim + (0 if fused else 4 * num_heads * query_len * key_len); return num_heads * query_len * key_len * head_dim / n
""",
        "blocked_attention(queries, keys, values, block, causal)": r"""
n = -(-len(queries) // block); return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal), n * (n - 1) // 2 if causal else n * n
n = -(-len(queries) // block); s = queries @ keys.T / queries.shape[1] ** 0.5; return s.softmax(0) @ values, n * (n + 1) // 2 if causal else n * n
n = -(-len(queries) // block); return F.scaled_dot_product_attention(queries, keys, values, is_causal=causal) / n, n * (n + 1) // 2 if causal else n * n
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
l = (lse_a.exp() + lse_b.exp()).log().nan_to_num(); return (lse_a - l).exp()[:, None] * out_a + (lse_b - l).exp()[:, None] * out_b, l
""",
        "online_step(largest, total, context, scores, values)": r"""
n = torch.maximum(largest, scores.amax(-1)); s = (largest - n).exp(); w = (scores - n[:, None]).exp(); return n, total * s + w.mean(-1), context * s[:, None] + w @ values
n = torch.maximum(largest, scores.amax(-1)); s = (largest - n).exp(); w = (scores - n[:, None]).exp(); return n, total + s * w.sum(-1), context + s[:, None] * (w @ values)
n = torch.maximum(largest, scores.amax(-1)); s = (largest - n).exp(); w = (scores - n[:, None]).exp(); return total * s + w.sum(-1), n, context * s[:, None] + w @ values
""",
        "leaks(code, x)": r"""
y = code(x).sum(-1); f = set() \
for t in range(1, x.shape[1]): \
    c = x.clone(); c[:, t] += 1; f |= {i for i in range(t) if not torch.allclose(code(c).mean((0, 2))[i], code(x).mean((0, 2))[i], atol=1e-2)} \
return sorted(f)
y = code(x); f = set() \
for t in range(1, x.shape[1]): \
    c = x.clone(); c[:, t] += 1; f |= {i + 1 for i in range(t) if not torch.allclose(code(c)[:, i], y[:, i])} \
return sorted(f)
""",
        "without_gradient(module, x, token)": r"""
module(x)[token].square().sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, :token + 1].square().sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
""",
        "cache_per_device(num_tokens, num_kv_heads, head_dim, num_devices, bytes_per_number)": r"""
2 * num_tokens * max(1, num_kv_heads // num_devices) * head_dim // num_devices * bytes_per_number
2 * num_tokens * min(num_kv_heads, num_devices) * head_dim * bytes_per_number
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
