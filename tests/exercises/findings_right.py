"""Right answers of two reviews that were refused, or that passed in practice and not in grading."""

from .written_answers import TEMPLATES, edited, functions, run_cell


def _class(name, *edits):
    source = TEMPLATES[name]
    for edit in edits:
        source = edited(source, edit)
    return run_cell(source, name)


OWN_NAMES = "q_proj => W_query && k_proj => W_key && v_proj => W_value"
NO_DEVICE = ", device=x.device => "
ROOT = "queries.shape[-1] ** 0.5 => torch.sqrt(torch.tensor(queries.shape[-1]))"
SCALE = "super().__init__() => super().__init__() | self.scale = nn.Parameter(torch.tensor(d_out ** -0.5))"

RIGHT = functions(
    {
        "scaled_scores(queries, keys)": r"""
queries @ keys.T / torch.sqrt(torch.tensor(queries.shape[-1]))
queries @ keys.T / torch.tensor(queries.shape[-1]).sqrt()
queries @ keys.T * torch.rsqrt(torch.tensor(float(queries.shape[-1])))
""",
        "attention(queries, keys, values)": r"""
(queries @ keys.T / torch.sqrt(torch.tensor(queries.shape[-1]))).softmax(-1) @ values
(queries @ keys.T / torch.tensor(queries.shape[-1]).sqrt()).softmax(-1) @ values
(queries @ keys.T / torch.sqrt(torch.tensor(queries.shape[-1], dtype=torch.float32))).softmax(-1) @ values
""",
        "softmax_rows(scores)": r"""
scores.float().softmax(-1).to(scores.dtype)
""",
        "strides_by_head(num_tokens, num_heads, head_dim)": r"""
torch.tensor([num_tokens * num_heads * head_dim, head_dim, num_heads * head_dim, 1])
""",
        "leaks(code, x)": r"""
y = code(x); return [q for q in range(x.shape[1]) if not torch.allclose(code(x[:, :q + 1])[:, q], y[:, q])]
""",
    }
) | {
    "SingleHeadWithGaps": [
        _class("SingleHeadWithGaps", ROOT),
        _class("SingleHeadWithGaps", ROOT, OWN_NAMES),
        _class("SingleHeadWithGaps", SCALE, "scores / queries.shape[-1] ** 0.5 => scores * self.scale"),
    ],
    "MultiHeadWithGaps": [
        _class("MultiHeadWithGaps", "self.head_dim**0.5 => torch.sqrt(torch.tensor(self.head_dim))"),
        _class("MultiHeadWithGaps", NO_DEVICE),
        _class("MultiHeadWithGaps", NO_DEVICE, OWN_NAMES),
        _class("MultiHeadWithGaps", NO_DEVICE, OWN_NAMES, "bias=False => bias=True"),
    ],
    "GroupedQuery": [_class("GroupedQuery", NO_DEVICE, OWN_NAMES)],
}
