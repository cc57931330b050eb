"""A class passes by what it computes, on sizes and weights it has never seen, in whatever layout its weights are."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.exercises import ALL, NEEDS_REVIEW, InputGenerator, LocalAnswer
from course_lib.exercises.modules import construction_sizes, run_sizes

from .known_answers import RIGHT, WRONG
from .written_answers import variant


def judged(name, code, seed=0):
    return ALL[name].judge(LocalAnswer(code), InputGenerator(seed))


def attended(q, k, v, causal=True):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def parameter(*shape):
    return nn.Parameter(torch.randn(*shape))


class TurnedHead(nn.Module):
    """Matrices for `x @ w`."""

    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        self.value, self.key, self.query = (parameter(d_in, width) for width in (d_out, head_dim, head_dim))

    def forward(self, x):
        return attended(x @ self.query, x @ self.key, x @ self.value, causal=False)


class ThreeAxes(nn.Module):
    """(head, d_in, head_dim) for each role, and (head, head_dim, d_out)."""

    def __init__(self, d_in, d_out, num_heads, head_dim=None):
        super().__init__()
        head_dim = head_dim or d_out // num_heads
        self.w_q, self.w_k, self.w_v = (parameter(num_heads, d_in, head_dim) for _ in range(3))
        self.w_o = parameter(num_heads, head_dim, d_out)

    def forward(self, x):
        q, k, v = (torch.einsum("btm,hmd->bhtd", x, w) for w in (self.w_q, self.w_k, self.w_v))
        return torch.einsum("bhtd,hdo->bto", attended(q, k, v), self.w_o)


class AllInOne(nn.Module):
    """(d_in, head_dim, head, role): the numbers of a head far from each other, and W^O turned."""

    def __init__(self, d_in, d_out, num_heads, head_dim=None):
        super().__init__()
        head_dim = head_dim or d_out // num_heads
        self.w = parameter(d_in, head_dim, num_heads, 3)
        self.w_o = parameter(num_heads * head_dim, d_out)

    def forward(self, x):
        q, k, v = torch.einsum("btm,mdhr->rbhtd", x, self.w)
        return attended(q, k, v).permute(0, 2, 3, 1).flatten(2) @ self.w_o


class Lists(nn.Module):
    """A list of `nn.Linear` for each role, and one for the output of each head."""

    causal = True

    def __init__(self, d_in, d_out, num_heads, head_dim=None):
        super().__init__()
        width = head_dim or d_out // num_heads
        self.keys, self.values, self.queries = (
            nn.ModuleList(nn.Linear(d_in, width, bias=False) for _ in range(num_heads)) for _ in range(3)
        )
        self.outs = nn.ModuleList(nn.Linear(width, d_out, bias=False) for _ in range(num_heads))

    def forward(self, x):
        heads = zip(self.queries, self.keys, self.values, self.outs, strict=True)
        return sum(out(attended(q(x), k(x), v(x), self.causal)) for q, k, v, out in heads)


class SharedPacked(nn.Module):
    """Keys and values of each kv head side by side."""

    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_kv_heads, self.head_dim = num_kv_heads, d_out // num_heads
        self.q = nn.Linear(d_in, d_out, bias=False)
        self.kv = nn.Linear(d_in, 2 * num_kv_heads * self.head_dim, bias=False)
        self.proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        q = self.q(x).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
        k, v = self.kv(x).unflatten(2, (self.num_kv_heads, 2, -1)).permute(3, 0, 2, 1, 4)
        return self.proj(attended(q, k, v).transpose(1, 2).flatten(2))


class Groups(nn.Module):
    """One block for each group: its queries, its key, its value."""

    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.groups, self.share = num_kv_heads, num_heads // num_kv_heads
        self.qkv = nn.Linear(d_in, num_kv_heads * (self.share + 2) * (d_out // num_heads), bias=False)
        self.proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        packed = self.qkv(x).unflatten(2, (self.groups, self.share + 2, -1)).permute(0, 2, 3, 1, 4)
        q, k, v = packed[:, :, :-2].flatten(1, 2), packed[:, :, -2], packed[:, :, -1]
        return self.proj(attended(q, k, v).transpose(1, 2).flatten(2))


LAYOUTS = [
    *[("SingleHead", TurnedHead), ("MultiHead", ThreeAxes), ("MultiHead", AllInOne), ("MultiHead", Lists)],
    *[("Wrapper", variant(Lists, causal=False)), ("GroupedQuery", SharedPacked), ("GroupedQuery", Groups)],
    *[("MyMultiHeadAttention", one) for one in (ThreeAxes, AllInOne, Lists)],
]


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "code"), LAYOUTS)
def test_a_layout_of_its_own_is_read(name, code):
    for seed in range(3):
        assert judged(name, code, seed).passed


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "code"), LAYOUTS)
def test_a_layout_of_its_own_hides_no_mistake(name, code, monkeypatch):
    right = attended
    monkeypatch.setitem(globals(), "attended", lambda q, k, v, causal=True: right(q * 1.001, k, v, causal))
    verdict = judged(name, code)
    assert verdict.state == "not passed yet"
    monkeypatch.setitem(globals(), "attended", lambda q, k, v, causal=True: right(q, k, v, not causal))
    assert judged(name, code).state == verdict.state


SPLIT = RIGHT["MultiHead"][3]
PUBLIC = (7, 12, 3)


class Tiled(Groups):
    """The queries of a group are spread over all groups."""

    def forward(self, x):
        packed = self.qkv(x).unflatten(2, (self.groups, self.share + 2, -1)).permute(0, 2, 3, 1, 4)
        q, k, v = packed[:, :, :-2].transpose(1, 2).flatten(1, 2), packed[:, :, -2], packed[:, :, -1]
        return self.proj(attended(q, k, v).transpose(1, 2).flatten(2))


Zeros = variant(SPLIT, forward=lambda self, x: torch.zeros(*x.shape[:2], self.out_proj.out_features, dtype=x.dtype))


class Remembers(SPLIT):
    """Right once, then a table of what it gave, whatever the weights are."""

    table = None

    def forward(self, x):
        if Remembers.table is None:
            Remembers.table = super().forward(x)
        return Remembers.table


class OwnWeights(SPLIT):
    """Gives away other weights than it uses."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        object.__setattr__(self, "hidden", SPLIT(*sizes).double())

    def forward(self, x):
        return self.hidden(x)


