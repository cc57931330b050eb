"""Class answers that passed or were refused wrongly, and verdicts that named what wasn't there or no sizes."""

import re

import pytest

from course_lib.exercises import ALL, EXERCISES, InputGenerator, LocalAnswer, ModuleExercise
from course_lib.exercises.modules.sizes import special_sizes

from .class_templates import CLASSES, a_class

RESULT = "self.out_proj(context.transpose(1, 2).reshape(b, t, -1))"
INIT, KV_INIT = "self.num_heads, self.head_dim =", "self.num_heads, self.num_kv_heads, self.head_dim ="
QUERIES, KEYS, VALUES = (
    f"{role} = self.{role[0]}_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)"
    for role in ("queries", "keys", "values")
)
NO_KEYS, NO_VALUES = (f"self.{role}_proj = nn.Linear(d_in, d_out, bias=False) => pass" for role in "kv")
MASK = "scores = scores.masked_fill(~keep, -torch.inf)"
OUT_LAYER = "self.out_proj = nn.Linear(d_out, d_out, bias=False)"
JOINED = "nn.Linear(self.num_heads * self.head_dim, self.num_heads * self.head_dim, bias=False)"
HELPER = "class MultiHeadWithGaps => def mix_heads(width, joined):\n    return nn.Linear(width, width)(joined)\n\n\n"
HELPER += "class MultiHeadWithGaps"


def own(name, values):
    """An edit that adds a parameter of the learner's own."""
    return f"{INIT} => self.{name} = nn.Parameter({values}) | {INIT}"


def layer(name, made, before=INIT):
    return f"{before} => self.{name} = {made} | {before}"


SHIFT, DIMS = own("shift", "torch.zeros(d_out)"), "(num_heads, 1, d_out // num_heads)"
MADE = ("a new layer is made, `Linear (24, 24)`", "make its layers")
FLOAT = ("dtype", "float64", "device", "Dropout")
SINGLE_BIASED = "nn.Linear(d_in, d_out, bias=False) => nn.Linear(d_in, d_out)"

