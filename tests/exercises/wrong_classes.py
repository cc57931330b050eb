"""Wrong answers to the exercises on classes, as beginners write them; see `written_answers.classes`."""

from .written_answers import TEMPLATES, classes, edited, run_cell

_SINGLE = r"""
keys.transpose(1, 2) => keys.T
keys.transpose(1, 2) => keys.view(keys.shape[0], keys.shape[2], keys.shape[1])
queries.shape[-1] ** 0.5 => x.shape[-1] ** 0.5
queries.shape[-1] ** 0.5 => d_out ** 0.5
queries.shape[-1] ** 0.5 => self.d_out ** 0.5
softmax(dim=-1) => softmax(dim=1)
softmax(dim=-1) => softmax(dim=0)
softmax(dim=-1) => softmax(dim=2).softmax(dim=2)
return weights @ values => return weights
return weights @ values => return weights @ keys
return weights @ values => return (weights @ values).mean(1)
return weights @ values => weights @ values
return weights @ values => return (weights @ values).detach()
queries = self.q_proj(x) => queries = q_proj(x)
queries = self.q_proj(x) => queries = self.q_proj @ x
queries = self.q_proj(x) => queries = self.q_proj(x[0])
super().__init__() => pass
def forward => def foward
def __init__ => def _init_
nn.Linear(d_in, d_out, bias=False) => nn.Linear(d_out, d_in, bias=False)
nn.Linear(d_in, d_out, bias=False) => torch.randn(d_in, d_out) && self.q_proj(x) => x @ self.q_proj && self.k_proj(x) => x @ self.k_proj && self.v_proj(x) => x @ self.v_proj
self.k_proj = nn.Linear(d_in, d_out, bias=False) => self.k_proj = self.q_proj
keys = self.k_proj(x) => keys = self.q_proj(x)
(scores / => (scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf) /
scores = queries @ => x.zero_() | scores = queries @
values = self.v_proj(x) => values = x
scores = queries @ keys.transpose(1, 2) => scores = (queries[:, :, None] * keys[:, None]).mean(-1)
"""

_WRAPPER = r"""
nn.ModuleList(heads) => heads
SingleHeadAttention(d_in, d_out // num_heads, causal=False) => SingleHeadAttention(d_in, d_out / num_heads, causal=False)
SingleHeadAttention(d_in, d_out // num_heads, causal=False) => SingleHeadAttention(d_in // num_heads, d_out // num_heads, causal=False)
[SingleHeadAttention(d_in, d_out // num_heads, causal=False) for _ in range(num_heads)] => [SingleHeadAttention(d_in, d_out // num_heads, causal=False)] * num_heads
torch.cat([head(x) for head in self.heads], dim=-1) => sum(head(x) for head in self.heads)
torch.cat([head(x) for head in self.heads], dim=-1) => torch.cat([self.heads[0](x) for head in self.heads], dim=-1)
torch.cat([head(x) for head in self.heads], dim=-1) => torch.cat([head for head in self.heads], dim=-1)
torch.cat([head(x) for head in self.heads], dim=-1) => self.heads(x)
return self.out_proj(joined) => return joined
return self.out_proj(joined) => return self.out_proj(joined) + x
return self.out_proj(joined) => return joined @ self.out_proj.weight
for head in self.heads => for head in self.heads[::-1]
head(x) for head => head(x).detach() for head
for head in self.heads => for head in heads
self.out_proj = nn.Linear(d_out, d_out, bias=False) => self.out_proj = nn.Linear(d_out, d_in, bias=False)
self.out_proj = nn.Linear(d_out, d_out, bias=False) => pass && return self.out_proj(joined) => return nn.Linear(joined.shape[-1], joined.shape[-1])(joined)
"""

_MULTI = r"""
.view(b, t, self.num_heads, self.head_dim).transpose(1, 2) => .view(b, t, self.num_heads, self.head_dim)
.view(b, t, self.num_heads, self.head_dim).transpose(1, 2) => .view(b, self.num_heads, t, self.head_dim)
.view(b, t, self.num_heads, self.head_dim).transpose(1, 2) => .view(b, t, self.head_dim, self.num_heads).transpose(1, 2)
.view(b, t, self.num_heads, self.head_dim).transpose(1, 2) => .view(b, t, self.head_dim, self.num_heads).permute(0, 3, 1, 2)
self.num_heads, self.head_dim = num_heads, d_out // num_heads => self.num_heads, self.head_dim = num_heads, d_out / num_heads
self.num_heads, self.head_dim = num_heads, d_out // num_heads => num_heads, head_dim = num_heads, d_out // num_heads
self.head_dim**0.5 => self.num_heads**0.5
self.head_dim**0.5 => (self.num_heads * self.head_dim)**0.5
self.head_dim**0.5 => t**0.5
self.head_dim**0.5 => self.head_dim**-0.5
scores = scores.masked_fill(~keep, => scores = scores.masked_fill(keep,
-torch.inf => 0
-torch.inf => -1
-torch.inf => torch.inf
-torch.inf => -20.0
torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => torch.ones(t, t, dtype=torch.bool, device=x.device).tril(1)
torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => torch.ones(t, t, dtype=torch.bool, device=x.device).tril(-1)
torch.ones(t, t, dtype=torch.bool, device=x.device).tril() => torch.ones(t, t).tril()
softmax(dim=-1) => softmax(dim=1)
weights = scores.softmax(dim=-1) => weights = scores
weights = scores.softmax(dim=-1) => weights = scores.softmax(dim=-1)[:, :1]
context = weights @ values => context = weights @ keys
context = weights @ values => context = weights.detach() @ values
context = weights @ values => context = (weights @ values).mean(1, keepdim=True).expand(-1, self.num_heads, -1, -1)
context.transpose(1, 2).reshape(b, t, -1) => context.transpose(1, 2).view(b, t, -1)
context.transpose(1, 2).reshape(b, t, -1) => context.permute(0, 2, 3, 1).reshape(b, t, -1)
return self.out_proj( => return (
return self.out_proj(context.transpose(1, 2).reshape(b, t, -1)) => return self.out_proj(context.transpose(1, 2).reshape(b, t, -1)), weights
b, t, _ = x.shape => b, t = x.shape
b, t, _ = x.shape => b, t, _ = x.shape | x = x.detach()
b, t, _ = x.shape => t, b, _ = x.shape
self.out_proj = nn.Linear(d_out, d_out, bias=False) => pass
queries @ keys => queries @ values
context = weights @ values => weights = F.dropout(weights, 0.2) | context = weights @ values
"""

