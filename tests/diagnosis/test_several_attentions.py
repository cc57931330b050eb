"""Every attention of a model is found, examined in its place and counted, wherever the mistake is."""

import json
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from course_lib.attention import GroupedQueryAttention, KVCache, MultiHeadAttention
from course_lib.diagnosis import diagnose
from tests.diagnosis.bank import score

pytestmark = pytest.mark.one_in(8)

D, HEADS, VOCABULARY = 12, 3, 19
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))
IDS = torch.randint(VOCABULARY, (2, 6), generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """Attention and an MLP, each after a norm, as in GPT-2."""

    def __init__(self, attn, d_in=D, d_out=D):
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(d_in), nn.LayerNorm(d_in), attn
        self.back = nn.Linear(d_out, d_in) if d_out != d_in else nn.Identity()
        self.mlp = nn.Sequential(nn.Linear(d_in, 2 * d_in), nn.GELU(), nn.Linear(2 * d_in, d_in))

    def forward(self, x):
        x = x + self.back(self.attn(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, *attentions):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, D), nn.Embedding(16, D)
        self.blocks = nn.ModuleList(map(Block, attentions))
        self.head = nn.Linear(D, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def attention(**options):
    torch.manual_seed(1)
    return MultiHeadAttention(D, D, HEADS, **options)


def blind():
    return attention(causal=False)


def names(report, *, wrong=True):
    return [one.name for one in report.attentions if bool(one.findings) is wrong]


# --- every position ---

PLANTED = (
    "mask-off-by-one",
    "missing-scale",
    "softmax-wrong-axis",
    "heads-share-scores",
    "weights-not-applied",
    "dropout-at-eval",
)


def planted(mistake):
    """Return the first planted case of a mistake, of a module that takes x alone: (block, x, options, lines)."""
    for case in score.cases(["planted"]):
        code, x, options = case.make()
        plain = isinstance(code, nn.Module) and x.dtype == torch.float32 and {*options} <= {"num_heads", "num_kv_heads"}
        if case.mistake == mistake and plain:
            width = code.eval()(x).shape[-1]
            return Block(case.make()[0], x.shape[-1], width), x, options, case.lines
    raise LookupError(mistake)


# Each mistake at two of the three places, each place with four of the six mistakes.
PLACES = [(one, place) for at, one in enumerate(PLANTED) for place in range(3) if place != at % 3]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "position"), PLACES, ids=[f"{one[0]}-{one[1]}" for one in PLACES])
def test_a_mistake_is_found_wherever_it_is(mistake, position):
    wrong, x, options, lines = planted(mistake)
    heads, d_in = options.get("num_heads") or 2, x.shape[-1]
    kv_heads = options.get("num_kv_heads") or heads
    right = [Block(GroupedQueryAttention(d_in, heads * 4, heads, num_kv_heads=kv_heads), d_in, heads * 4)] * 2
    report = diagnose(nn.Sequential(*right[:position], wrong, *right[position:]), x, **options)
    assert report.mistakes[:1] == (mistake,) and len(report.attentions) == 3, report
    assert all(name.startswith(f"{position}.") for name in names(report)) and not report.not_examined
    assert not lines or report.findings[0].where in lines


class Pinned(GPT):
    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))  # on the CPU, outside of its attentions
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_the_verdict_names_what_is_in_none_of_the_attentions():
    ids = torch.arange(12).view(2, 6) % VOCABULARY
    report = diagnose(Pinned(attention(), blind()), ids, num_heads=HEADS)
    assert report.mistakes == ("no-causal-mask", "device-pinned")
    assert report.verdict == "2 attentions found, 2 examined: 2 things are wrong in blocks.1.attn and elsewhere."
    report = diagnose(Pinned(attention(), attention()), ids, num_heads=HEADS)
    assert report.verdict == "2 attentions found, 2 examined: one thing is wrong."


def test_one_mistake_in_several_attentions_is_said_once():
    report = diagnose(nn.Sequential(Block(blind()), Block(attention()), Block(blind())), X, num_heads=HEADS)
    (finding,) = report.findings
    assert finding.evidence.startswith("in 2 of 3 attentions (0.attn and 2.attn): every token sees")
    assert report.verdict == "3 attentions found, 3 examined: one thing is wrong in 0.attn and 2.attn."
    data = json.loads(report.as_json())["attentions"]
    assert [(one["name"], len(one["findings"]), one["not_examined"]) for one in data] == [
        ("0.attn", 1, None), ("1.attn", 0, None), ("2.attn", 1, None),
    ]  # fmt: skip


# --- models of other forms ---


@pytest.mark.slow
def test_a_model_takes_token_ids():
    assert diagnose(GPT(attention()), IDS, num_heads=HEADS).ok
    assert diagnose(GPT(attention(), attention()), IDS, num_heads=HEADS).ok
    assert diagnose(GPT(attention(), attention()), IDS[:1, :1], num_heads=HEADS).ok
    report = diagnose(GPT(attention(), blind()), IDS, num_heads=HEADS, words=list("dreams"))
    assert report.mistakes == ("no-causal-mask",) and names(report) == ["blocks.1.attn"]


@pytest.mark.parametrize("code", [attention(), lambda ids: ids], ids=["attention", "a function"])
def test_attention_alone_takes_no_token_ids(code):
    with pytest.raises(TypeError, match=r"x must be a floating-point tensor .* got torch.int64: give it embeddings."):
        diagnose(code, IDS)


