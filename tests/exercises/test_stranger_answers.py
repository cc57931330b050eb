"""Wrong answers of a stranger that passed, right ones that were refused, and sentences that were false."""

import pytest

from course_lib.exercises import ALL, NEEDS_REVIEW, InputGenerator, LocalAnswer, Verdict
from course_lib.exercises.checking import _for_learner, check

from .written_answers import TEMPLATES, edited, functions, run_cell

INIT, HEAD_INIT = "self.num_heads, self.head_dim =", "self.q_proj ="
GAIN = "{0} => self.t = nn.Parameter(torch.{1}) | {0}"
HIDDEN = "scores.masked_fill(~keep, -torch.inf)"
OUT = "return self.out_proj(context.transpose(1, 2).reshape(b, t, -1))"
CACHED = """class CachedAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_out // num_heads
        self.q, self.k, self.v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        self.out = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        b, n, _ = x.shape
        q, k, v = (one(x).view(b, n, self.h, self.d).transpose(1, 2) for one in (self.q, self.k, self.v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        keep = torch.ones(n, k.shape[2]).tril(k.shape[2] - n).bool()
        c = (q @ k.mT / self.d**0.5).masked_fill(~keep, -torch.inf).softmax(-1) @ v
        return self.out(c.transpose(1, 2).flatten(2)), (k[:, :, -60:], v[:, :, -60:])
"""
INSIDE = """class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.inp = nn.Linear(d_in, d_out, bias=False) if d_in != d_out else nn.Identity()
        self.mha = nn.MultiheadAttention(d_out, num_heads, kdim=d_in, vdim=d_in, batch_first=True, bias=False)

    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        return self.mha(self.inp(x), x, x, attn_mask=hidden, need_weights=False)[0]
"""


def a_class(name, *edits):
    source = TEMPLATES[name]
    for edit in edits:
        source = edited(source, edit)
    return run_cell(source, name)


def multi(*edits):
    return "MultiHeadWithGaps", a_class("MultiHeadWithGaps", *edits)


def single(*edits):
    return "SingleHeadWithGaps", a_class("SingleHeadWithGaps", *edits)


def a_function(signature, body):
    return signature.split("(")[0], functions({signature: body})[signature.split("(")[0]][0]


def judged(name, code, seed=0):
    return ALL[name].judge(LocalAnswer(code), InputGenerator(seed))


SPLIT = (
    "h = {}; m = MultiHeadAttention(wrapper.heads[0].q_proj.in_features, wrapper.num_heads * wrapper.head_dim, h{});"
    " s = wrapper_to_split(wrapper).state_dict(); m.load_state_dict(s); return m"
)
TO_SPLIT, SCALES = "to_split(wrapper)", "scaled_scores(queries, keys)"
ADDED = "n = scores.shape[-1]; hidden = torch.ones(n, n, dtype=scores.dtype).triu(1); "
ADDED += "return (scores - 50 * hidden).softmax(-1)"
LEAKS = "a = code(x); out = set()\\\nfor t in range(1, x.shape[1]):\\\n    c = x.clone(); c[:, t] += 1; b = code(c)\\\n"
LEAKS += "    out |= {{i for i in range(t) if not torch.allclose(a[:, i], b[:, i], atol={})}}\\\nreturn sorted(out)"
UNUSED = "module(x)[:, token].square().sum().backward(); "
UNUSED += "return [n for n, p in module.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-3]"
STEP = "r = q.shape[1] // k.shape[1]; K = torch.cat([ck, k], 2); V = torch.cat([cv, v], 2)\\\n"
STEP += "if ck.shape[2] == 0: return q, K, V\\\n"
STEP += "w = (q @ K.repeat_interleave(r, 1).mT / q.shape[-1] ** 0.5).softmax(-1); "
STEP += "return w @ V.repeat_interleave(r, 1), K, V"

