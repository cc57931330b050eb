"""A class passes by what it computes, on sizes and weights it has never seen, in whatever layout its weights are."""

import importlib.util
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.classroom.judging.class_judge import judge_class
from course_lib.classroom.judging.drawn import Draw
from course_lib.classroom.judging.drawn.constructions import constructions
from course_lib.exercises.catalogue import EXERCISES
from course_lib.exercises.modules import ModuleJudge
from course_lib.exercises.running import run
from course_lib.exercises.verdict import LOOK

ANSWERS = Path(__file__).resolve().parents[1] / "exercises"
CLASSES = [name for name, exercise in EXERCISES.items() if isinstance(exercise.judge, ModuleJudge)]


@dataclass
class Here:
    """A class that runs in this process, as it will elsewhere."""

    code: Any

    def build(self, sizes, seed):
        def build():
            module = self.code(*sizes)
            if not isinstance(module, nn.Module):
                raise TypeError(f"{self.code.__name__} is no nn.Module")
            return module.double().eval()

        return Module(run(build, seed=seed))


class Module:
    def __init__(self, module):
        self.module = module
        self.parameters = {name: tuple(one.shape) for name, one in module.named_parameters()}

    def run(self, weights, x):
        self.module.load_state_dict(weights, strict=False)
        with torch.no_grad():
            return run(self.module, x), x


def judged(name, code, seed=0):
    return judge_class(EXERCISES[name].judge, Here(code), Draw(seed))