# (exercise, edits, what the verdict says, what it doesn't say)
WRONG = [
    # Sizes that were never drawn.
    (
        "MultiHead",
        [
            f"return {RESULT} => out = context.transpose(1, 2).reshape(b, t, -1) | "
            "return out if out.shape[-1] == self.out_proj.out_features else self.out_proj(out)"
        ],
        ("without W^O", "It was right for MultiHead("),
        (),
    ),
    (
        "MultiHead",
        [
            QUERIES + " => q = x if x.shape[-1] == self.num_heads * self.head_dim else self.q_proj(x) | "
            "queries = q.view(b, t, self.num_heads, self.head_dim).transpose(1, 2)"
        ],
        ("It was right for MultiHead(",),
        (),
    ),
    ("MultiHead", ["/ self.head_dim**0.5 => / (self.head_dim if self.head_dim > 1 else 7) ** 0.5"], (", 1) and",), ()),
    (
        "MultiHeadWithGaps",
        ["scores.softmax(dim=-1) => scores.softmax(dim=-1 if self.head_dim > 1 else -2).nan_to_num()"],
        ("softmax over the queries",),
        (),
    ),
    (
        "SingleHead",
        ["values = self.v_proj(x) => values = self.v_proj(x) * (2 if queries.shape == x.shape else 1)"],
        (),
        (),
    ),
    ("SingleHead", ["** 0.5 => ** (0.5 if queries.shape[-1] != self.v_proj.out_features else 1)"], (), ()),
    # What an earlier call left, and one sample of three.
    (
        "MultiHead",
        [MASK + " => self.keep = vars(self).get('keep', keep) | scores = scores.masked_fill(~self.keep, -torch.inf)"],
        ("built anew", "leave in `self`"),
        (),
    ),
    (
        "MultiHead",
        [MASK + " => keep = keep + (torch.arange(b) == 2)[:, None, None, None] | " + MASK],
        ("Along batch, your result is right at 0, 1 and wrong", "in sample 2?"),
        (),
    ),
    # A bias where the prompt says none.
    ("SingleHead", [SINGLE_BIASED], ("`v_proj.bias` (7,) is a bias; the task asks for projections without bias.",), ()),
    ("Wrapper", [OUT_LAYER + " => self.out_proj = nn.Linear(d_out, d_out)"], ("`out_proj.bias` (24,)",), ()),
    ("GroupedQuery", ["bias=False => bias=True"], ("`q_proj.bias` (56,)",), ()),
    ("MultiQuery", [SHIFT, f"return {RESULT} => return {RESULT} + self.shift"], ("`shift` (24,) is a bias",), ()),
    # Biases of the learner's own names.
    ("MyMultiHeadAttention", [SHIFT, f"{RESULT} => {RESULT} * (1 + self.shift)"], ("With `shift` (24,) drawn",), ()),
    ("MyMultiHeadAttention", [SHIFT, f"{RESULT} => {RESULT} + 2 * self.shift"], ("With `shift` (24,) drawn",), ()),
    (
        "MyMultiHeadAttention",
        [SHIFT, "self.q_proj(x).view => (self.q_proj(x) + self.shift).view", f"{RESULT} => {RESULT} + self.shift"],
        ("With `shift` (24,) drawn", "added once"),
        (),
    ),
    (
        "MyMultiHeadAttention",
        [
            own("b_v", f"torch.zeros{DIMS}"),
            "scores = queries @ => queries = queries * (1 + self.b_v) | scores = queries @",
        ],
        ("With `b_v` (4, 1, 6) drawn",),
        (),
    ),
    (
        "MyMultiHeadAttention",
        [
            "self.v_proj = nn.Linear(d_in, d_out, bias=False) => self.v_proj = nn.Linear(d_in, d_out)",
            f"{RESULT} => {RESULT} + self.v_proj.bias",
        ],
        ("With `v_proj.bias` (24,) drawn",),
        (),
    ),
    ("MyMultiHeadAttention", [own("b", "torch.tensor(0.0)"), f"{RESULT} => {RESULT} + self.b"], ("With `b` ()",), ()),
    # Numbers of unknown cause.
    (
        "MyMultiHeadAttention",
        [", device=x.device => ", "weights @ values => weights @ (values * 1.1 + 0.2)"],
        ("MyMultiHeadAttention(13, 24, 4) and 2 samples of 3 tokens",),
        ("device-pinned", "CPU"),
    ),
    ("MultiHeadWithGaps", ["weights @ values => weights.sqrt() @ values"], (), ("wrong-scale",)),
    (
        "MyMultiHeadAttention",
        [MASK + " => scores = scores.masked_fill(~keep, -torch.inf) + torch.eye(t).to(x)"],
        (),
        FLOAT,
    ),
    (
        "SingleHead",
        ["weights @ values => (weights + torch.eye(x.shape[1])) @ values"],
        (),
        ("dtype-pinned", "bfloat16"),
    ),
    (
        "SingleHeadWithGaps",
        ["keys = self.k_proj(x) => keys = self.k_proj(x.roll(1, 1))"],
        (),
        ("heads", "softmax-wrong"),
    ),
    ("MultiHead", ["keys.transpose(2, 3) => keys.transpose(2, 3).mean(1, keepdim=True)"], (), ("kv head",)),
    (
        "GroupedQuery",
        ["keys = keys.repeat_interleave(group, dim=1) => keys = keys.flip(1).repeat_interleave(group, dim=1)"],
        (),
        ("kv-heads-tiled",),
    ),
    (
        "MultiHead",
        ["self.head_dim**0.5 => (self.out_proj.out_features // self.num_heads) ** 0.5"],
        ("the root of d_out // num_heads, which is not head_dim here", "wrong-scale"),
        ("batch)",),
    ),
    (
        "MultiHead",
        ["context.transpose(1, 2).reshape => context.transpose(1, 3).reshape"],
        ("after heads and head_dim changed places",),
        ("by a reshape alone",),
    ),
    (
        "MendedB",
        ["context.transpose(1, 2).reshape(b, t, -1) => context.reshape(b, -1, t).transpose(1, 2)"],
        ("by a reshape to (batch, d_out, token)",),
        ("by a reshape alone",),
    ),
    (
        "Wrapper",
        ["for head in self.heads => for head in [*self.heads[1:], self.heads[0]]"],
        ("another order, in which the second one comes first",),
        (),
    ),
    # One matrix for two roles, and one that nothing uses.
    (
        "MyMultiQueryAttention",
        ["values = self.v_proj(x)[:, None] => values = keys"],
        ("weights are multiplied by the keys, not the values", "projection-reused"),
        ("scores-from-values",),
    ),
    # The lesson goes on with these names, so two that are exchanged are no layout of the learner's own.
    (
        "MyMultiHeadAttention",
        ["queries @ keys.transpose(2, 3) => keys @ queries.transpose(2, 3)"],
        ("attention with queries and keys exchanged",),
        (),
    ),
    (
        "MyMultiQueryAttention",
        [
            "keys = self.k_proj(x)[:, None] => keys = self.v_proj(x)[:, None]",
            "values = self.v_proj(x)[:, None] => values = self.k_proj(x)[:, None]",
        ],
        ("attention with keys and values exchanged",),
        (),
    ),
    (
        "MyMultiHeadAttention",
        ["self.k_proj = nn.Linear(d_in, d_out, bias=False) => self.k_proj = self.q_proj"],
        ("`k_proj.weight` is `q_proj.weight` under a second name",),
        ("arguments decide",),
    ),
    (
        "MyMultiHeadAttention",
        [layer("extra", "nn.Linear(d_in, d_out)")],
        ("`extra.weight` (24, 13) is never used",),
        (),
    ),
    ("MultiHead", [layer("more", "nn.Linear(d_in, d_in)")], ("`more.weight` (13, 13) is never used",), ("how many",)),
    (
        "GroupedQuery",
        [layer("spare", "nn.Linear(d_out, d_out)", KV_INIT)],
        ("`spare.weight` (56, 56) is never used",),
        (),
    ),
    # A layer that forward makes.
    ("MultiHeadWithGaps", [OUT_LAYER + " => pass", f"return self.out_proj( => return {JOINED}("], MADE, FLOAT),
    (
        "MultiHeadWithGaps",
        [OUT_LAYER + " => self.width = d_out", "return self.out_proj( => return mix_heads(self.width, ", HELPER],
        MADE,
        FLOAT,
    ),
    ("MyMultiHeadAttention", [f"return self.out_proj( => return {JOINED}("], MADE, FLOAT),
    ("MyMultiHeadAttention", [f"return self.out_proj( => return {JOINED}.double()("], MADE, FLOAT),
    ("Wrapper", ["return self.out_proj(joined) => mix = nn.Linear(24, 24) | return mix(joined)"], MADE, FLOAT),
    # Hints for what isn't there.
    (
        "Wrapper",
        ["[head(x) for head => [self.heads[0](x) for head"],
        ("heads-share-weights", "Which head does each turn"),
        ("How many parameters",),
    ),
    # A layer in front of all three projections.
    (
        "MyMultiHeadAttention",
        [
            OUT_LAYER + " => self.inp = nn.Linear(d_in, d_out) | "
            "self.mha = nn.MultiheadAttention(d_out, num_heads, batch_first=True)",
            "self.q_proj = nn.Linear(d_in, d_out, bias=False) => pass",
            NO_KEYS,
            NO_VALUES,
            "b, t, _ = x.shape => x = self.inp(x) | "
            "return self.mha(x, x, x, attn_mask=torch.ones(x.shape[1], x.shape[1]).triu(1).bool())[0]",
        ],
        ("`inp.weight` (24, 13) stands in front of queries, keys and values alike",),
        ("output projection",),
    ),
]
PACKED = "queries, keys, values = torch.einsum('btm,rhmd->rbhtd', x, self.qkv) + self.bias[:, None]"
ROLES = [f"self.{role}(x).view => (self.{role}(x) + self.b{role[0]}).view" for role in ("q_proj", "k_proj", "v_proj")]
RIGHT = [
    ("SingleHeadWithGaps", ["bias=False => bias=True"]),
    ("MultiHeadWithGaps", ["bias=False => bias=True"]),
    ("GroupedQueryWithGaps", ["bias=False => bias=True"]),
    ("MyMultiQueryAttention", ["bias=False => bias=True"]),
    ("MyMultiHeadAttention", [own("shift", "torch.randn(d_out)"), f"{RESULT} => {RESULT} + self.shift"]),
    ("MyMultiHeadAttention", [own("each", f"torch.zeros{DIMS}"), "weights @ values => weights @ (values + self.each)"]),
    ("MyMultiHeadAttention", [own(f"b{role}", "torch.zeros(d_out)") for role in "qkv"] + ROLES),
    (
        "MyMultiHeadAttention",
        [
            "self.q_proj = nn.Linear(d_in, d_out, bias=False) => "
            "self.qkv = nn.Parameter(torch.randn(3, num_heads, d_in, d_out // num_heads)) | "
            "self.bias = nn.Parameter(torch.zeros(3, num_heads, 1, d_out // num_heads))",
            NO_KEYS,
            NO_VALUES,
            f"{QUERIES} => {PACKED}",
            f"{KEYS} => pass",
            f"{VALUES} => pass",
        ],
    ),
    (
        "MyMultiHeadAttention",
        [
            "self.q_proj = nn.Linear(d_in, d_out, bias=False) => self.qkv = nn.Linear(d_in, 3 * d_out)",
            NO_KEYS,
            NO_VALUES,
            f"{QUERIES} => queries, keys, values = "
            "self.qkv(x).view(b, t, self.num_heads, 3, self.head_dim).permute(3, 0, 2, 1, 4)",
            f"{KEYS} => pass",
            f"{VALUES} => pass",
        ],
    ),
    ("MultiHead", [f"{MASK} => scores = torch.where(keep, scores, torch.finfo(x.dtype).min)"]),
]


