"""Wrong answers to the functions of lessons 04 to 13, as beginners write them; see `written_answers.functions`."""

from .written_answers import functions

WRONG = functions(
    {
        "number_at(memory, strides, index)": r"""
memory[strides][index]
memory[strides * index]
memory[tuple(s * i for s, i in zip(strides, index))]
[memory[s * i] for s, i in zip(strides, index)]
memory[math.prod(s * i for s, i in zip(strides, index))]
memory[strides[0] * index[0]]
memory[sum(s + i for s, i in zip(strides, index))]
memory[sum(s * (i + 1) for s, i in zip(strides, index))]
memory[sum(s * (i - 1) for s, i in zip(strides, index))]
memory[sum(strides) * sum(index)]
memory.view(strides)[index]
memory.reshape(strides)[index]
slot = sum(s * i for s, i in zip(strides, index)); print(memory[slot])
memory[sum(s * i for s, i in zip(strides, index)) // 2]
memory[index[-1]]
""",
        "strides_by_head(num_tokens, num_heads, head_dim)": r"""
(num_tokens * num_heads * head_dim, num_tokens * head_dim, head_dim, 1)
(1, head_dim, num_heads * head_dim, num_tokens * num_heads * head_dim)
(num_tokens * num_heads * head_dim, head_dim, num_heads, 1)
(0, head_dim, num_heads * head_dim, 1)
(1, head_dim, num_heads * head_dim, 1)
(num_tokens * head_dim, head_dim, num_heads * head_dim, 1)
(num_tokens * num_heads, head_dim, num_heads * head_dim, 1)
(num_tokens * num_heads * head_dim, head_dim, num_tokens * head_dim, 1)
torch.tensor([num_heads * head_dim, head_dim, 1])
num_tokens, num_heads * head_dim, head_dim
queries.view(1, num_tokens, num_heads, head_dim).transpose(1, 2).stride()
"(t * w, d, w, 1)"
(240, 5, 20, 1)
""",
        "split_heads(x, num_heads)": r"""
x.view(x.shape[0], x.shape[1], num_heads, x.shape[2]).permute(1, 2, 0, 3)
x.view(num_heads, x.shape[0], x.shape[1], -1)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 2)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(2, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(0, 1)
x.view(x.shape[0], x.shape[1], num_heads, -1).transpose(-1, -2).permute(1, 2, 0, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).permute(1, 2, 0)
x.view(x.shape[0], x.shape[1], num_heads, -1).permute(2, 1, 0, 3)
x.view(x.shape[0], x.shape[1], num_heads, -1).T
x.view(x.shape[0], x.shape[1], num_heads, x.shape[2] / num_heads).permute(1, 2, 0, 3)
x.transpose(0, 1).view(x.shape[1], num_heads, x.shape[0], -1)
x.transpose(0, 1).reshape(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 2)
x.unsqueeze(1).repeat(1, num_heads, 1, 1)
x.unsqueeze(1).expand(-1, num_heads, -1, -1)
torch.stack(x.chunk(num_heads, 1), 1)
x.chunk(num_heads, dim=-1)
x.view(x.shape[0], x.shape[1], num_heads, 4).permute(1, 2, 0, 3)
x.view(2, x.shape[1], num_heads, -1).permute(1, 2, 0, 3)
x.view(x.shape[0], x.shape[1], 3, -1).permute(1, 2, 0, 3)
t, b, d = x.shape; return x.view(t, b, num_heads, d // num_heads).permute(1, 2, 0, 3).reshape(t, b, d)
t, b, h, d = x.shape; return x.view(t, b, num_heads, d).permute(1, 2, 0, 3)
x.reshape(-1, num_heads, x.shape[0], x.shape[2] // num_heads)
x[:, :, :num_heads]
""",
        "merge_heads(x)": r"""
x.view(x.shape[1], x.shape[2], -1)
x.permute(1, 2, 0, 3).view(x.shape[1], x.shape[2], x.shape[0] * x.shape[3])
x.permute(1, 2, 0, 3).reshape(x.shape[0], x.shape[1], -1)
x.permute(1, 2, 3, 0).reshape(x.shape[1], x.shape[2], -1)
x.permute(1, 3, 0, 2).reshape(x.shape[1], x.shape[2], -1)
x.permute(2, 1, 0, 3).flatten(2)
x.permute(1, 2, 0, 3).flatten(1)
x.permute(1, 2, 0, 3).flatten(1, 2)
x.permute(1, 2, 0).flatten(2)
x.transpose(1, 2).flatten(2)
x.transpose(0, 1).reshape(x.shape[1], x.shape[2], -1)
x.flatten(2)
x.flatten(2).transpose(0, 1)
torch.cat([x[h] for h in range(x.shape[0])], dim=1)
torch.cat([x[h] for h in range(x.shape[0])])
torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)
torch.cat(x, dim=-1)
torch.stack([x[h] for h in range(x.shape[0])], dim=-1)
x.squeeze(0)
x.permute(1, 2, 0, 3).contiguous().view(x.shape[1], x.shape[2], x.shape[3])
x.permute(1, 2, 0, 3).contiguous().view(2, x.shape[2], -1)
x.permute(1, 2, 0, 3).contiguous()
x.max(0).values
torch.cat([x[0], x[1]], -1)
""",
        "scores_by_head(queries, keys)": r"""
queries @ keys / queries.shape[-1] ** 0.5
queries @ keys.T / queries.shape[-1] ** 0.5
queries @ keys.transpose(-1, -3) / queries.shape[-1] ** 0.5
queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5
queries @ keys.permute(0, 1, 3, 2) / queries.shape[1] ** 0.5
queries @ keys.transpose(2, 3) / keys.shape[2] ** 0.5
queries @ keys.transpose(2, 3) * queries.shape[-1] ** 0.5
(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5).softmax(-1)
s = queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5; return s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf)
queries @ keys.view(*keys.shape[:2], keys.shape[3], keys.shape[2]) / queries.shape[-1] ** 0.5
torch.bmm(queries, keys.transpose(2, 3)) / queries.shape[-1] ** 0.5
torch.einsum("bhqd,bhkd->bhkq", queries, keys) / queries.shape[-1] ** 0.5
torch.einsum("bhqd,bgkd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
torch.einsum("bhqd,chkd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
(queries * keys).sum(-1) / queries.shape[-1] ** 0.5
queries @ keys.transpose(2, 3) / math.sqrt(queries.shape)
for h in range(queries.shape[1]): return queries[:, h] @ keys[:, h].mT / queries.shape[-1] ** 0.5
torch.stack([queries[:, h] @ keys[:, h].mT for h in range(queries.shape[1])]) / queries.shape[-1] ** 0.5
""",
        "to_split(wrapper)": r"""
return MultiHeadAttention(wrapper.heads[0].q_proj.in_features, wrapper.out_proj.in_features, wrapper.num_heads)
s = wrapper_to_split(wrapper); s.q_proj.weight = torch.cat([h.q_proj.weight for h in wrapper.heads]); return s
s = wrapper_to_split(wrapper); s.load_state_dict(wrapper.state_dict()); return s
s = MultiHeadAttention(wrapper.d_in, wrapper.d_out, wrapper.num_heads); return s
s = MultiHeadAttention(7, 12, 3); s.q_proj.weight.data = torch.cat([h.q_proj.weight for h in wrapper.heads]); return s
s = wrapper_to_split(wrapper); s.q_proj.weight.data = torch.cat([h.q_proj.weight.T for h in wrapper.heads]); return s
s = wrapper_to_split(wrapper); s.q_proj.weight.data = torch.cat([h.q_proj.weight for h in wrapper.heads], 1); return s
s = wrapper_to_split(wrapper); s.q_proj.weight.data = torch.stack([h.q_proj.weight for h in wrapper.heads]); return s
s = wrapper_to_split(wrapper); s.v_proj = s.q_proj; s.k_proj = s.q_proj; return s
s = wrapper_to_split(wrapper)
{r: torch.cat([getattr(h, r).weight for h in wrapper.heads]) for r in ("q_proj", "k_proj", "v_proj")}
s = wrapper_to_split(wrapper); nn.init.zeros_(s.out_proj.weight); return s
""",
        "multi_query(queries, keys, values)": r"""
(queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5).softmax(-1) @ values
(queries @ keys.T / queries.shape[-1] ** 0.5).softmax(-1) @ values
(queries @ keys[:, None] / queries.shape[-1] ** 0.5).softmax(-1) @ values[:, None]
(queries @ keys[None].transpose(2, 3) / queries.shape[-1] ** 0.5).softmax(-1) @ values[None]
(queries @ keys[:, None].transpose(2, 3) / queries.shape[-1] ** 0.5).softmax(-1) @ values
(queries @ keys[:, None].transpose(2, 3) / queries.shape[1] ** 0.5).softmax(-1) @ values[:, None]
(queries @ keys[:, None].transpose(2, 3) / queries.shape[-1] ** 0.5) @ values[:, None]
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None], is_causal=True)
F.scaled_dot_product_attention(queries, keys, values)
F.scaled_dot_product_attention(queries.mean(1), keys, values)
F.scaled_dot_product_attention(queries[:, 0], keys, values)
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None]).sum(1)
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None]).transpose(1, 2)
F.scaled_dot_product_attention(queries.flatten(1, 2), keys, values)
keys = keys.repeat(queries.shape[1], 1, 1); values = values.repeat(queries.shape[1], 1, 1); return F.scaled_dot_product_attention(queries, keys, values)
w = (queries @ keys[:, None].mT / queries.shape[-1] ** 0.5).softmax(-1); return w * values[:, None]
""",
        "kv_head_of(query_head, num_heads, num_kv_heads)": r"""
query_head // num_heads
query_head // (num_heads / num_kv_heads)
query_head * num_heads // num_kv_heads
query_head // (num_kv_heads // num_heads)
round(query_head * num_kv_heads / num_heads)
num_heads // num_kv_heads
query_head % num_heads
(query_head + 1) // (num_heads // num_kv_heads)
min(query_head, num_kv_heads - 1)
query_head // 2
query_head // 3
[query_head // (num_heads // num_kv_heads)]
heads_per_group = num_heads / num_kv_heads; return query_head / heads_per_group
num_kv_heads - query_head // (num_heads // num_kv_heads)
print(query_head // (num_heads // num_kv_heads))
""",
        "share_heads(keys, num_heads)": r"""
keys.repeat(num_heads, dim=1)
keys.repeat(1, num_heads, 1, 1)
keys.repeat_interleave(num_heads // keys.shape[1])
keys.repeat_interleave(num_heads // keys.shape[1], dim=0)
keys.repeat_interleave(num_heads / keys.shape[1], dim=1)
keys.repeat_interleave(num_heads // keys.shape[0], dim=1)
keys.repeat_interleave(2, dim=1)
keys.expand(-1, num_heads, -1, -1)
keys[:, :, None].expand(-1, -1, num_heads // keys.shape[1], -1, -1)
keys[:, None].expand(-1, num_heads // keys.shape[1], -1, -1, -1).flatten(1, 2)
torch.stack([keys[:, h // keys.shape[1]] for h in range(num_heads)], 1)
torch.stack([keys[h * keys.shape[1] // num_heads] for h in range(num_heads)], 1)
torch.stack([keys[:, h * keys.shape[1] // num_heads] for h in range(num_heads)])
keys.view(keys.shape[0], num_heads, keys.shape[2], -1)
keys.tile(1, num_heads // keys.shape[1], 1, 1)
keys
""",
        "cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number)": r"""
num_tokens * num_layers * head_dim * bytes_per_number
2 * num_tokens * num_layers * head_dim
num_tokens + num_layers + num_kv_heads + head_dim + bytes_per_number
2 * num_tokens * num_layers * num_kv_heads * head_dim / bytes_per_number
2 * num_tokens * num_layers * num_kv_heads ** 2 * head_dim * bytes_per_number
(num_tokens * num_layers * num_kv_heads * head_dim) ** 2 * bytes_per_number
4 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number
2 * num_tokens * num_layers * num_kv_heads * head_dim * 2
2 * num_tokens ** 2 * num_layers * num_kv_heads * head_dim * bytes_per_number
2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number / 2 ** 20
str(2 * num_tokens * num_layers * num_kv_heads * head_dim * bytes_per_number)
""",
        "leaks(code, x)": r"""
code(x).isnan().nonzero()
changed = x.clone(); changed[:, -1] = 9; return torch.allclose(code(changed)[:, :-1], code(x)[:, :-1])
changed = x; changed[:, -1] = 9; return (code(changed) != code(x)).any(2).any(0).nonzero().flatten().tolist()
changed = x.clone(); changed[:, -1] = 9; return (code(changed) != code(x)).any(2).any(0).nonzero().flatten().tolist()
changed = x.clone(); changed[:, -1] = 9; return (code(changed) != code(x))[:, :-1].any(2).any(0).nonzero()
changed = x.clone(); changed[0, -1] = 9; return (code(changed) != code(x))[0, :-1].any(1).nonzero().flatten().tolist()
changed = x.clone(); changed[:, -1] = 9; return [] if torch.allclose(code(changed)[:, 0], code(x)[:, 0]) else [0]
changed = x.clone(); changed[:, -1] = 9; return code(changed)[:, :-1] != code(x)[:, :-1]
changed = x.clone(); changed[:, -1] = 9; return [t for t in range(x.shape[1]) if code(changed)[:, t] != code(x)[:, t]]
y = code(x.flip(1)).flip(1); return [t for t in range(x.shape[1]) if not torch.allclose(y[:, t], code(x)[:, t])]
x.requires_grad_(); code(x)[:, 0].sum().backward(); return x.grad.any(2).any(0).nonzero().flatten().tolist()
code(x).triu(1).nonzero()
[t for t in range(1, x.shape[1]) if not torch.allclose(code(x[0, :t]), code(x)[0, :t])]
[t for t in range(1, x.shape[1]) if not torch.allclose(code(x[:, :t]), code(x)[:, :t])]
any(not torch.allclose(code(x[:, :t]), code(x)[:, :t]) for t in range(1, x.shape[1]))
y = code(x); found = []; \
for t in range(1, x.shape[1]): \
    changed = x.clone(); changed[:, t] += 1 \
    found.append(not torch.allclose(code(changed)[:, :t], y[:, :t])) \
return found
""",
        "without_gradient(module, x, token)": r"""
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad.any()]
module(x)[:, token].sum().backward(); return [p for p in module.parameters() if p.grad is None]
module(x)[:, token].sum().backward(); return [p for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad == 0]
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if not p.requires_grad]
module(x)[:, token].sum(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, token].sum().backward(); return {n: p.grad for n, p in module.named_parameters()}
module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or p.grad.sum() > 0]
module(x)[:, token].backward(); return []
module(x)[:, token].sum().backward(); return next(n for n, p in module.named_parameters() if p.grad is None or not p.grad.any())
module(x).sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x)[:, :token].sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
module(x[:, token]).sum().backward(); return [n for n, p in module.named_parameters() if p.grad is None or not p.grad.any()]
""",
    }
)