class PublicSizesOnly(SPLIT):
    def forward(self, x):
        sizes = (x.shape[2], self.num_heads * self.head_dim, self.num_heads)
        return super().forward(x) if sizes == PUBLIC else self.out_proj(self.v_proj(x))


class FixedMask(SPLIT):
    """Hides later tokens among the first 32 only."""

    def weigh(self, scores):
        hidden = torch.zeros_like(scores).bool()
        hidden[..., :32, :32] = torch.ones_like(hidden[..., :32, :32]).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1)


FirstSampleOnly = variant(SPLIT, forward=lambda self, x: SPLIT.forward(self, x)[:1].expand(len(x), -1, -1))


class NameOnly(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        for one in SPLIT(*sizes).children():
            self.add_module(f"part_{len(list(self.children()))}", one)
        self.width = sizes[1]

    def forward(self, x):
        return torch.ones(*x.shape[:2], self.width, dtype=x.dtype)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("code", [Zeros, Remembers, OwnWeights, PublicSizesOnly, FixedMask, FirstSampleOnly, NameOnly])
def test_a_trick_does_not_pass(code):
    for seed in range(3):
        Remembers.table = None
        verdict = judged("MultiHead", code, seed)
        assert verdict.state == "not passed yet", verdict


class Fickle(Lists):
    """Keys and values change places where there is one sample: each time there is a reading, never the same one."""

    def forward(self, x):
        first, second = (self.keys, self.values) if len(x) > 1 else (self.values, self.keys)
        heads = zip(self.queries, first, second, self.outs, strict=True)
        return sum(out(attended(q(x), k(x), v(x))) for q, k, v, out in heads)


@pytest.mark.slow
def test_one_reading_must_hold_for_all_inputs():
    verdict = judged("MultiHead", Fickle)
    assert verdict.state == "not passed yet" and verdict.evidence[0].startswith("It was right for MultiHead(")


def test_heads_dealt_out_in_turn_are_no_layout():
    assert judged("GroupedQuery", Tiled).state == "not passed yet"


@pytest.mark.slow
def test_what_is_right_at_some_sizes_only_says_so():
    verdict = judged("MultiHead", FixedMask)
    evidence = verdict.evidence[-1]
    assert re.match(r"It was right for MultiHead\(.*, and is not for .* 1 sample of \d+ tokens\.", evidence)


class Extra(SPLIT):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.more = nn.Linear(sizes[0], 3)

    def forward(self, x):
        return super().forward(x) + self.more(x).sum()


class Mixed(RIGHT["SingleHead"][0]):
    """A head needs no output matrix."""

    def __init__(self, d_in, head_dim, d_out):
        super().__init__(d_in, head_dim, d_out)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        return self.out_proj(super().forward(x))


class Merged(nn.Module):
    """Queries and keys as one matrix: right, it may be, and not to be read."""

    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        self.qk, self.v = parameter(d_in, d_in), parameter(d_in, d_out)

    def forward(self, x):
        return (x @ self.qk @ x.mT).softmax(-1) @ x @ self.v


class Scaled(RIGHT["SingleHead"][0]):
    """A factor that is learned, and not 1 at first."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.factor = parameter(1)

    def forward(self, x):
        return super().forward(x) * self.factor


class Huge(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1, device="meta").expand(10**12))


class OneAxis(SPLIT):
    """Its queries' matrix is written in a row."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        weight, self.q_proj = self.q_proj.weight, None
        self.w_q = nn.Parameter(weight.detach().flatten())


def test_a_parameter_of_ones_own_is_judged_by_its_first_value():
    verdict = judged("SingleHead", Scaled)
    assert verdict.state == "not passed yet" and "Its own parameters: factor (1,)." in verdict.evidence and verdict.hint


@pytest.mark.parametrize(
    ("name", "code", "listed"),
    [
        ("MultiHead", Huge, "w (1000"),
        ("MultiHead", OneAxis, "w_q ("),
    ],
)
def test_what_cannot_be_read_is_left_to_the_teacher(name, code, listed):
    verdict = judged(name, code)
    assert verdict.state == NEEDS_REVIEW and not verdict.passed
    assert verdict.message == "Its parameters are laid out in a way that can't be compared with the solution's."
    assert listed in verdict.evidence[0]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("MultiHead", Extra, "The matrices with an axis of d_in="),
        ("SingleHead", Mixed, "The matrices with an axis of d_out="),
        ("SingleHead", Merged, "The matrices with an axis of d_in="),
    ],
)
def test_parameters_that_the_task_does_not_ask_for_are_refused(name, code, words):
    verdict = judged(name, code)
    assert verdict.state == "not passed yet" and verdict.message.startswith(words)
    assert any("Its parameters: " in sentence for sentence in verdict.evidence) and verdict.hint