def ids(cases):
    return [f"{one[0]}-{at}" for at, one in enumerate(cases)]


def judged(name, code, seed):
    return ALL[name].judge(LocalAnswer(code), InputGenerator(seed))


@pytest.mark.one_in(60)
@pytest.mark.parametrize(("name", "edits", "said", "unsaid"), WRONG, ids=ids(WRONG))
def test_a_wrong_class_is_refused_with_its_sizes_and_a_true_sentence(name, edits, said, unsaid):
    code = a_class(name, *edits)
    for seed in (3, 5):
        assert judged(name, code, seed).state == "not passed yet", seed
    verdict = judged(name, code, 0)
    shown = repr(verdict)
    assert verdict.state == "not passed yet" and verdict.hint
    assert re.search(rf"{name}\(\d+(, \d+)+\)|built with d_in=\d+", shown), shown
    for words in said:
        assert words in shown, shown
    for words in unsaid:
        assert words not in shown, shown


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "edits"), RIGHT, ids=ids(RIGHT))
def test_a_right_class_passes_on_every_seed(name, edits):
    code = a_class(name, *edits)
    for seed in (0, 8, 16):  # each seed builds the class with several sets of sizes
        verdict = judged(name, code, seed)
        assert verdict.passed, (seed, verdict)


def test_a_parameter_that_is_no_bias_is_noted():
    scores = "scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5"
    code = a_class(
        "MyMultiHeadAttention", own("gain", "torch.ones(num_heads, 1, 1)"), f"{scores} => {scores} * self.gain"
    )
    verdict = judged("MyMultiHeadAttention", code, 0)
    note = "`gain` is a parameter that the task does not ask for; it was judged with the values it is built with."
    assert verdict.passed and note in verdict.evidence


