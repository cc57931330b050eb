"""Answers of the reviews, with words that the message must have and words that it must not have."""

from .findings_right import NO_DEVICE, OWN_NAMES
from .written_answers import TEMPLATES, edited, functions, run_cell


def _one(signature, body):
    return functions({signature: body})[signature.split("(")[0]][0]


def _class(name, *edits):
    source = TEMPLATES[name]
    for edit in edits:
        source = edited(source, edit)
    return run_cell(source, name)


OTHER_SIZES = "has other sizes"
FLOAT = ("dtype=x.dtype", "float64", "dtype-pinned")
STUB = "def softmax_rows(scores):\n    raise NotImplementedError\n\ndef attention(queries, keys, values):\n"
STUB += "    return softmax_rows(queries @ keys.T) @ values\n"
MADE = edited(TEMPLATES["SingleHeadWithGaps"], "nn.Linear(d_in, d_out, bias=False) => None").replace(
    "self.q_proj(x)", "nn.Linear(x.shape[-1], 7, dtype=x.dtype)(x)"
)
CUT = ".view(b, t, self.num_heads, self.head_dim).transpose(1, 2) => "
LIST = "nn.ModuleList(heads) => heads"
MATRICES = "nn.Linear(d_in, d_out, bias=False) => torch.randn(d_in, d_out){} && self.q_proj(x) => x @ self.q_proj"
TWO = "self.num_heads, self.head_dim = num_heads, d_out // num_heads => self.num_heads, self.head_dim = 2, d_out // 2"
QUERIES, SCORES = "scaled_scores(queries, keys)", "softmax_rows(scores)"
LEAKS, UNUSED = "leaks(code, x)", "without_gradient(module, x, token)"
DROPPED, MIX = "dropped_weights(weights, drop, p, training)", "mix_heads(contexts, w_o)"
NUMBER, KV = "number_at(memory, strides, index)", "kv_head_of(query_head, num_heads, num_kv_heads)"
SAFE, PAD = "safe_weights(scores, keep)", "padding_mask(lengths, num_tokens)"
ATTEND, BY_HEAD = "attention(queries, keys, values)", "scores_by_head(queries, keys)"
ONE, STRIDES = "scores_of_token(query, keys)", "strides_by_head(num_tokens, num_heads, head_dim)"
NEWEST_COUNTED = """class MyCache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        self.keys, self.values = (torch.zeros(batch, num_kv_heads, max_len, head_dim) for _ in range(2))
        self.length = 0

    def forward(self, keys, values):
        end = self.length + keys.shape[2]
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = keys, values
        self.length = keys.shape[2]
        return self.keys[:, :, :end].double(), self.values[:, :, :end].double()
"""
BOUND = "bound_by(operations, bytes_moved, flops_per_second, bytes_per_second)"
TWO_HEADS = "two_heads(x, q_proj, k_proj, v_proj)"
TRANSPOSED = ("(query, head_dim)", "(key, head_dim)", "Ask yourself")