def _answers(kind):
    found = {}
    for lesson in ("01", "03", "05", "06", "10"):
        path = ANSWERS / f"answers_{lesson}.py"
        spec = importlib.util.spec_from_file_location(f"classes_{lesson}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= getattr(module, kind)
    return {name: found[name] for name in CLASSES}


RIGHT, WRONG = _answers("RIGHT"), _answers("WRONG")
RIGHT_CASES = [pytest.param(name, one, id=f"{name}-{one.__name__}") for name in CLASSES for one in RIGHT[name]]
WRONG_CASES = [
    pytest.param(name, one, words[0], id=f"{name}-{one.__name__}")
    for name in CLASSES
    for one, *words in WRONG[name]
    if isinstance(one, type)
]


@pytest.mark.parametrize(("name", "code"), RIGHT_CASES)
def test_a_right_class_passes(name, code):
    verdict = judged(name, code)
    assert verdict.passed, verdict
    assert verdict.says == "Equal to the reference on 4 inputs of different sizes."


@pytest.mark.parametrize(("name", "code", "word"), WRONG_CASES)
def test_a_wrong_class_does_not_pass(name, code, word):
    verdict = judged(name, code)
    if code.__name__ == "OneHeadManyTimes":  # a shared parameter is named once: too few to be read
        assert verdict.state == LOOK and "heads.0.q_proj.weight" in verdict.evidence[0]
    else:
        assert verdict.state == "not passed yet", verdict
    assert verdict.mistake == (word if word in ("returns-none", "input-modified") else None)


def attended(q, k, v, causal=True):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def parameter(*shape):
    return nn.Parameter(torch.randn(*shape))


class TurnedHead(nn.Module):
    """Matrices for `x @ w`, and biases that nobody calls so."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.value, self.key, self.query = (parameter(d_in, d_out) for _ in range(3))
        self.b_q = parameter(d_out)

    def forward(self, x):
        return attended(x @ self.query + self.b_q, x @ self.key, x @ self.value, causal=False)


class ThreeAxes(nn.Module):
    """(head, d_in, head_dim) for each role, and (head, head_dim, d_out)."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        head_dim = d_out // num_heads
        self.w_q, self.w_k, self.w_v = (parameter(num_heads, d_in, head_dim) for _ in range(3))
        self.w_o = parameter(num_heads, head_dim, d_out)

    def forward(self, x):
        q, k, v = (torch.einsum("btm,hmd->bhtd", x, w) for w in (self.w_q, self.w_k, self.w_v))
        return torch.einsum("bhtd,hdo->bto", attended(q, k, v), self.w_o)


class AllInOne(nn.Module):
    """(d_in, head_dim, head, role): the numbers of a head far from each other, and W^O turned."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.w = parameter(d_in, d_out // num_heads, num_heads, 3)
        self.w_o = parameter(d_out, d_out)

    def forward(self, x):
        q, k, v = torch.einsum("btm,mdhr->rbhtd", x, self.w)
        return attended(q, k, v).permute(0, 2, 3, 1).flatten(2) @ self.w_o


class Lists(nn.Module):
    """A list of `nn.Linear` for each role, and one for the output of each head."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        width = d_out // num_heads
        self.keys, self.values, self.queries = (
            nn.ModuleList(nn.Linear(d_in, width) for _ in range(num_heads)) for _ in range(3)
        )
        self.outs = nn.ModuleList(nn.Linear(width, d_out) for _ in range(num_heads))

    def forward(self, x):
        heads = zip(self.queries, self.keys, self.values, self.outs, strict=True)
        return sum(out(attended(q(x), k(x), v(x))) for q, k, v, out in heads)


class SharedPacked(nn.Module):
    """Keys and values of each kv head side by side."""

    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_kv_heads, self.head_dim = num_kv_heads, d_out // num_heads
        self.q = nn.Linear(d_in, d_out)
        self.kv = nn.Linear(d_in, 2 * num_kv_heads * self.head_dim)
        self.proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        q = self.q(x).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
        k, v = self.kv(x).unflatten(2, (self.num_kv_heads, 2, -1)).permute(3, 0, 2, 1, 4)
        return self.proj(attended(q, k, v).transpose(1, 2).flatten(2))


class Groups(nn.Module):
    """One block for each group: its queries, its key, its value."""

    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.groups, self.share = num_kv_heads, num_heads // num_kv_heads
        self.qkv = nn.Linear(d_in, num_kv_heads * (self.share + 2) * (d_out // num_heads))
        self.proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        packed = self.qkv(x).unflatten(2, (self.groups, self.share + 2, -1)).permute(0, 2, 3, 1, 4)
        q, k, v = packed[:, :, :-2].flatten(1, 2), packed[:, :, -2], packed[:, :, -1]
        return self.proj(attended(q, k, v).transpose(1, 2).flatten(2))


LAYOUTS = [
    *[("SingleHead", TurnedHead), ("MultiHead", ThreeAxes), ("MultiHead", AllInOne), ("MultiHead", Lists)],
    *[("Wrapper", Lists), ("GroupedQuery", SharedPacked), ("GroupedQuery", Groups)],
]


@pytest.mark.parametrize(("name", "code"), LAYOUTS)
def test_a_layout_of_its_own_is_read(name, code):
    for seed in range(3):
        assert judged(name, code, seed).passed


@pytest.mark.parametrize(("name", "code"), LAYOUTS)
def test_a_layout_of_its_own_hides_no_mistake(name, code, monkeypatch):
    right = attended
    monkeypatch.setitem(globals(), "attended", lambda q, k, v, causal=True: right(q * 1.001, k, v, causal))
    verdict = judged(name, code)
    assert verdict.state == (LOOK if code is TurnedHead else "not passed yet")  # b_q is zero, and may be a factor
    monkeypatch.setitem(globals(), "attended", lambda q, k, v, causal=True: right(q, k, v, not causal))
    assert judged(name, code).state == verdict.state


SPLIT = RIGHT["MultiHead"][3]
PUBLIC = EXERCISES["MultiHead"].judge.sizes


class Tiled(Groups):
    """The queries of a group are spread over all groups."""

    def forward(self, x):
        packed = self.qkv(x).unflatten(2, (self.groups, self.share + 2, -1)).permute(0, 2, 3, 1, 4)
        q, k, v = packed[:, :, :-2].transpose(1, 2).flatten(1, 2), packed[:, :, -2], packed[:, :, -1]
        return self.proj(attended(q, k, v).transpose(1, 2).flatten(2))


class Zeros(SPLIT):
    def forward(self, x):
        return torch.zeros(*x.shape[:2], self.out_proj.out_features, dtype=x.dtype)


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


class FirstSampleOnly(SPLIT):
    def forward(self, x):
        return super().forward(x)[:1].expand(len(x), -1, -1)


class NameOnly(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        for one in SPLIT(*sizes).children():
            self.add_module(f"part_{len(list(self.children()))}", one)
        self.width = sizes[1]

    def forward(self, x):
        return torch.ones(*x.shape[:2], self.width, dtype=x.dtype)


@pytest.mark.parametrize("code", [Zeros, Remembers, OwnWeights, PublicSizesOnly, FixedMask, FirstSampleOnly, NameOnly])
def test_a_trick_does_not_pass(code):
    for seed in range(3):
        Remembers.table = None
        verdict = judged("MultiHead", code, seed)
        assert verdict.state == "not passed yet" and verdict.mistake is None, verdict


class Fickle(Lists):
    """Keys and values change places where there is one sample: each time there is a reading, never the same one."""

    def forward(self, x):
        first, second = (self.keys, self.values) if len(x) > 1 else (self.values, self.keys)
        heads = zip(self.queries, first, second, self.outs, strict=True)
        return sum(out(attended(q(x), k(x), v(x))) for q, k, v, out in heads)


def test_one_reading_must_hold_for_all_inputs():
    verdict = judged("MultiHead", Fickle)
    assert verdict.state == "not passed yet" and verdict.evidence[0].startswith("Inputs right so far: 1.")


def test_heads_dealt_out_in_turn_are_no_layout():
    assert judged("GroupedQuery", Tiled).state == "not passed yet"


def test_what_is_right_at_some_sizes_only_says_so():
    verdict = judged("MultiHead", FixedMask)
    assert verdict.evidence == ("Inputs right so far: 1. The next one has other sizes: is a size written into it?",)


class Extra(SPLIT):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.more = nn.Linear(sizes[0], 3)


class Mixed(RIGHT["SingleHead"][0]):
    """A head needs no output matrix."""

    def __init__(self, d_in, d_out):
        super().__init__(d_in, d_out)
        self.out_proj = nn.Linear(d_out, d_out)


class Merged(nn.Module):
    """Queries and keys as one matrix: right, it may be, and not to be read."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.qk, self.v = parameter(d_in, d_in), parameter(d_in, d_out)

    def forward(self, x):
        return (x @ self.qk @ x.mT).softmax(-1) @ x @ self.v


class Scaled(RIGHT["SingleHead"][0]):
    """A factor that is learned; with the weights that are drawn it is zero."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.factor = parameter(1)

    def forward(self, x):
        return super().forward(x) * self.factor


class Huge(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1, device="meta").expand(10**12))


class Many(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.w = nn.ParameterList(parameter(1) for _ in range(20))
        self.width = sizes[1]

    def forward(self, x):
        return x.new_zeros(*x.shape[:2], self.width)


@pytest.mark.parametrize(
    ("name", "code", "listed"),
    [
        ("MultiHead", Extra, "more.weight (3, "),
        ("SingleHead", Mixed, "out_proj.weight ("),
        ("SingleHead", Merged, "Its parameters: qk ("),
        ("SingleHead", Scaled, "factor (1,)"),
        ("MultiHead", Huge, "Its parameters: w (1000000000000,)."),
        ("MultiHead", Many, "w.11 (1,), ...."),
    ],
)
def test_what_cannot_be_read_is_left_to_the_teacher(name, code, listed):
    verdict = judged(name, code)
    assert verdict.state == LOOK and not verdict.passed
    assert verdict.says == "Its parameters are laid out in a way that can't be compared with the reference's."
    assert listed in verdict.evidence[0]


class Narrow(Extra):
    def forward(self, x):
        return super().forward(x)[..., 1:]


class Pair(SPLIT):
    def forward(self, x):
        return super().forward(x), None


class InPlace(Extra):
    def forward(self, x):
        return super().forward(x.mul_(2))


class Nothing(Extra):
    def forward(self, x):
        super().forward(x)


class Stub(nn.Module):
    def __init__(self, *sizes):
        raise NotImplementedError


class NoForward(SPLIT):
    forward = nn.Module.forward


class Plain:
    def __init__(self, *sizes):
        pass


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (Narrow, "not passed yet", r"Your result has the shape .* = \(batch, token, width\)\."),
        (Pair, "not passed yet", "gives back a tuple; it should be a tensor"),
        (InPlace, "not passed yet", "changes its input in place"),
        (Nothing, "not passed yet", "gives back None: is a `return` missing"),
        (Stub, "not written yet", "Put your code"),
        (NoForward, "not written yet", "Put your code"),
        (Plain, "not passed yet", "Plain is no nn.Module"),
    ],
)
def test_what_is_plainly_off_is_said_whatever_the_layout(code, state, words):
    verdict = judged("MultiHead", code)
    assert verdict.state == state and re.search(words, verdict.says), verdict


@pytest.mark.parametrize("name", CLASSES)
def test_sizes_are_new_and_all_different(name):
    public = EXERCISES[name].judge.sizes
    seen = set()
    for seed in range(100):
        (first, inputs), (second, others) = constructions(public, Draw(seed))
        assert not any(len({a, b, c}) < 3 for a, b, c in zip(public, first, second, strict=True))
        for sizes, calls in ((first, inputs), (second, others)):
            fit = list(pairwise(sizes[1:]))
            assert all(one % other == 0 for one, other in fit)  # d_out by heads, heads by kv heads
            (batch, num_tokens), (one, many) = calls
            assert one == 1 < batch < num_tokens and many > 32
            drawn = [*sizes, *(d_out // heads for d_out, heads in fit[:1]), batch, num_tokens, many]
            assert len(set(drawn)) == len(drawn)
        seen.add((first, second))
    assert len(seen) > 40
    said = "public must be two to four sizes, got (7,): d_in, d_out, num_heads, num_kv_heads."
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        constructions((7,), Draw(0))


def test_the_judge_leaves_the_random_stream_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    judged("Wrapper", RIGHT["Wrapper"][2])
    assert torch.equal(before, torch.random.get_rng_state())