WRONG = [
    multi(GAIN.format(INIT, "ones(1)")),
    multi(GAIN.format(INIT, "ones(1)"), "/ self.head_dim**0.5 => / (self.head_dim * self.t)"),
    multi(GAIN.format(INIT, "ones(num_heads)"), "weights @ values => weights @ values * 2"),
    multi(GAIN.format(INIT, "ones(1)"), f"{HIDDEN} => scores * self.t"),
    single(GAIN.format(HEAD_INIT, "ones(())"), "** 0.5 => * self.t"),
    multi(
        GAIN.format(INIT, "zeros(1)").replace("self.t", "self.v_bias"),
        "weights @ values => weights @ (values + 100 * self.v_bias)",
    ),
    multi(
        GAIN.format(INIT, "zeros(1)").replace("self.t", "self.scale_bias"),
        "/ self.head_dim**0.5 => / self.head_dim**0.5 * (1 + 7 * self.scale_bias)",
    ),
    multi(
        "self.v_proj = nn.Linear(d_in, d_out, bias=False) => self.v_proj = nn.Linear(d_in, d_out)",
        OUT + " => out = self.out_proj(context.transpose(1, 2).reshape(b, t, -1)) | return out + self.v_proj.bias",
    ),
    multi(
        OUT
        + " => out = self.out_proj(context.transpose(1, 2).reshape(b, t, -1)) | return out + x if out.shape == x.shape else out"
    ),
    single("return weights @ values => out = weights @ values | return out + x if out.shape == x.shape else out"),
    multi(f"scores = {HIDDEN} => scores = {HIDDEN} | values = values.flip(-1) if self.num_heads == 1 else values"),
    single("return weights @ values => return weights @ values * (2 if len(x) > 16 else 1)"),
    single(
        "scores = queries @ keys.transpose(1, 2) => scores = queries @ keys.transpose(1, 2) | scores = scores.tril() if x.shape[1] > 64 else scores"
    ),
    multi(f"scores = {HIDDEN} => keep = keep & torch.ones_like(keep).triu(-100) | scores = {HIDDEN}"),
    multi(
        f"scores = {HIDDEN} => self.calls = getattr(self, 'calls', 0) + 1 | values = values * (1 + (self.calls > 1)) | scores = {HIDDEN}"
    ),
    ("CachedAttention", run_cell(CACHED, "CachedAttention")),
    multi(f"scores = {HIDDEN} => scores = scores.tril() | scores = scores.masked_fill(scores == 0, -torch.inf)"),
    a_function(TO_SPLIT, SPLIT.format(1, "")),
    a_function(TO_SPLIT, SPLIT.format("wrapper.num_heads", ", causal=False")),
    a_function(TO_SPLIT, SPLIT.format("wrapper.num_heads", ", dropout=0.5")),
    a_function("causal_weights(scores)", ADDED),
    a_function(
        "safe_weights(scores, keep)",
        "w = (scores + torch.where(keep, 0.0, -30.0)).softmax(-1); return w * keep.any(-1, keepdim=True)",
    ),
    a_function(
        "to_torch_mask(keep, target)",
        "return ~keep.squeeze() if target == 'key_padding_mask' else ~keep if target == 'attn_mask' else keep",
    ),
    a_function("decode_step(q, k, v, ck, cv)", STEP),
    a_function(
        "split_heads(x, num_heads)",
        "y = x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3); return y.flip(1) if num_heads > 8 else y",
    ),
    a_function(SCALES, "(queries @ keys.T / queries.shape[-1] ** 0.5).clamp(-15, 15)"),
    a_function("leaks(code, x)", LEAKS.format(0.1)),
    a_function("leaks(code, x)", LEAKS.format(0.01)),
    a_function("without_gradient(module, x, token)", UNUSED),
]