MESSAGES = [
    # "Input k of n was right" only where it was compared, with what is different.
    ("mix_heads", _one(MIX, "torch.cat(contexts, -1) @ w_o"), (), (OTHER_SIZES, "It was right")),
    ("number_at", _one(NUMBER, "memory[strides[0] * strides[1]]"), (), (OTHER_SIZES, "It was right")),
    (
        "softmax_rows",
        _one(SCORES, "e = scores.clamp(max=80).exp(); return e / e.sum(-1, keepdim=True)"),
        ("the scores are about 2000",),
        (OTHER_SIZES,),
    ),
    (
        "softmax_rows",
        _one(SCORES, "e = scores.exp(); return (e / e.sum(-1, keepdim=True)).nan_to_num()"),
        ("the scores are about 2000",),
        (OTHER_SIZES,),
    ),
    (
        "dropped_weights",
        _one(DROPPED, "if training: return weights.masked_fill(drop, 0) / (1 - p)"),
        ("training is False", "returns-none"),
        (OTHER_SIZES,),
    ),
    (
        "without_gradient",
        _one(
            UNUSED,
            "module(x)[:, token].sum().backward(); return [n for n, p in module.named_parameters() if not p.grad.any()]",
        ),
        ("None",),
        (OTHER_SIZES,),
    ),
    (
        "without_gradient",
        _one(
            UNUSED,
            "module(x)[:, token].sum().backward(); return [p for n, p in module.named_parameters() if p.grad is None]",
        ),
        ("should hold names",),
        (OTHER_SIZES, "tensor("),
    ),
    # Parameters that are not registered.
    ("Wrapper", _class("Wrapper", LIST), ("`self.heads` is a plain list", "registers"), FLOAT),
    (
        "Wrapper",
        _class(
            "Wrapper",
            LIST,
            "causal=False) for => causal=False).double() for",
        ),
        ("`self.heads` is a plain list",),
        (*FLOAT, "checks.py"),
    ),
    (
        "SingleHeadWithGaps",
        _class("SingleHeadWithGaps", MATRICES.format("")),
        ("`self.q_proj` is a tensor and no parameter",),
        FLOAT,
    ),
    (
        "SingleHeadWithGaps",
        _class("SingleHeadWithGaps", MATRICES.format(".double()")),
        ("`self.q_proj` is a tensor and no parameter",),
        ("dtype-pinned", "bfloat16"),
    ),
    (
        "SingleHeadWithGaps",
        run_cell(MADE, "SingleHeadWithGaps"),
        ("`Linear (7, 13)`", "new at each call", "Where does a module make its layers"),
        (*FLOAT, "Dropout"),
    ),
    # Misspelt and unwritten.
    (
        "SingleHeadWithGaps",
        _class("SingleHeadWithGaps", "def forward => def foward"),
        ("no method `forward`",),
        ("not written yet",),
    ),
    (
        "attention",
        run_cell(STUB, "attention"),
        ("`softmax_rows`, which is not written yet",),
        ("… attention", "Put your code"),
    ),
    # The real fault is in the headline.
    (
        "MultiHeadWithGaps",
        _class(
            "MultiHeadWithGaps",
            NO_DEVICE,
            "return self.out_proj(context.transpose(1, 2).reshape(b, t, -1)) => return self.out_proj(context.transpose(1, 2).reshape(b, t, -1)), weights",
        ),
        ("gives back a tuple", "element 0"),
        ("CPU",),
    ),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", NO_DEVICE, TWO, OWN_NAMES),
        ("with 2 heads", "num_heads="),
        ("CPU",),
    ),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", CUT + ".view(b, t, self.head_dim, self.num_heads).transpose(1, 2)"),
        ("num_heads and head_dim are exchanged",),
        ("divided by another number", "wrong-scale"),
    ),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", CUT + ".view(b, t, self.num_heads, self.head_dim)"),
        ("(batch, token, head, head)", "(from line 15)", "heads stand behind the tokens"),
        (),
    ),
    # Questions of other exercises and of later lessons.
    (
        "padding_mask",
        _one(PAD, "(torch.arange(num_tokens) <= torch.tensor(lengths)[:, None])[:, None, None]"),
        ("one token of padding",),
        ("May a token look at itself",),
    ),
    (
        "scores_of_token",
        _one(ONE, "x = keys @ query"),
        ("the last line of `scores_of_token`",),
        ("forward",),
    ),
    ("patient_a", _one("patient_a()", "x = 3"), ("the last line of `patient_a`",), ("forward",)),
    (
        "scaled_scores",
        _one(QUERIES, "queries *= 2; return queries @ keys.T"),
        ("its argument `queries`", "lesson: 01"),
        ("`x`", "lesson: 04"),
    ),
    (
        "attention",
        _one(ATTEND, "F.scaled_dot_product_attention(queries, keys, keys)"),
        ("lesson: 01",),
        ("Which projection", "lesson: 03"),
    ),
    (
        "SingleHeadWithGaps",
        _class("SingleHeadWithGaps", "weights @ values => weights @ values.roll(1, 0)"),
        ("lesson: 01",),
        ("lesson: 02",),
    ),
    (
        "mix_heads",
        _one(MIX, "torch.stack(contexts, -1).flatten(-2) @ w_o.T"),
        ("lesson: 03",),
        ("lesson: 04", "merge-without"),
    ),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", "softmax(dim=-1) => softmax(dim=-1)[:, :1]"),
        ("head 0",),
        ("core.py",),
    ),
    (
        "Wrapper",
        _class("Wrapper", "causal=False => causal=True"),
        ("under a causal mask", "Which tokens may a token see"),
        ("core.py",),
    ),
    # Misnamed.
    (
        "GroupedQuery",
        _class("GroupedQuery", ".repeat_interleave(group, dim=1) => .flip(1).repeat_interleave(group, dim=1)"),
        ("reverse order",),
        ("0, 1, 0, 1",),
    ),
    (
        "GroupedQuery",
        _class("GroupedQuery", ".repeat_interleave(group, dim=1) => .mean(1, keepdim=True)"),
        ("mean of the kv heads",),
        ("first kv head", "kv-head-zero-only"),
    ),
    (
        "patient_a",
        _one("patient_a()", "'dropout-stays-on-in-evaluation'"),
        ("passed",),
        ("No mistake is called",),
    ),
    ("patient_a", _one("patient_a()", "'masked_fill result is not assigned'"), ("No mistake is called",), ()),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", "-torch.inf => -1"),
        ("hidden scores are -1",),
        ("set to zero", "mask-with-zero"),
    ),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", "-torch.inf => -20.0"),
        ("hidden scores are -20",),
        ("set to zero", "mask-with-zero"),
    ),
    (
        "safe_weights",
        _one(SAFE, "e = scores.exp() * keep; return e / (e.sum(-1, keepdim=True) + 1e-5)"),
        (),
        ("your result is 1.0000; it should be 1.0000",),
    ),
    (
        "leaks",
        _one(
            LEAKS,
            "y = code(x); t = torch.arange(x.shape[1]); return [] if torch.allclose(code(x + (t > 0)[:, None])[:, 0], y[:, 0]) else [0]",
        ),
        ("into the first token only",),
        ("changes the second token only",),
    ),
    # Shapes by name and one question.
    ("scores_of_token", _one(ONE, "query @ keys"), ("(key, head_dim)", "Ask yourself"), ()),
    ("scaled_scores", _one(QUERIES, "queries @ keys"), TRANSPOSED, ()),
    ("attention", _one(ATTEND, "(queries @ keys).softmax(-1) @ values"), TRANSPOSED, ()),
    (
        "two_heads",
        _one(TWO_HEADS, "q = x @ q_proj[0]; k = x @ k_proj[0]; return q @ k"),
        ("`q` ", "`k` ", "Ask yourself"),
        (),
    ),
    ("scores_by_head", _one(BY_HEAD, "queries @ keys"), ("(batch, head, key, head_dim)", "Ask yourself"), ()),
    (
        "MultiHeadWithGaps",
        _class("MultiHeadWithGaps", "keys.transpose(2, 3) => keys"),
        ("(batch, head, token, head_dim)", "Ask yourself"),
        (),
    ),
    # Numbers with their call.
    ("kv_head_of", _one(KV, "query_head + 1"), ("query_head=", "num_heads=", "num_kv_heads="), ()),
    (
        "cache_bytes",
        _one("cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number)", "num_tokens"),
        ("num_tokens=", "head_dim="),
        (),
    ),
    ("strides_by_head", _one(STRIDES, "(1, 2, 3, 4)"), ("num_tokens=",), ()),
    ("number_at", _one(NUMBER, "memory[0]"), ("strides=", "index="), ()),
    ("leaks", _one(LEAKS, "False"), ("leaks where",), ()),
    # Numbers that say more.
    (
        "scaled_scores",
        _one(QUERIES, "(queries @ keys.T / queries.shape[1] ** 0.5).softmax(-1)"),
        ("the softmax of the scores",),
        (),
    ),
    (
        "attention",
        _one(ATTEND, "F.scaled_dot_product_attention(queries, keys, values, is_causal=True)"),
        ("causal",),
        (),
    ),
    (
        "two_heads",
        _one(
            TWO_HEADS,
            "torch.cat([F.scaled_dot_product_attention(x @ q_proj[i], x @ k_proj[i], x @ v_proj[i], is_causal=True) for i in (0, 1)], -1)",
        ),
        ("causal",),
        (),
    ),
    (
        "scores_by_head",
        _one(
            BY_HEAD,
            "queries @ keys.mT / queries.shape[-1] ** 0.5 + torch.full((queries.shape[2], keys.shape[2]), -torch.inf).triu(1)",
        ),
        ("infinite",),
        (),
    ),
    ("scaled_scores", _one(QUERIES, "queries @ keys.T / len(queries) ** 0.5"), ("√head_dim / √query",), ()),
    (
        "scores_by_head",
        _one(BY_HEAD, "queries @ keys.mT / (-queries.shape[-1] ** 0.5)"),
        ("only the sign differs",),
        (),
    ),
    (
        "scaled_scores",
        _one(QUERIES, "queries @ keys.view(keys.shape[1], -1) / queries.shape[1] ** 0.5"),
        ("`view`",),
        (),
    ),
    ("dropped_weights", _one(DROPPED, "F.dropout(weights, p, training)"), ("drop",), ("lesson: 03",)),
    ("scores_of_token", _one(ONE, "for key in keys: return query @ key"), ("the first key alone", "loop"), ()),
    ("safe_weights", _one(SAFE, "scores.softmax(-1)"), ("without the mask",), ()),
    ("attention", _one(ATTEND, "queries @ keys"), ("stopped in `attention`",), ()),
    (
        "scaled_scores",
        _one(QUERIES, "queries @ key.T"),
        ("'key' is not defined", "Look again at lesson: 01"),
        ("lesson: 05",),
    ),
    (
        "bound_by",
        _one(
            BOUND, "return 'memory' if operations // bytes_moved < flops_per_second // bytes_per_second else 'compute'"
        ),
        ("Which numbers does your code compare",),
        ("spelt",),
    ),
    (
        "order_of_lines",
        _one("order_of_lines()", "'FIBDHKAEGJC'"),
        ("reads a name before another line has changed it",),
        ("Two lines",),
    ),
    ("MyCache", run_cell(NEWEST_COUNTED, "MyCache"), ("has the shape (",), ("head_dim",)),
]
