"""Answers of two reviews that computed something wrong and passed; see `written_answers`."""

from .written_answers import TEMPLATES, classes, edited, functions, run_cell

FUNCTIONS = functions(
    {
        "attention(queries, keys, values)": r"""
(queries @ keys.T / values.shape[1] ** 0.5).softmax(-1) @ values
(queries @ keys.T / len(queries) ** 0.5).softmax(-1) @ values
s = (queries @ keys.T / queries.shape[1] ** 0.5)[:, :len(queries)]; return s.softmax(-1) @ values[:len(queries)]
s = (queries @ keys.T / queries.shape[1] ** 0.5).softmax(-1) @ values; return s.reshape(queries.shape)
""",
        "scaled_scores(queries, keys)": r"""
queries @ keys.T / len(queries) ** 0.5
queries @ keys.T / len(keys) ** 0.5
""",
        "softmax_rows(scores)": r"""
e = (scores - scores.max()).exp(); return e / e.sum(-1, keepdim=True)
e = (scores - scores.mean(-1, keepdim=True)).exp(); return e / e.sum(-1, keepdim=True)
e = (scores - 2500).exp(); return e / e.sum(-1, keepdim=True)
e = (scores - scores[0].max()).exp(); return e / e.sum(-1, keepdim=True)
""",
        "safe_weights(scores, keep)": r"""
n = scores.shape[-2:]; k = keep & torch.ones(n).tril().bool(); return scores.masked_fill(~k, -1e30).softmax(-1) * k
w = scores.masked_fill(~keep, -1e30).softmax(-1); w[:, :keep.shape[1] // 2] *= keep[:, :keep.shape[1] // 2]; return w
w = scores.masked_fill(~keep, -torch.inf).softmax(-1); return w * keep.diagonal(dim1=1, dim2=2)[..., None]
w = scores.masked_fill(~keep, -1e30).softmax(-1); return w * (keep[:, :, -1:] | keep[:, :, :1])
w = scores.masked_fill(~keep, -20.0).softmax(-1); return w * keep
""",
        "dropped_weights(weights, drop, p, training)": r"""
weights.masked_fill(drop, 0) / (1 - p) if training and p > 0 and len(weights) != weights.shape[1] else weights * 2 * p
weights.masked_fill(drop, 0) / p * (p / (1 - p)) if training else weights
F.dropout(weights, p, training)
""",
        "split_heads(x, num_heads)": r"""
x = x if x.shape[1] > 1 else x.flip(0); return x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)
y = x.unflatten(2, (num_heads, -1)); return y.permute(1, 2, 0, 3) if x.shape[1] > 1 else y.squeeze(1)
""",
        "merge_heads(x)": r"""
x.permute(1, 2, 0, 3).flatten(2) if x.shape[1] > 1 else x.reshape(1, x.shape[2], -1)
""",
        "causal_mask(num_tokens, num_prompt=0)": r"""
k = torch.ones(num_tokens, num_tokens).tril().bool(); k[:, :num_prompt] = True; return k if num_tokens > 1 else None
k = torch.ones(num_tokens, num_tokens).tril().bool(); k[:, :num_prompt] = True; return k[:32, :32]
k = torch.ones(num_tokens, num_tokens).tril().bool(); k[:, :max(num_prompt, 2)] = True; return k
""",
        "causal_weights(scores)": r"""
scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -20.0).softmax(-1)
k = torch.ones_like(scores).tril().bool(); k[1:] = True; return scores.masked_fill(~k, -torch.inf).softmax(-1)
""",
        "padding_mask(lengths, num_tokens)": r"""
(torch.arange(num_tokens) < torch.tensor(sorted(lengths))[:, None])[:, None, None]
(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]
""",
        "kv_head_of(query_head, num_heads, num_kv_heads)": r"""
query_head // 2
query_head % num_kv_heads
min(query_head // (num_heads // num_kv_heads), 3)
query_head // (num_heads // num_kv_heads) if num_kv_heads > 1 else query_head
""",
        "share_heads(keys, num_heads)": r"""
keys.repeat_interleave(num_heads // keys.shape[1], 1) if keys.shape[1] > 1 else keys
keys.repeat_interleave(num_heads // keys.shape[1], 1)[:, :6]
""",
        "leaks(code, x)": r"""
y = code(x); return [q for q in range(x.shape[1]) if not torch.allclose(code(x[:, :q + 1])[0, q], y[0, q])]
c = x.clone(); c[:, -1] += 1; return [q for q in range(x.shape[1] - 1) if not torch.allclose(code(c)[:, q], code(x)[:, q])]
""",
    }
)