def test_every_verdict_on_a_class_that_ran_says_its_sizes():
    edits = ["super().__init__() => pass", f"return {RESULT} => {RESULT}", "b, t, _ = x.shape => b, t = x.shape"]
    for name in ("MultiHeadWithGaps", "MyMultiHeadAttention", "MultiQuery"):
        for edit in [
            *edits,
            f"return {RESULT} => return {RESULT}.detach()",
            "b, t, _ = x.shape => b, t, _ = x.mul_(2).shape",
        ]:
            assert f"{name}(13, 24, 4)" in repr(judged(name, a_class(name, edit), 0))


def test_prompts_that_say_without_bias_are_those_that_refuse_one():
    for exercise in EXERCISES.values():
        if isinstance(exercise, ModuleExercise):
            assert exercise.biases == ("without bias" not in exercise.prompt), exercise.name


@pytest.mark.parametrize("kv_heads", ["all", "one", "any"])
def test_sizes_that_may_be_equal_are_drawn_equal(kv_heads):
    for seed in range(20):
        rng = InputGenerator(seed)
        free = special_sizes(("d_in", "d_out", "num_heads", "head_dim"), "all", rng)
        for equal in ("d_in == d_out", "d_out == joined != d_in", "d_in == joined != d_out", "head_dim == 1 < heads"):
            values = [
                one._asdict() | {"joined": one.num_heads * one.head_dim, "head_dim": one.head_dim} for one in free
            ]
            assert any(eval(equal, {}, one | {"heads": one["num_heads"]}) for one in values), equal
        assert all(one.num_heads % one.num_kv_heads == 0 for one in special_sizes(("num_heads",), kv_heads, rng))
        assert any(one.head_dim == 1 for one in special_sizes(("num_heads",), kv_heads, rng))


@pytest.mark.slow
def test_the_templates_are_right():
    for name, source in CLASSES.items():
        if source:
            assert judged(name, a_class(name), 1).passed, name