Narrow = variant(SPLIT, forward=lambda self, x: SPLIT.forward(self, x)[..., 1:])


class Pair(SPLIT):
    def forward(self, x):
        return super().forward(x), None


InPlace = variant(SPLIT, forward=lambda self, x: SPLIT.forward(self, x.mul_(2)))


class Nothing(SPLIT):
    def forward(self, x):
        super().forward(x)


class Stub(nn.Module):
    def __init__(self, *sizes):
        raise NotImplementedError


class Plain:
    def __init__(self, *sizes):
        pass


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (Narrow, "not passed yet", r"Your result has the shape .* = \(batch, token, d_out\)\."),
        (Pair, "not passed yet", "gives back a tuple; it should be a tensor"),
        (InPlace, "not passed yet", "changes its input `x` in place"),
        (Nothing, "not passed yet", "gives back None: is a `return` missing"),
        (Stub, "not written yet", "Put your code"),
        (variant(SPLIT, forward=nn.Module.forward), "not passed yet", "has no method `forward`"),
        (Plain, "not passed yet", "it is no `nn.Module`: write `class Plain"),
    ],
)
def test_what_is_plainly_off_is_said_whatever_the_layout(code, state, words):
    verdict = judged("MultiHead", code)
    assert verdict.state == state and re.search(words, verdict.message), verdict