class EncoderDecoder(nn.Module):
    def __init__(self, *, masked=True):
        super().__init__()
        torch.manual_seed(2)
        self.layers = nn.Transformer(D, HEADS, 2, 2, 2 * D, dropout=0.0, batch_first=True)
        self.masked = masked

    def forward(self, source, target):
        size = target.shape[1]
        hidden = torch.full((size, size), -torch.inf, dtype=target.dtype, device=target.device).triu(1)
        return self.layers(source, target, tgt_mask=hidden if self.masked else None)


@pytest.mark.slow
def test_only_the_decoder_of_an_encoder_decoder_is_causal():
    def both(module, x):
        return module(x, x)

    report = diagnose(EncoderDecoder(), X, num_heads=HEADS, call=both)
    assert report.ok and len(report.attentions) == 6, report
    report = diagnose(EncoderDecoder(masked=False), X, num_heads=HEADS, call=both)
    assert report.mistakes == ("no-causal-mask",)
    assert names(report) == ["layers.decoder.layers.0.self_attn", "layers.decoder.layers.1.self_attn"]


class Cached(nn.Module):
    def __init__(self, *attentions):
        super().__init__()
        self.layers = nn.ModuleList(attentions)

    def forward(self, x, caches):
        for layer, cache in zip(self.layers, caches, strict=True):
            x = x + layer(x, cache=cache)
        return x


class Forgetful(MultiHeadAttention):
    def forward(self, x, cache=None):
        return super().forward(x)


def token_by_token(module, x):
    caches = [KVCache(len(x), HEADS, 16, D // HEADS, dtype=x.dtype) for _ in module.layers]
    return torch.cat([module(x[:, at : at + 1], caches) for at in range(x.shape[1])], dim=1)


@pytest.mark.slow
def test_steps_of_decoding_are_one_attention_for_each_layer():
    right = diagnose(Cached(attention(), attention()), X, num_heads=HEADS, call=token_by_token)
    assert right.ok and names(right, wrong=False) == ["layers.0", "layers.1"], right
    wrong = Cached(attention(), Forgetful(D, D, HEADS))
    report = diagnose(wrong, X, num_heads=HEADS, call=token_by_token)
    assert report.mistakes == ("token-missing-from-cache",) and names(report) == ["layers.1"]


# --- what is not examined ---


def test_values_may_come_from_tokens_without_the_positions_of_queries_and_keys():
    class Detection(nn.Module):  # tokens first, as in DETR
        def __init__(self):
            super().__init__()
            self.attn, self.after = nn.MultiheadAttention(D, HEADS), blind()

        def forward(self, x):
            turned = x.transpose(0, 1)
            placed = turned + torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None, None]
            found = self.attn(placed, placed, turned)[0]
            return self.after(x + found.transpose(0, 1))

    report = diagnose(Detection(), X, num_heads=HEADS, causal=False)
    assert report.ok and len(report.attentions) == 2, report


class DecoderLayer(nn.Module):
    """Self-attention and cross-attention of one class, which is given its queries' tokens, its keys' and a mask."""

    class Attend(nn.Module):
        def __init__(self, wrong):
            super().__init__()
            self.wrong = wrong
            self.to_q, self.to_k, self.to_v, self.out = (nn.Linear(D, D) for _ in range(4))

        def forward(self, tokens, others, hidden):
            q, k, v = (
                to(t).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                for to, t in ((self.to_q, tokens), (self.to_k, others), (self.to_v, others))
            )
            scores = q @ k.mT * (1.0 if self.wrong == "scale" else q.shape[-1] ** -0.5)
            masked = scores.masked_fill(hidden, -torch.inf)
            weights = (scores if self.wrong == "mask" else masked).softmax(-1)
            return self.out((weights @ v).transpose(1, 2).flatten(2))

    def __init__(self, wrong="", of_self=True, *, edge=1):
        super().__init__()
        torch.manual_seed(0)
        self.of_self, self.of_context = self.Attend(wrong if of_self else ""), self.Attend("" if of_self else wrong)
        self.norm, self.edge = nn.LayerNorm(D), edge

    def forward(self, x, context):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(self.edge)
        x = x + self.of_self(x, x, hidden)
        return x + self.of_context(self.norm(x), context, torch.zeros_like(hidden[:1, :1]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "where", "mistake"),
    [
        (DecoderLayer(), "", ""),
        (DecoderLayer(edge=5), "", ""),  # nothing says that it should be causal
        (DecoderLayer("scale"), "of_self", "missing-scale"),
        (DecoderLayer("scale", of_self=False), "of_context", "missing-scale"),
        (DecoderLayer("mask"), "of_self", "mask-discarded"),
        (DecoderLayer(edge=2), "of_self", "mask-off-by-one"),
    ],
)
@pytest.mark.parametrize("count", [7, 5])
def test_the_self_attention_of_a_decoder_is_examined_beside_that_of_a_context(code, where, mistake, count):
    context = torch.randn(2, count, D, generator=torch.Generator().manual_seed(3))
    report = diagnose(code, X, context=context, num_heads=HEADS)
    assert [one.name for one in report.attentions] == ["of_self", "of_context"] and not report.not_examined, report
    assert report.mistakes == ((mistake,) if mistake else ()), report
    assert names(report) == ([where] if where else []), report


# --- the whole ---


def test_the_first_tensor_of_an_object_is_the_output():
    @dataclass
    class Output:
        last_hidden_state: Tensor
        attentions: tuple = ()

    class Model(GPT):
        def forward(self, ids):
            return Output(super().forward(ids))

    assert diagnose(Model(attention(), attention()), IDS, num_heads=HEADS).ok
