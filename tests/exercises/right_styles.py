"""Right answers in unusual styles; see `written_answers`."""

from .written_answers import TEMPLATES, edited, functions, run_cell

FUNCTIONS = functions(
    {
        "scores_of_token(query, keys)": r"""
torch.einsum("d,kd->k", query, keys)
keys.mv(query)
torch.tensor([float(query @ key) for key in keys], dtype=query.dtype)
torch.from_numpy(keys.numpy() @ query.numpy())
(query[None] @ keys.mT)[0]
torch.vmap(lambda key: key @ query)(keys)
torch.tensordot(keys, query, 1)
torch.cat([(query * key).sum()[None] for key in keys])
F.linear(query, keys)
torch.stack(list(map(query.dot, keys)))
""",
        "scaled_scores(queries, keys)": r"""
torch.einsum("qd,kd->qk", queries, keys) / math.sqrt(queries.size(1))
F.linear(queries, keys) * queries.shape[-1] ** -0.5
queries @ keys.T / torch.sqrt(torch.tensor(queries.shape[-1], dtype=queries.dtype))
torch.baddbmm(queries.new_zeros(1, 1, 1), queries[None], keys.T[None], alpha=queries.shape[1] ** -0.5)[0]
torch.stack([keys @ query for query in queries]) / queries.shape[1] ** 0.5
torch.vmap(lambda query: keys @ query / len(query) ** 0.5)(queries)
(queries[:, None] * keys).sum(-1) / np.sqrt(queries.shape[1])
queries.div(queries.shape[1] ** 0.25) @ keys.div(queries.shape[1] ** 0.25).T
torch.from_numpy(queries.numpy() @ keys.numpy().T / math.sqrt(queries.shape[1]))
(keys @ queries.T).T / queries.shape[1] ** 0.5
""",
        "softmax_rows(scores)": r"""
F.softmax(scores, -1)
nn.Softmax(dim=1)(scores)
scores.log_softmax(1).exp()
torch.exp(scores - torch.logsumexp(scores, 1, keepdim=True))
torch.stack([row.softmax(0) for row in scores])
e = torch.exp(scores - scores.max(1, keepdim=True)[0]); return F.normalize(e, p=1, dim=1)
e = np.exp(scores.numpy() - scores.numpy().max(1, keepdims=True)); return torch.from_numpy(e / e.sum(1, keepdims=True))
torch.vmap(lambda row: row.softmax(0))(scores)
""",
        "attention(queries, keys, values)": r"""
F.scaled_dot_product_attention(queries[None, None], keys[None, None], values[None, None])[0, 0]
torch.einsum("qk,kd->qd", torch.einsum("qd,kd->qk", queries, keys).div(queries.shape[1] ** 0.5).softmax(1), values)
torch.stack([sum(w * v for w, v in zip((keys @ q / len(q) ** 0.5).softmax(0), values)) for q in queries])
torch.vmap(lambda q: (keys @ q / len(q) ** 0.5).softmax(0) @ values)(queries)
F.dropout((queries @ keys.T / queries.shape[1] ** 0.5).softmax(1), 0.0) @ values
(values.T @ (keys @ queries.T / queries.shape[1] ** 0.5).softmax(0)).T
""",
        "causal_mask(num_tokens, num_prompt=0)": r"""
(torch.tril(torch.ones(num_tokens, num_tokens)) == 1) | (torch.arange(num_tokens) < num_prompt)
torch.arange(num_tokens)[None] <= torch.arange(num_tokens).clamp(min=num_prompt - 1)[:, None]
nn.Transformer.generate_square_subsequent_mask(num_tokens).index_fill(1, torch.arange(num_prompt), 0) == 0
keep = np.tril(np.ones((num_tokens, num_tokens), dtype=bool)); keep[:, :num_prompt] = True; return torch.from_numpy(keep)
keep = torch.ones(num_tokens, num_tokens).tril().bool(); keep[:num_prompt, :num_prompt] = True; return keep
torch.tensor([[k <= q or k < num_prompt for k in range(num_tokens)] for q in range(num_tokens)])
keep = ~torch.full((num_tokens, num_tokens), True).triu(1); keep.T[:num_prompt] = True; return keep
~torch.ones(num_tokens, num_tokens).triu(1).masked_fill(torch.arange(num_tokens) < num_prompt, 0).bool()
torch.cat([torch.ones(num_tokens, num_prompt), torch.ones(num_tokens, num_tokens).tril()[:, num_prompt:]], 1).bool()
""",
        "causal_weights(scores)": r"""
(scores + torch.full_like(scores, -torch.inf).triu(1)).softmax(-1)
torch.where(torch.ones_like(scores).tril() == 1, scores, -torch.inf).softmax(-1)
s = scores.clone(); s[:, torch.ones_like(s[0]).triu(1).bool()] = -torch.inf; return s.softmax(-1)
scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -1e9).softmax(-1)
""",
        "padding_mask(lengths, num_tokens)": r"""
torch.stack([torch.arange(num_tokens) < n for n in lengths])[:, None, None]
torch.tensor([[[[k < n for k in range(num_tokens)]]] for n in lengths])
(torch.arange(num_tokens).expand(len(lengths), -1) < torch.as_tensor(lengths).view(-1, 1)).unsqueeze(1).unsqueeze(1)
nn.utils.rnn.pad_sequence([torch.ones(n).bool() for n in [*lengths, num_tokens]], True)[:-1, None, None]
""",
        "safe_weights(scores, keep)": r"""
torch.where(keep.any(-1, keepdim=True), scores.masked_fill(~keep, -torch.inf).softmax(-1), 0.0)
scores.masked_fill(~keep, -torch.inf).softmax(-1).nan_to_num(0)
s = scores.masked_fill(~keep, -torch.inf); e = (s - s.amax(-1, keepdim=True).clamp(min=-1e30)).exp(); return e / e.sum(-1, keepdim=True).clamp(min=1e-30)
scores.masked_fill(~keep, -1e9).softmax(-1).masked_fill(~keep, 0)
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); w[w.isnan()] = 0; return w
""",
        "dropped_weights(weights, drop, p, training)": r"""
torch.where(drop & training, 0.0, weights / (1 - p * training))
weights * (~drop).to(weights.dtype) / (1 - p) if training else weights
weights if not training else weights.where(~drop, 0) * (1 / (1 - p))
w = weights.clone(); w[drop] = 0; return w / (1 - p) if training else weights
""",
        "split_heads(x, num_heads)": r"""
x.unflatten(-1, (num_heads, -1)).permute(1, 2, 0, 3)
x.transpose(0, 1).reshape(x.shape[1], x.shape[0], num_heads, -1).swapaxes(1, 2).contiguous()
torch.einsum("tbhd->bhtd", x.unflatten(2, (num_heads, -1)))
torch.stack(x.transpose(0, 1).tensor_split(num_heads, -1), 1)
torch.from_numpy(x.numpy().reshape(*x.shape[:2], num_heads, -1).transpose(1, 2, 0, 3))
x.permute(1, 2, 0).reshape(x.shape[1], num_heads, -1, len(x)).mT
x.view(len(x), x.shape[1] * num_heads, -1).transpose(0, 1).unflatten(0, (-1, num_heads))
""",
        "merge_heads(x)": r"""
x.permute(1, 2, 0, 3).flatten(2)
torch.cat([*x], 2)
torch.einsum("hbtd->bthd", x).reshape(*x.shape[1:3], -1)
torch.hstack([head.mT for head in x]).mT
torch.stack([torch.cat([*sample], -1) for sample in x.unbind(1)])
x.movedim(0, 2).reshape(x.shape[1], x.shape[2], -1)
""",
        "scores_by_head(queries, keys)": r"""
queries @ keys.mT / queries.shape[-1] ** 0.5
torch.matmul(queries, keys.permute(0, 1, 3, 2)).mul(queries.size(-1) ** -0.5)
torch.stack([q @ k.mT for q, k in zip(queries.unbind(1), keys.unbind(1))], 1) / math.sqrt(queries.shape[-1])
torch.bmm(queries.flatten(0, 1), keys.flatten(0, 1).mT).view(*queries.shape[:3], -1) / queries.shape[-1] ** 0.5
(queries[:, :, :, None] * keys[:, :, None]).sum(-1) / torch.sqrt(torch.tensor(queries.shape[-1]))
torch.vmap(torch.vmap(lambda q, k: q @ k.T / q.shape[1] ** 0.5))(queries, keys)
""",
        "multi_query(queries, keys, values)": r"""
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None])
F.scaled_dot_product_attention(queries, keys[:, None], values[:, None], enable_gqa=True)
torch.vmap(F.scaled_dot_product_attention, in_dims=(1, None, None), out_dims=1)(queries, keys, values)
F.scaled_dot_product_attention(queries, *(x[:, None].repeat(1, queries.shape[1], 1, 1) for x in (keys, values)))
""",
        "share_heads(keys, num_heads)": r"""
keys[:, torch.arange(num_heads) // (num_heads // keys.shape[1])]
keys.index_select(1, torch.arange(keys.shape[1]).repeat_interleave(num_heads // keys.shape[1]))
torch.cat([keys[:, [i]].expand(-1, num_heads // keys.shape[1], -1, -1) for i in range(keys.shape[1])], 1)
keys[:, :, None].repeat(1, 1, num_heads // keys.shape[1], 1, 1).flatten(1, 2)
""",
        "kv_head_of(query_head, num_heads, num_kv_heads)": r"""
divmod(query_head, num_heads // num_kv_heads)[0]
math.floor(query_head * num_kv_heads / num_heads + 1e-9)
torch.arange(num_kv_heads).repeat_interleave(num_heads // num_kv_heads)[query_head]
""",
        "cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number)": r"""
math.prod([2, num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number])
torch.empty(2, num_layers, num_tokens, num_kv_heads, head_dim, device="meta").numel() * bytes_per_number
np.prod([2, num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number]).item()
""",
        "number_at(memory, strides, index)": r"""
memory[int(np.dot(strides, index))]
memory[int(torch.tensor(strides) @ torch.tensor(index))].item()
float(memory[sum(map(lambda s, i: s * i, strides, index))])
""",
        "leaks(code, x)": r"""
y = code(x); return {q for q in range(x.shape[1]) if not torch.allclose(code(x[:, : q + 1])[:, q], y[:, q])}
j = torch.autograd.functional.jacobian(code, x).abs().sum((0, 2, 3, 5)); return j.triu(1).any(1).nonzero().flatten()
""",
        "without_gradient(module, x, token)": r"""
module(x)[:, token].sin().sum().backward(); return {n for n, p in module.named_parameters() if p.grad is None or p.grad.norm() == 0}
ps = dict(module.named_parameters()); gs = torch.autograd.grad(module(x)[:, token].pow(3).sum(), list(ps.values()), materialize_grads=True); \
return [n for n, g in zip(ps, gs) if not g.any()]
""",
    }
)