RIGHT = [
    multi(GAIN.format(INIT, "ones(1)"), "/ self.head_dim**0.5 => / self.head_dim**0.5 * self.t"),
    single(GAIN.format(HEAD_INIT, "ones(())"), "** 0.5 => ** 0.5 * self.t"),
    multi(", bias=False => "),
    single(", bias=False => "),
    ("MyMultiHeadAttention", run_cell(INSIDE, "MyMultiHeadAttention")),
    ("CachedAttention", run_cell(CACHED.replace("[:, :, -60:]", ""), "CachedAttention")),
    a_function("leaks(code, x)", LEAKS.format(1e-9)),
    a_function(TO_SPLIT, SPLIT.format("wrapper.num_heads", "")),
]
IN_TRAINING = f"scores = {HIDDEN} => keep = keep.logical_or(torch.tensor(self.training)) | scores = {HIDDEN}"
GROUPS = "queries = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2) => "
GROUPS += "group = self.num_heads // self.num_kv_heads | "
GROUPS += "queries = self.q_proj(x).view(b, t, group, self.num_kv_heads, self.head_dim).transpose(2, 3).flatten(2, 3).transpose(1, 2)"
SAID = [
    (*WRONG[0], ("No gradient reaches `t`",), ("nothing wrong", "passed.")),
    (*WRONG[2], ("Its own parameters: t (",), ()),
    (*WRONG[17], ("The same call gives another result the second time",), ()),
    (*multi(IN_TRAINING), ("In evaluation it is right; in training mode",), ("mask-discarded",)),
    (*multi(f"{HIDDEN} => scores - 50.0 * ~keep"), ("-50 added to the hidden scores",), ("dtype",)),
    (*multi("self.head_dim**0.5 => 3.3"), (), ("What is different where token is 1?",)),
    (
        *single("self.q_proj = nn.Linear(d_in, d_out, => self.q_proj = nn.Linear(d_out, d_in,"),
        ("`q_proj.weight` is (", "it should be"),
        (),
    ),
    ("GroupedQuery", a_class("GroupedQuery", GROUPS), (), ("Line: ",)),
    (*multi("-torch.inf => -1e4"), ("hidden scores are -1000, or a number like it",), ("mask-with-zero",)),
    (
        "CachedAttention",
        run_cell(
            CACHED.replace("[:, :, -60:]", "").replace("tril(k.shape[2] - n)", "tril(0 if n > 1 else k.shape[2] - n)"),
            "CachedAttention",
        ),
        ("causal-top-left",),
        ("Is everything",),
    ),
    (
        *a_function("softmax_rows(scores)", "return scores.half().softmax(-1).double()"),
        ("right to three digits", "float16"),
        ("Each row should sum",),
    ),
    (
        *a_function(
            "scores_by_head(q, k)",
            "s = q @ k.mT / q.shape[-1] ** 0.5; n = q.shape[2]; "
            "return s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf) if n == k.shape[2] else s",
        ),
        ("Does the task ask for a mask here?",),
        ("division by zero",),
    ),
    (*a_function("leaks(code, x)", "return (one for one in [])"), (), ("1 values",)),
    (*a_function("softmax_rows(scores)", "return scores.softmax(-1) * 1e-9"), (), ("Every element of your result is",)),
]


def ids(cases):
    return [f"{one[0]}-{at}" for at, one in enumerate(cases)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("name", "code"), WRONG, ids=ids(WRONG))
def test_a_wrong_answer_is_refused_on_every_seed_with_a_question(name, code):
    for seed in range(3):
        verdict = judged(name, code, seed)
        assert verdict.state == "not passed yet" and verdict.hint, (seed, verdict)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "code"), RIGHT, ids=ids(RIGHT))
def test_a_right_answer_passes_on_every_seed(name, code):
    for seed in range(3):
        verdict = judged(name, code, seed)
        assert verdict.passed, (seed, verdict)


@pytest.mark.one_in(18)
@pytest.mark.parametrize(("name", "code", "said", "unsaid"), SAID, ids=ids(SAID))
def test_a_sentence_is_true(name, code, said, unsaid):
    verdict = repr(check(name, code))
    assert all(words in verdict for words in said) and not any(words in verdict for words in unsaid), verdict


def test_what_a_teacher_has_to_look_at_is_not_passed_in_practice():
    verdict = _for_learner(Verdict(NEEDS_REVIEW, "Odd."))
    assert verdict.state == NEEDS_REVIEW and not verdict and "a teacher looks" in repr(verdict)


@pytest.mark.slow
def test_a_mask_that_is_missing_for_two_tokens_is_seen():
    code = multi(f"scores = {HIDDEN} => keep = keep.logical_or(torch.tensor(x.shape[1] == 2)) | scores = {HIDDEN}")[1]
    verdict = ALL["MultiHeadWithGaps"].judge(LocalAnswer(code), InputGenerator(0))
    assert verdict.state == "not passed yet" and "2 tokens" in repr(verdict), verdict