@pytest.mark.parametrize("kv_heads", ["all", "one", "any"])
def test_sizes_that_can_be_mistaken_all_differ(kv_heads):
    seen = set()
    for seed in range(100):
        rng = InputGenerator(seed)
        constructions = construction_sizes(("num_heads",), kv_heads, rng)
        assert len(constructions) == (3 if kv_heads == "any" else 2)
        for sizes in constructions:
            assert sizes.d_out == sizes.num_heads * sizes.head_dim and sizes.num_heads % sizes.num_kv_heads == 0
            assert len({sizes.d_in, sizes.d_out, sizes.num_heads, sizes.head_dim}) == 4
            for run in run_sizes(sizes, rng):
                few = {run.batch, run.num_tokens} - {1, 2}
                assert not few & {sizes.d_in, sizes.d_out, sizes.head_dim, *sizes[2:]}
        if kv_heads == "any":
            some, one, every = (sizes.num_kv_heads / sizes.num_heads for sizes in constructions)
            assert 0 < some < 1 and constructions[1].num_kv_heads == 1 and every == 1 and one < 1
        seen.add(tuple(constructions))
    assert len(seen) > 40


@pytest.mark.one_in(2)
@pytest.mark.parametrize("takes", [("d_in", "head_dim", "d_out"), ("d_in", "d_out", "num_heads", "head_dim")])
def test_a_head_of_a_width_of_its_own_is_no_share_of_the_output(takes):
    for seed in range(100):
        first, second = construction_sizes(takes, "all", InputGenerator(seed))
        for sizes in (first, second):
            heads = {sizes.num_heads, sizes.num_heads * sizes.head_dim} if "num_heads" in takes else set()
            assert len({sizes.d_in, sizes.d_out, sizes.head_dim, *heads}) == 3 + len(heads)
        assert all(getattr(first, name) != getattr(second, name) for name in ("d_in", "d_out"))
        for sizes in (first, second):
            assert sizes.d_in not in (sum(sizes.projected), sum(sizes.projected[1:])), "a packed matrix would be square"


STEPS = ALL["CachedAttention"]
CACHED = {one.__name__: one for one in (*RIGHT["CachedAttention"], *(one for one, *_ in WRONG["CachedAttention"]))}


@pytest.mark.slow
def test_a_cache_is_judged_in_pieces_on_every_seed():
    """The answers take turns with nine seeds, three each; on seed 0 `check` judges all of them elsewhere."""
    for at, one in enumerate(RIGHT["CachedAttention"]):
        for seed in range(1 + at % 3, 10, 3):
            assert judged("CachedAttention", one, seed).passed, (one, seed)
    for at, (one, *_) in enumerate(WRONG["CachedAttention"]):
        for seed in range(1 + at % 3, 10, 3):
            assert judged("CachedAttention", one, seed).state == "not passed yet", (one, seed)


def test_the_pieces_of_a_text_are_told():
    verdict = judged("CachedAttention", CACHED["CacheInModule"])
    assert any(re.search(r"in pieces of \d+(, \d+)+\.$", sentence) for sentence in verdict.evidence)
    assert "nothing in the module" in verdict.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "mistake", "words"),
    [
        ("CachedTopLeft", "causal-top-left", "aligned at the first key"),
        ("CacheIgnored", None, "forgets the pieces before"),
        ("CacheOfLastPiece", None, "remembers the last piece only"),
        ("CachedMaskedAtFirst", "no-causal-mask", "in the first piece only"),
        ("CacheInFront", None, "new tokens in front"),
    ],
)
def test_a_mistake_with_a_cache_is_named_on_every_seed(code, mistake, words):
    for seed in range(0, 20, 3):
        verdict = judged("CachedAttention", CACHED[code], seed)
        assert words in verdict.message and verdict.mistake == mistake, (seed, verdict)


def test_an_empty_cell_is_not_written_yet():
    for name in ("MyMultiHeadAttention", "MyMultiQueryAttention", "CachedAttention"):
        made = {"nn": nn}
        exec(ALL[name].stub, made)
        assert judged(name, made[name]).state == "not written yet"


@pytest.mark.slow
def test_the_judge_leaves_the_random_stream_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    judged("Wrapper", RIGHT["Wrapper"][2])
    assert torch.equal(before, torch.random.get_rng_state())