SCRIPTED = """
@torch.jit.script
def scaled_scores(queries, keys):
    return torch.matmul(queries, keys.t()) / queries.size(-1) ** 0.5
"""

BIASES = "bias=False => bias=True"
OWN = "q_proj => W_query && k_proj => W_key && v_proj => W_value && out_proj => mix"
TURNED = "nn.Linear(d_in, d_out, bias=False) => nn.Parameter(torch.randn(d_in, d_out)) && " + " && ".join(
    f"self.{role}_proj(x) => (x @ self.{role}_proj)" for role in "qkv"
)
CONV = "nn.Linear(d_in, d_out, bias=False) => nn.Conv1d(d_in, d_out, 1, bias=False) && " + " && ".join(
    f"self.{role}_proj(x) => self.{role}_proj(x.mT).mT" for role in "qkv"
)
SCALE = "super().__init__() => super().__init__() | self.scale = nn.Parameter(torch.tensor({} ** -0.5))"
MASK = "keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => "
BUFFER = "super().__init__() => super().__init__() | self.register_buffer('mask', torch.ones(512, 512).triu(1).bool())"
SDPA = "context = weights @ values => context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)"

PACKED = """
class {name}(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv = nn.Linear(d_in, 3 * d_out{bias})
        self.proj = nn.Linear(d_out, d_out{bias})

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = {split}
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, -1))
"""
SPLITS = (
    "self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)",
    "self.qkv(x).view(b, t, self.h, 3, -1).permute(3, 0, 2, 1, 4)",
    "self.qkv(x).view(b, t, self.h, -1).transpose(1, 2).chunk(3, -1)",
    "(part.unflatten(2, (self.h, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))",
)