_GROUPED = r"""
.repeat_interleave(group, dim=1) => .repeat(1, group, 1, 1)
.repeat_interleave(group, dim=1) => .expand(-1, self.num_heads, -1, -1)
.repeat_interleave(group, dim=1) => [:, :1].expand(-1, self.num_heads, -1, -1)
.repeat_interleave(group, dim=1) => .flip(1).repeat_interleave(group, dim=1)
.repeat_interleave(group, dim=1) => .mean(1, keepdim=True)
group = self.num_heads // self.num_kv_heads => group = self.num_heads / self.num_kv_heads
keys.transpose(2, 3) => keys
self.head_dim**0.5 => self.num_kv_heads**0.5
scores = scores.masked_fill => scores.masked_fill
softmax(dim=-1) => softmax(dim=-2)
context.transpose(1, 2).reshape(b, t, -1) => context.reshape(b, t, -1)
return self.out_proj( => return (
"""

_OWN_SINGLE = r"""
d_in, head_dim, d_out): => d_in, d_out):
queries.shape[-1] ** 0.5 => values.shape[-1] ** 0.5
queries.shape[-1] ** 0.5 => head_dim ** 0.5
"""

_OWN_MULTI = r"""
self.head_dim = num_heads, head_dim => self.head_dim = num_heads, d_out // num_heads
d_out, num_heads, head_dim): => d_out, head_dim, num_heads):
d_out, num_heads, head_dim): => d_out, num_heads):
"""

_IN_FORWARD = "        self.d_in, self.d_out = d_in, d_out\n\n    def forward(self, x):\n"


def _made_in_forward(double):
    """Return a head whose layers are made anew at each call."""
    source = TEMPLATES["SingleHeadWithGaps"]
    for role in ("q", "k", "v"):
        source = source.replace(f"        self.{role}_proj = nn.Linear(d_in, d_out, bias=False)\n", "")
        layer = f"nn.Linear(self.d_in, self.d_out, bias=False{double})"
        source = source.replace(f"self.{role}_proj(x)", f"{layer}(x)")
    return run_cell(source.replace("\n    def forward(self, x):\n", _IN_FORWARD), "SingleHeadWithGaps")


def _biased(edits):
    """Return a multi-head attention whose layers have biases, with these edits."""
    source = edited(TEMPLATES["MultiHeadWithGaps"], "bias=False => bias=True")
    return run_cell(edited(source, edits) if edits else source, "MultiHeadWithGaps")


def _fitting(name, edits):
    """Return answers from the lines whose text the class has."""
    lines = [line for line in edits.strip().split("\n") if line.split(" => ")[0] in TEMPLATES[name]]
    return [run_cell(edited(TEMPLATES[name], line), name) for line in lines]


WRONG = {
    "SingleHead": [*classes("SingleHead", _OWN_SINGLE), *_fitting("SingleHead", _SINGLE)],
    "MultiHead": [*classes("MultiHead", _OWN_MULTI), *_fitting("MultiHead", _MULTI)],
    "SingleHeadWithGaps": [
        *classes("SingleHeadWithGaps", _SINGLE),
        _made_in_forward(""),
        _made_in_forward(", dtype=x.dtype"),
    ],
    "Wrapper": classes("Wrapper", _WRAPPER),
    "MultiHeadWithGaps": [
        *classes("MultiHeadWithGaps", _MULTI),
        _biased(
            "self.num_heads, self.head_dim = num_heads, d_out // num_heads => self.num_heads, self.head_dim = 2, d_out // 2"
        ),
        _biased("scores = scores.masked_fill => scores.masked_fill"),
        _biased("self.head_dim**0.5 => self.head_dim"),
    ],
    "GroupedQuery": classes("GroupedQuery", _GROUPED),
}
