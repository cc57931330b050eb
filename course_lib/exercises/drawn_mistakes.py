"""Write attention modules with one known mistake each, as strangers would have written them."""

from dataclasses import dataclass

from torch import nn

from course_lib.mutations import Source, mutations, run_source

from .input_generator import InputGenerator

# The lines of `forward` after the projections, in the forms in which people write them; {} are names that differ from
# module to module.
FORMS: dict[str, tuple[str, ...]] = {
    "split": (
        "{x}.view({b}, {t}, {heads}, self.{d}).transpose(1, 2)",
        "{x}.unflatten(-1, ({heads}, self.{d})).transpose(1, 2)",
    ),
    "share": ("{k} = {k}.repeat_interleave(self.{h} // self.{g}, dim=1)",),
    "roles": ("{q} @ {k}.transpose(-2, -1)", "torch.matmul({q}, {k}.mT)"),
    "scale": ("/ self.{d} ** 0.5", "* self.{d} ** -0.5", "/ math.sqrt({q}.shape[-1])"),
    "mask": ("torch.ones({t}, {t}, dtype=torch.bool, device=x.device).triu(1)",),
    "hide": ("{s} = {s}.masked_fill({m}, -torch.inf)", '{s} = torch.where({m}, float("-inf"), {s})'),
    "softmax": ("{s}.softmax(dim=-1)", "F.softmax({s}, dim=-1)"),
    "merge": ("{c}.transpose(1, 2).reshape({b}, {t}, -1)", "{c}.transpose(1, 2).flatten(2)"),
    "out": ("self.{o}({c})",),
}
# Those that are to be seen in the code.
MISTAKES = (
    *(
        "split-without-transpose",
        "kv-heads-tiled",
        "scores-from-values",
        "missing-scale",
        "wrong-scale",
        "mask-inverted",
    ),
    *(
        "mask-off-by-one",
        "mask-discarded",
        "mask-with-zero",
        "mask-transposed",
        "mask-after-softmax",
        "softmax-wrong-axis",
    ),
    *("double-softmax", "no-softmax", "weights-transposed", "heads-share-scores", "merge-without-transpose"),
    "output-projection-missing",
)
NAMES: dict[str, tuple[str, ...]] = {
    "q": ("q", "queries", "query"),
    "k": ("k", "keys", "key"),
    "v": ("v", "values", "value"),
    "s": ("scores", "att", "logits"),
    "m": ("hidden", "future"),
    "c": ("context", "out", "y"),
    "b": ("batch", "b"),
    "t": ("num_tokens", "t", "seq_len"),
    "h": ("num_heads", "n_heads"),
    "d": ("head_dim", "d_k"),
    "g": ("num_kv_heads", "n_kv"),
    "o": ("out_proj", "c_proj", "w_o"),
    "p": ("{}_proj", "w_{}", "to_{}"),
}
CLASSES = ("Attention", "SelfAttention", "CausalAttention", "MultiHead", "Block")
TEMPLATE = """\
class {name}(nn.Module):
    def __init__(self, d_in, d_out, {h}, {g}):
        super().__init__()
        self.{h}, self.{g}, self.{d} = {h}, {g}, d_out // {h}
        self.{wq} = nn.Linear(d_in, d_out, bias=False)
        self.{wk} = nn.Linear(d_in, {g} * self.{d}, bias=False)
        self.{wv} = nn.Linear(d_in, {g} * self.{d}, bias=False)
        self.{o} = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        {b}, {t}, _ = x.shape
        {q} = {split_q}
        {k} = {split_k}
        {v} = {split_v}
        {share_k}
        {share_v}
        {m} = {mask}
        {s} = {roles} {scale}
        {hide}
        {c} = {softmax} @ {v}
        {c} = {merge}
        return {out}
"""
HEADER = "import math\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
SIZES = (7, 24, 6, 2)  # d_in, d_out, num_heads, num_kv_heads


@dataclass(frozen=True)
class FaultyModule:
    """A module with one mistake.

    Attributes:
        source: Its code.
        mistake: The id of its mistake.
        name: The name of its class.
        number: The seed that it was drawn from.
    """

    source: str
    mistake: str
    name: str
    number: int

    def build(self) -> nn.Module:
        """Construct the module with the sizes (d_in, d_out, num_heads, num_kv_heads) = (7, 24, 6, 2)."""
        file = f"<mistake {self.number}>"
        text = HEADER + self.source
        return run_source(text, file, {"__name__": "mistake"})[self.name](*SIZES)


def draw_faulty_module(number: int) -> FaultyModule:
    """Draw a module with one mistake; the same number gives the same module."""
    rng = InputGenerator(number)
    names = {key: rng.choice(options) for key, options in NAMES.items()}
    forms = {key: rng.choice(options) for key, options in FORMS.items()}
    fill = names | {f"w{role}": names["p"].format(names[role] if len(names[role]) > 1 else role) for role in "qkv"}
    lines: dict[str, str] = {}
    for role in "qkv":
        heads = f"self.{names['h' if role == 'q' else 'g']}"
        lines[f"split_{role}"] = forms["split"].format(x=f"self.{fill[f'w{role}']}(x)", heads=heads, **names)
    for role in "kv":
        lines[f"share_{role}"] = forms["share"].format(**(names | {"k": names[role]}))
    lines |= {key: forms[key].format(**names) for key in ("roles", "scale", "mask", "hide", "softmax", "merge", "out")}
    name = rng.choice(CLASSES)
    right = TEMPLATE.format(name=name, **fill, **lines)
    mistake = rng.choice([mistake for mistake in MISTAKES if any(True for _ in mutations(right, mistake))])
    chosen = rng.choice(list(mutations(right, mistake)))
    return FaultyModule(Source(right).edited(chosen.edits), mistake, name, number)