AXES = """
class MultiHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        d = d_out // num_heads
        self.w = nn.ParameterList([nn.Parameter(torch.randn(num_heads, d_in, d)) for _ in range(3)])
        self.o = nn.Parameter(torch.randn(num_heads, d, d_out))

    def forward(self, x):
        q, k, v = (torch.einsum("bti,hid->bhtd", x, w) for w in self.w)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.einsum("bhtd,hdo->bto", y, self.o)
"""
ONE_TENSOR = """
class SingleHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.w = nn.Parameter(torch.randn({shape}))

    def forward(self, x):
        q, k, v = torch.einsum("bti,{axes}->rbto", x, self.w)
        return F.scaled_dot_product_attention(q, k, v)
"""
FORWARD = """
class MultiHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k, self.v = (nn.Parameter(torch.randn(d_out, d_in)) for _ in range(3))
        self.out = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        q, k, v = (F.linear(x, w).transpose(0, 1) for w in (self.q, self.k, self.v))
        eye = torch.eye(q.shape[-1], dtype=x.dtype)
        hidden = torch.ones(len(q), len(q)).triu(1).bool()
        y, _ = F.multi_head_attention_forward(
            q, k, v, q.shape[-1], self.num_heads, torch.cat([eye, eye, eye]), None, None, None, False, 0.0,
            self.out.weight, None, training=self.training, need_weights=False, attn_mask=hidden
        )
        return y.transpose(0, 1)
"""
LOOP = """
class Wrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.many = nn.ModuleDict({str(i): SingleHeadAttention(d_in, d_out // num_heads, causal=False) for i in range(num_heads)})
        self.last = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        return self.last(torch.cat([self.many[str(i)](x) for i in range(len(self.many))], 2))
"""