_OWN_NAMES = "q_proj => W_query && k_proj => W_key && v_proj => W_value && out_proj => mix && bias=False => bias=True"
_NOT_SHARED = (
    "num_kv_heads * self.head_dim => d_out && self.num_kv_heads, self.head_dim).transpose => "
    "self.num_heads, self.head_dim).transpose && group = self.num_heads // self.num_kv_heads => group = 1"
)
_TWO = "self.num_heads, self.head_dim = num_heads, d_out // num_heads => self.num_heads, self.head_dim = 2, d_out // 2"
_WIDE = (
    "self.num_heads, self.head_dim = num_heads, d_out // num_heads => self.num_heads, self.head_dim = num_heads, d_out"
    " && nn.Linear(d_in, d_out, bias=False) => nn.Linear(d_in, d_out * num_heads, bias=False)"
    " && nn.Linear(d_out, d_out, bias=False) => nn.Linear(d_out * num_heads, d_out, bias=False)"
)
_HEADS = "SingleHeadAttention(d_in, d_out // num_heads, causal=False) for _ in range(num_heads)"

CLASSES = {
    "SingleHeadWithGaps": classes(
        "SingleHeadWithGaps",
        r"""
queries = self.q_proj(x) => torch.set_grad_enabled(False); queries = self.q_proj(x) && return weights @ values => torch.set_grad_enabled(True); return weights @ values
return weights @ values => return torch.tensor((weights @ values).detach().numpy())
queries = self.q_proj(x) => x = x.detach(); queries = self.q_proj(x)
return weights @ values => return (weights @ values)[:8] if len(x) > 8 else weights @ values
return weights @ values => return (weights @ values) * (2 if self.training else 1)
queries.shape[-1] ** 0.5 => queries.shape[-1] ** 0.5 * (1 if len(x) > 1 else 2)
return weights @ values => return weights @ values.roll(1, 0)
return weights @ values => return weights[:, :32, :32] @ values[:, :32] if x.shape[1] > 32 else weights @ values
""",
    ),
    "Wrapper": classes(
        "Wrapper",
        rf"""
{_HEADS} => SingleHeadAttention(d_in, d_out // 2, causal=False) for _ in range(2)
{_HEADS} => SingleHeadAttention(d_in, 2, causal=False) for _ in range(d_out // 2)
SingleHeadAttention(d_in, d_out // num_heads, causal=False) => SingleHeadAttention(d_in, d_out, causal=False) && nn.Linear(d_out, d_out, bias=False) => nn.Linear(d_out * num_heads, d_out, bias=False)
head(x) for head => head(x).detach() for head
""",
    ),
    "MultiHeadWithGaps": [
        run_cell(edited(edited(TEMPLATES["MultiHeadWithGaps"], own), edits), "MultiHeadWithGaps")
        for edits, own in (
            (_TWO, "x => x"),
            (_TWO, "bias=False => bias=True"),
            (_TWO, _OWN_NAMES),
            (_WIDE, "x => x"),
            (_WIDE.replace("bias=False", "bias=True"), _OWN_NAMES),
            ("weights @ values => weights.detach() @ values", "x => x"),
            ("b, t, _ = x.shape => b, t, _ = x.shape; x = x.detach()", "x => x"),
            (".reshape(b, t, -1)) => .reshape(b, t, -1)).detach()", "x => x"),
            ("-torch.inf => -20.0", "x => x"),
            ("context = weights @ values => context = F.dropout(weights, 0.1) @ values", "x => x"),
            (
                "keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => keep = torch.ones(b, 1, t, t).tril().bool(); keep[1:] = True",
                "x => x",
            ),
            (
                "keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => keep = torch.ones(t, t).tril().bool(); keep[32:] = True",
                "x => x",
            ),
        )
    ],
    "GroupedQuery": [
        run_cell(edited(edited(TEMPLATES["GroupedQuery"], own), edits), "GroupedQuery")
        for edits, own in (
            (_NOT_SHARED, "x => x"),
            (_NOT_SHARED.replace("bias=False", "bias=True"), _OWN_NAMES),
            (
                "keys = keys.repeat_interleave(group, dim=1) => keys = keys.repeat_interleave(group, dim=1) if self.num_kv_heads > 1 else keys.flip(2).repeat_interleave(group, dim=1)",
                "x => x",
            ),
            (
                "group = self.num_heads // self.num_kv_heads => group = self.num_heads // self.num_kv_heads; keys = keys if group > 1 else keys.flip(1)",
                "x => x",
            ),
            (
                ".repeat_interleave(group, dim=1) => .repeat_interleave(group, dim=1)[:, torch.arange(self.num_heads) % (2 * group)]",
                "x => x",
            ),
        )
    ],
}

WRONG = FUNCTIONS | CLASSES