def _classes(name, *lines):
    return [
        run_cell(edited(edited(TEMPLATES[name], own), line) if own else edited(TEMPLATES[name], line), name)
        for own, line in lines
    ]


CLASSES = {
    "SingleHead": _classes(
        "SingleHead",
        ("", OWN.rpartition(" && ")[0]),
        ("", SCALE.format("head_dim") + " && scores / queries.shape[-1] ** 0.5 => scores * self.scale"),
        ("", "return weights @ values => return F.scaled_dot_product_attention(queries, keys, values)"),
    ),
    "MultiHead": [
        *_classes(
            "MultiHead",
            ("", OWN),
            ("", TURNED.replace("d_out", "num_heads * head_dim")),
            ("", SDPA),
            ("", SCALE.format("head_dim") + " && / self.head_dim**0.5 => * self.scale"),
        ),
    ],
    "SingleHeadWithGaps": [
        *_classes(
            "SingleHeadWithGaps",
            ("", BIASES),
            ("", OWN.rpartition(" && ")[0]),
            (BIASES, OWN.rpartition(" && ")[0]),
            ("", TURNED),
            ("", CONV),
            ("", SCALE.format("d_out") + " && scores / queries.shape[-1] ** 0.5 => scores * self.scale"),
            (
                "",
                "super().__init__() => super().__init__() | self.drop = nn.Dropout(0.0) && return weights => return self.drop(weights)",
            ),
            ("", "scores = queries @ keys.transpose(1, 2) => scores = torch.einsum('bqd,bkd->bqk', queries, keys)"),
            ("", "return weights @ values => return torch.stack([w @ v for w, v in zip(weights, values)])"),
        ),
        run_cell(ONE_TENSOR.format(shape="3, d_in, d_out", axes="rio"), "SingleHeadWithGaps"),
        run_cell(ONE_TENSOR.format(shape="d_out, 3, d_in", axes="ori"), "SingleHeadWithGaps"),
    ],
    "Wrapper": [
        run_cell(LOOP, "Wrapper"),
        *_classes("Wrapper", ("", "heads => attention_heads && out_proj => o")),
    ],
    "MultiHeadWithGaps": [
        *(
            run_cell(PACKED.format(name="MultiHeadWithGaps", split=split, bias=bias), "MultiHeadWithGaps")
            for split in SPLITS
            for bias in ("", ", bias=False")
        ),
        *_classes(
            "MultiHeadWithGaps",
            ("", OWN),
            (BIASES, OWN),
            ("", TURNED),
            ("", CONV),
            ("", MASK + "keep = torch.tril(torch.ones(t, t)) == 1"),
            (
                "",
                BUFFER
                + " && scores.masked_fill(~keep, -torch.inf) => scores.masked_fill(self.mask[:t, :t], -torch.inf)",
            ),
            ("", SDPA),
            ("", SCALE.format("(d_out // num_heads)") + " && / self.head_dim**0.5 => * self.scale"),
        ),
        run_cell(AXES, "MultiHeadWithGaps"),
        run_cell(FORWARD, "MultiHeadWithGaps"),
    ],
    "GroupedQuery": _classes(
        "GroupedQuery",
        ("", OWN),
        ("", BUFFER + " && scores.masked_fill(~keep, -torch.inf) => scores.masked_fill(self.mask[:t, :t], -torch.inf)"),
        ("", ".repeat_interleave(group, dim=1) => [:, torch.arange(self.num_heads) // group]"),
        ("", SDPA),
    ),
}

RIGHT = {name: found + CLASSES.pop(name, []) for name, found in FUNCTIONS.items()} | CLASSES
RIGHT["scaled_scores"] = [*RIGHT["scaled_scores"], run_cell(SCRIPTED, "scaled_scores")]
