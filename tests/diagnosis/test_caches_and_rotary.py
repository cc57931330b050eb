"""The doctor on caches, memories and positions: the library's own classes, and each with a mistake planted in it."""

import math
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from course_lib.attention import (
    GroupedQueryAttention,
    KVCache,
    LlamaAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    SingleHeadAttention,
    apply_rotary,
)
from course_lib.attention.rotary import rows_at_positions
from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(8)

BATCH, TOKENS, D_IN, HEADS, HEAD_DIM = 2, 6, 11, 4, 6
D_OUT, PROMPT = HEADS * HEAD_DIM, 3


def some_x(width=D_IN, batch=BATCH, tokens=TOKENS):
    return torch.randn(batch, tokens, width, generator=torch.Generator().manual_seed(0))


def cache_for(module, x, num_kv_heads, kind=KVCache):
    return kind(
        len(x), num_kv_heads, 4 * TOKENS, module.head_dim, value_dim=module.value_dim, dtype=x.dtype, device=x.device
    )


def word_by_word(num_kv_heads, kind=KVCache):
    """A `call` that gives a prompt and then one token after the other, with a new cache each time."""

    def call(module, x):
        cache = cache_for(module, x, num_kv_heads, kind)
        rows = [module(x[:, :PROMPT], cache=cache)]
        rows += [module(x[:, t : t + 1], cache=cache) for t in range(PROMPT, x.shape[1])]
        return torch.cat(rows, dim=1)

    return call


def found(report):
    """mistake -> line, in order."""
    return {finding.mistake: finding.where for finding in report.findings}


# --- the library's own classes ---

OWN = {
    "multi-head": (lambda kernel: MultiHeadAttention(D_IN, D_OUT, HEADS, bias=True, kernel=kernel), HEADS),
    "widths of their own": (lambda kernel: MultiHeadAttention(D_IN, 13, HEADS, d_v=20, d_qk=8, kernel=kernel), HEADS),
    "multi-query": (lambda kernel: MultiQueryAttention(D_IN, D_OUT, HEADS, kernel=kernel), 1),
    "grouped": (lambda kernel: GroupedQueryAttention(D_IN, D_OUT, HEADS, num_kv_heads=2, kernel=kernel), 2),
    "llama": (lambda kernel: LlamaAttention(D_IN, HEADS, num_kv_heads=2, head_dim=HEAD_DIM, kernel=kernel), 2),
}


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
@pytest.mark.parametrize("name", OWN)
def test_a_class_of_the_library_writes_word_by_word(name, kernel):
    make, num_kv_heads = OWN[name]
    told = {"num_heads": HEADS, "num_kv_heads": num_kv_heads}
    report = diagnose(make(kernel), some_x(), call=word_by_word(num_kv_heads), **told)
    assert report.ok, report
    assert report.remarks == () and f"traced with {BATCH} samples of {TOKENS} tokens" in report.checked[0]


@pytest.mark.parametrize("name", OWN)
def test_without_call_the_cache_is_examined_all_the_same(name):
    make, num_kv_heads = OWN[name]
    report = diagnose(make("explicit"), some_x(), num_heads=HEADS, num_kv_heads=num_kv_heads)
    assert report.ok and report.remarks == (), report
    assert report.checked[-1].startswith("with the cache of `cache`, token by token, it computes the same")


def test_code_without_a_cache_gets_no_such_remark():
    assert diagnose(SingleHeadAttention(D_IN, HEAD_DIM), some_x()).remarks == ()
    assert diagnose(nn.MultiheadAttention(12, 3, batch_first=True), some_x(12)).remarks == ()


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
@pytest.mark.parametrize("kind", ["multi-head", "multi-query", "grouped"])
def test_a_memory_that_is_made_from_x(kind, kernel):
    classes = {"multi-head": MultiHeadAttention, "multi-query": MultiQueryAttention, "grouped": GroupedQueryAttention}
    more = {"num_kv_heads": 2} if kind == "grouped" else {}
    module = classes[kind](D_IN, D_OUT, HEADS, causal=False, kernel=kernel, **more)
    real = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    real[1, 4:] = False

    def call(module, x):
        return module(x, context=torch.tanh(x.flip(0).flip(0)), keep=real[:, None, None].to(x.device))

    told = {"num_heads": HEADS, "causal": False, "keep": real[:, None, None], "call": call}
    report = diagnose(module, some_x(), **told)
    assert report.ok, report


@pytest.mark.parametrize("tokens", [TOKENS, TOKENS + 3])
def test_a_memory_that_is_always_the_same_can_not_be_examined(tokens):
    memory = some_x(tokens=tokens)
    module = MultiHeadAttention(D_IN, D_OUT, HEADS, causal=False)
    report = diagnose(module, some_x(), causal=False, call=lambda m, x: m(x, context=memory.to(x)))
    (finding,) = report.findings
    assert finding.mistake is None
    assert finding.title == "It could not be examined: its keys are not made from x."
    assert f"a tensor of the shape ({BATCH}, {tokens}, {D_IN}) that is the same for every x" in finding.evidence
    assert "context=x.flip(1)" in finding.evidence
    assert repr(report).startswith("MultiHeadAttention: it could not be examined.")


def test_products_with_a_matrix_made_of_parameters_are_no_memory():
    class LowRank(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Parameter(torch.randn(D_IN, 2)), nn.Parameter(torch.randn(2, D_OUT))

        def forward(self, x):
            return x @ (self.down @ self.up)

    (finding,) = diagnose(LowRank(), some_x()).findings
    assert finding.evidence == "no product compares one token with another"


# --- what can't be run on x alone ---


class NeedsACache(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = MultiHeadAttention(D_IN, D_OUT, HEADS)

    def forward(self, x, past_key_values):
        return self.inner(x, cache=past_key_values)


class NeedsPositions(NeedsACache):
    def forward(self, x, start_pos, freqs):
        return self.inner(x)


def test_missing_arguments_are_told_with_what_to_do():
    (finding,) = diagnose(NeedsACache(), some_x()).findings
    assert finding.evidence.startswith("TypeError: NeedsACache.forward() missing 1 required positional argument")
    assert finding.evidence.endswith(
        "; give `call`, a function of (code, x), to say how to run it, with a new cache each time"
    )
    (finding,) = diagnose(NeedsPositions(), some_x()).findings
    assert finding.evidence.endswith(
        "'start_pos' and 'freqs'; give `call`, a function of (code, x), to say how to run it"
    )
    (finding,) = diagnose(MultiHeadAttention, some_x()).findings
    assert finding.evidence.endswith("; it is a class: give an instance of it")


def test_an_argument_that_the_code_itself_forgets_is_told_with_its_line():
    class Forgets(NeedsACache):
        def forward(self, x):
            return self.helper(x)  # wrong

        def helper(self, x, more):
            return x

    (finding,) = diagnose(Forgets(), some_x()).findings
    assert {finding.where} == marked(Forgets) and "give `call`" not in finding.evidence


def test_a_cache_of_another_dtype_or_from_outside():
    module = MultiHeadAttention(D_IN, D_OUT, HEADS)

    def narrow(module, x):
        return module(x, cache=KVCache(len(x), HEADS, TOKENS, HEAD_DIM, dtype=torch.float32))

    report = diagnose(module, some_x(), num_heads=HEADS, call=narrow)
    assert report.mistakes == ("dtype-pinned",) and "the cache holds torch.float32" in report.findings[0].evidence
    outside = KVCache(BATCH, HEADS, 50 * TOKENS, HEAD_DIM, dtype=torch.float64)
    report = diagnose(module, some_x(), num_heads=HEADS, call=lambda m, x: m(x, cache=outside))
    assert report.mistakes == ("stale-cache",) and report.findings[0].where.startswith("kv_cache.py:")


# --- mistakes planted in the library's own classes ---


class NeverMoves(KVCache):
    def append(self, keys, values):
        length = self.length
        super().append(keys, values)
        found = self.keys, self.values
        self.length = length if length else self.length
        return found


class OnePlaceBack(KVCache):
    def append(self, keys, values):
        self.length = max(self.length - 1, 0)
        return super().append(keys, values)


class Planted(LlamaAttention):
    """The forward of the library, in parts that a mistake can be planted in."""

    def angles(self, batch, num_tokens, cache):
        start = 0 if cache is None else cache.length
        return rows_at_positions(self.cos, self.sin, batch, num_tokens, None, start)

    def rotated(self, queries, keys, values, cos, sin):
        return apply_rotary(queries, cos, sin), apply_rotary(keys, cos, sin), values

    def attended(self, queries, keys, values, keep):
        return self.run_kernel(queries, keys, values, keep)[0]

    def forward(self, x, cache=None):
        batch, num_tokens, _ = x.shape
        cos, sin = self.angles(batch, num_tokens, cache)
        parts = (part(x).unflatten(-1, (-1, self.head_dim)) for part in (self.q_proj, self.k_proj, self.v_proj))
        queries, keys, values = self.rotated(*(part.transpose(1, 2) for part in parts), cos, sin)
        if cache is not None:
            keys, values = cache.append(keys, values)
        return self.out_proj(self.attended(queries, keys, values, None).transpose(1, 2).flatten(2))


class RestartingAngles(Planted):
    def angles(self, batch, num_tokens, cache):
        positions = torch.arange(num_tokens, device=self.cos.device)  # wrong
        return rows_at_positions(self.cos, self.sin, batch, num_tokens, positions, 0)


class OnePositionForAll(Planted):
    def angles(self, batch, num_tokens, cache):
        positions = torch.zeros(num_tokens, dtype=torch.int64)  # wrong
        return rows_at_positions(self.cos, self.sin, batch, num_tokens, positions, 0)


class QueriesOnly(Planted):
    def rotated(self, queries, keys, values, cos, sin):
        return super().rotated(queries, keys, values, cos, sin)[0], keys, values


class KeysOnly(Planted):
    def rotated(self, queries, keys, values, cos, sin):
        return queries, super().rotated(queries, keys, values, cos, sin)[1], values


class ValuesToo(Planted):
    def rotated(self, queries, keys, values, cos, sin):
        return super().rotated(queries, keys, super().rotated(values, values, values, cos, sin)[0], cos, sin)


class TopLeft(Planted):
    def attended(self, queries, keys, values, keep):
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)  # wrong


class Tiled(Planted):
    def attended(self, queries, keys, values, keep):
        keys = keys.repeat(1, HEADS // 2, 1, 1)  # wrong
        values = values.repeat(1, HEADS // 2, 1, 1)  # wrong
        return self.run_kernel(queries, keys, values, keep)[0]


def llama(kind):
    return kind(D_IN, HEADS, num_kv_heads=2, head_dim=HEAD_DIM)


TOLD = {"num_heads": HEADS, "num_kv_heads": 2}
DECODED = {
    "the planted form, right": (Planted, KVCache, None),
    "length": (LlamaAttention, NeverMoves, "stale-cache"),
    "place": (LlamaAttention, OnePlaceBack, "stale-cache"),
    "angles": (RestartingAngles, KVCache, "positions-restart-in-cache"),
    "queries only": (QueriesOnly, KVCache, "rotary-unused"),
    "keys only": (KeysOnly, KVCache, "rotary-unused"),
    "values too": (ValuesToo, KVCache, "rotary-on-values"),
    "top left": (TopLeft, KVCache, "causal-top-left"),
    "tiled": (Tiled, KVCache, "kv-heads-tiled"),
}


@pytest.mark.parametrize("name", DECODED)
def test_a_mistake_in_the_library_is_named_while_it_writes(name):
    kind, cache, mistake = DECODED[name]
    report = diagnose(llama(kind), some_x(), call=word_by_word(2, cache), **TOLD)
    assert report.mistakes == (() if mistake is None else (mistake,)), report
    lines = [line for line in (kind, cache) if line in (RestartingAngles, TopLeft, Tiled)]
    for line in lines:
        assert report.findings[0].where in marked(line), report


@pytest.mark.parametrize("kind", [QueriesOnly, KeysOnly, OnePositionForAll])
def test_positions_that_reach_one_side_or_nobody(kind):
    report = diagnose(llama(kind), some_x(), **TOLD)
    assert report.mistakes == ("rotary-unused",), report
    assert report.findings[0].evidence.startswith("with the same token everywhere, ")
    told = {
        QueriesOnly: "the queries differ from position to position and the keys do not",
        KeysOnly: "the keys differ",
    }
    assert told.get(kind, "queries and keys are the same in every position") in report.findings[0].evidence
    if kind is OnePositionForAll:
        assert {report.findings[0].where} == marked(OnePositionForAll)


@pytest.mark.parametrize(
    ("kind", "mistake"), [(RestartingAngles, "positions-restart-in-cache"), (TopLeft, "causal-top-left")]
)
def test_what_shows_in_pieces_alone_is_found_without_a_call(kind, mistake):
    assert diagnose(llama(kind), some_x(), **TOLD).mistakes == (mistake,)


# --- positions that are no mistake ---


class PositionsOnKeys(nn.Module):
    """Sines and cosines are added to the keys alone."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))

    def forward(self, x):
        at = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None]
        rate = 0.3 ** torch.arange(HEAD_DIM // 2, device=x.device, dtype=x.dtype)
        waves = torch.cat([(at * rate).sin(), (2 * at * rate).cos()], dim=-1)
        queries, keys, values = self.q(x), self.k(x) + waves, self.v(x)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (queries @ keys.mT / math.sqrt(HEAD_DIM)).masked_fill(hidden, -torch.inf)
        return scores.softmax(dim=-1) @ values


class NamedLikeATable(nn.Module):
    """A buffer whose name holds "cis", and which turns nothing."""

    def __init__(self):
        super().__init__()
        self.inner = MultiHeadAttention(D_IN, D_OUT, HEADS)
        self.register_buffer("precision", torch.rand(1, D_IN) + 0.5)

    def forward(self, x):
        return self.inner(x * self.precision)


@pytest.mark.parametrize("kind", [PositionsOnKeys, NamedLikeATable])
def test_added_positions_and_other_buffers_are_no_mistake(kind):
    report = diagnose(kind(), some_x())
    assert report.ok, report


# --- shares that no token gets ---


class Shares(nn.Module):
    """A head whose weights don't sum to 1."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))

    def parts(self, x):
        return self.q(x) * HEAD_DIM**-0.5, self.k(x), self.v(x)

    def hidden(self, x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)


class Sink(Shares):
    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        queries, keys, values = self.parts(x)
        scores = (queries @ keys.mT).masked_fill(self.hidden(x), -torch.inf)
        scores = torch.cat([scores, self.sink.expand(*scores.shape[:2], 1)], dim=-1)
        return scores.softmax(dim=-1)[..., :-1] @ values


class Prefix(Shares):
    def __init__(self):
        super().__init__()
        self.prefix = nn.Parameter(torch.randn(2, 2, HEAD_DIM))

    def forward(self, x):
        queries, keys, values = self.parts(x)
        keys, values = (
            torch.cat([p.expand(len(x), -1, -1), t], 1) for p, t in zip(self.prefix, (keys, values), strict=True)
        )
        scores = queries @ keys.mT
        scores[..., 2:] = scores[..., 2:].masked_fill(self.hidden(x), -torch.inf)
        return scores.softmax(dim=-1) @ values


class Memory(Shares):
    """Tokens of an earlier segment, in front of those of x, projected with them or by themselves."""

    def __init__(self, together, most=math.inf):
        super().__init__()
        self.together, self.most = together, most

    def forward(self, x):
        memory = torch.randn(2, D_IN, generator=torch.Generator().manual_seed(3)).to(x).expand(len(x), -1, -1)
        queries, keys, values = self.parts(x)
        if self.together:
            _, keys, values = self.parts(torch.cat([memory, x], dim=1))
        else:
            _, *others = self.parts(memory)
            keys, values = (torch.cat(both, dim=1) for both in zip(others, (keys, values), strict=True))
        scores = queries @ keys.mT
        scores[..., 2:] = scores[..., 2:].masked_fill(self.hidden(x), -torch.inf)
        return scores.softmax(dim=-1).clamp(max=self.most) @ values


class EmptySlots(Shares):
    def forward(self, x):
        queries, keys, values = self.parts(x)
        keys, values = (F.pad(t, (0, 0, 0, 2)) for t in (keys, values))
        hidden = F.pad(self.hidden(x), (0, 2))
        return (queries @ keys.mT).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values


class GrowingSink(Sink):
    def forward(self, x):
        queries, keys, values = self.parts(x)
        scores = (queries @ keys.mT).masked_fill(self.hidden(x), -torch.inf)
        at = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
        scores = torch.cat([scores, (self.sink * at)[:, None].expand(len(x), -1, 1)], dim=-1)
        return scores.softmax(dim=-1)[..., :-1] @ values


def test_a_sink_and_a_prefix_are_no_mistake_and_are_mentioned():
    report = diagnose(Sink(), some_x())
    assert report.ok, report
    assert "each head keeps part of its weights for no token" in report.checked[1]
    report = diagnose(Prefix(), some_x())
    assert report.ok, report
    assert report.checked[1].startswith("each query's weights and those of learned keys, or of a memory's, sum to 1")


@pytest.mark.parametrize("together", [True, False])
def test_the_keys_of_a_memory_complete_the_rows(together):
    report = diagnose(Memory(together), some_x())
    assert report.ok and "of a memory's, sum to 1" in report.checked[1], report
    (finding,) = diagnose(Memory(together, most=0.3), some_x()).findings
    assert "don't sum to 1" in finding.title


@pytest.mark.parametrize("kind", [EmptySlots, GrowingSink])
def test_slots_that_nobody_filled_are_no_sink(kind):
    (finding,) = diagnose(kind(), some_x()).findings
    assert finding.mistake is None and "don't sum to 1" in finding.title


# --- what outlasts a call ---

KEPT = []


class ListAsDefault(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))

    def forward(self, x, past=[]):  # noqa: B006
        past.append((self.k(x), self.v(x)))
        keys, values = (torch.cat(parts, dim=1) for parts in zip(*past, strict=True))  # wrong
        hidden = torch.ones(x.shape[1], keys.shape[1], dtype=torch.bool, device=x.device)
        scores = self.q(x) @ keys.mT / math.sqrt(HEAD_DIM)
        return scores.masked_fill(hidden.triu(1 + keys.shape[1] - x.shape[1]), -torch.inf).softmax(dim=-1) @ values


def test_what_even_a_fresh_copy_starts_with_is_named_alone():
    report = diagnose(ListAsDefault(), some_x())
    assert report.mistakes == ("stale-cache",), report
    assert {report.findings[0].where} == marked(ListAsDefault)


def test_a_function_that_keeps_keys_in_a_list_around_it():
    weights = [torch.randn(D_IN, HEAD_DIM, generator=torch.Generator().manual_seed(3)) for _ in range(3)]

    def attention(x):
        queries, keys, values = (x @ weight for weight in weights)
        KEPT.append(keys.mean())
        scores = queries @ keys.mT / math.sqrt(HEAD_DIM) * (1 + 0.1 * len(KEPT))  # wrong
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values

    KEPT.clear()
    assert "stale-cache" in diagnose(attention, some_x()).mistakes


class KeepsItsCache(ListAsDefault):
    """Its own cache grows with every call, and knows for how many samples."""

    past = None

    def forward(self, x):
        keys, values = self.k(x), self.v(x)
        if self.past is not None:
            keys, values = (torch.cat(parts, dim=1) for parts in zip(self.past, (keys, values), strict=True))  # wrong
        self.past = (keys, values)
        hidden = torch.ones(x.shape[1], keys.shape[1], dtype=torch.bool, device=x.device)
        scores = self.q(x) @ keys.mT / math.sqrt(HEAD_DIM)
        return scores.masked_fill(hidden.triu(1 + keys.shape[1] - x.shape[1]), -torch.inf).softmax(dim=-1) @ values


def test_a_module_that_keeps_its_cache_takes_other_batches():
    report = diagnose(KeepsItsCache(), some_x())
    assert report.mistakes == ("stale-cache",), report  # and no fixed-batch
    assert {report.findings[0].where} == marked(KeepsItsCache)


class TwoCaches(nn.Module):
    """A score is a product with a key and one with a further, shared part of it; each has a cache."""

    def __init__(self, fault):
        super().__init__()
        torch.manual_seed(3)
        self.q, self.q_shared = nn.Linear(D_IN, HEADS * HEAD_DIM), nn.Linear(D_IN, HEADS * 2)
        self.kv, self.k_shared, self.out = nn.Linear(D_IN, 10), nn.Linear(D_IN, 2), nn.Linear(HEADS * 4, D_IN)
        self.fault = fault

    def forward(self, x, caches, start):
        end = start + x.shape[1]
        caches[0][:, start:end] = self.kv(x)
        caches[1][:, 0 if self.fault else start :][:, : x.shape[1]] = self.k_shared(x)  # wrong
        q, q_shared = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q, self.q_shared))
        k, v = caches[0][:, None, :end].split([HEAD_DIM, 4], dim=-1)
        scores = (q @ k.mT + q_shared @ caches[1][:, None, :end].mT) * (HEAD_DIM + 2) ** -0.5
        hidden = torch.ones(end, end, dtype=torch.bool, device=x.device).triu(1)[start:]
        return self.out((scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


def with_two_caches(code, x):
    caches = x.new_zeros(len(x), 2 * TOKENS, 10), x.new_zeros(len(x), 2 * TOKENS, 2)
    rows = [code(x[:, :PROMPT], caches, 0)]
    rows += [code(x[:, t : t + 1], caches, t) for t in range(PROMPT, x.shape[1])]
    return torch.cat(rows, dim=1)


def test_each_product_of_a_score_is_with_the_key_of_the_same_token():
    told = {"num_heads": HEADS, "num_kv_heads": 1, "scale": (HEAD_DIM + 2) ** -0.5, "call": with_two_caches}
    assert diagnose(TwoCaches(fault=False), some_x(), **told).ok
    report = diagnose(TwoCaches(fault=True), some_x(), **told)
    assert report.mistakes == ("stale-cache",) and {report.findings[0].where} == marked(TwoCaches), report
    assert "the score of query 3 and the key of token 0 adds a product with token 3" in report.findings[0].evidence


# --- devices, dropout, biases ---


class Moves(nn.Module):
    """Makes its mask on the CPU and moves it, or forgets to take what was moved."""

    def __init__(self, takes):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))
        self.takes = takes

    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1) > 0  # wrong
        moved = hidden.to(x.device)
        scores = self.q(x) @ self.k(x).mT / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(moved if self.takes else hidden, -torch.inf)
        return scores.softmax(dim=-1) @ self.v(x)


def test_a_tensor_that_is_moved_to_where_it_is():
    assert diagnose(Moves(True), some_x()).ok
    report = diagnose(Moves(False), some_x())
    assert report.mistakes == ("device-pinned",) and {report.findings[0].where} == marked(Moves)


class TimesOne(nn.Module):
    """Scores are multiplied by 1.0, as libraries do whose queries were scaled before."""

    def __init__(self, early):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))
        self.drop, self.early = nn.Dropout(0.3), early

    def forward(self, x):
        scores = (self.q(x) * HEAD_DIM**-0.5) @ self.k(x).mT * 1.0
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = self.drop(scores) if self.early else scores  # wrong
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return (weights if self.early else self.drop(weights)) @ self.v(x)


def test_a_product_with_one_is_no_dropout():
    assert diagnose(TimesOne(False), some_x()).ok
    report = diagnose(TimesOne(True), some_x())
    assert report.mistakes == ("dropout-before-softmax",) and {report.findings[0].where} == marked(TimesOne)


@pytest.mark.parametrize(("bias", "mistakes"), [(causal_lower_right, ()), (causal_upper_left, ("causal-top-left",))])
def test_the_biases_of_torch_can_be_watched_and_stay_as_they_were(bias, mistakes):
    module = sys.modules["torch.nn.attention.bias"]

    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))

        def forward(self, x, memory):
            queries, keys, values = (part[:, None] for part in (self.q(x), self.k(memory), self.v(memory)))
            return F.scaled_dot_product_attention(queries, keys, values, bias(queries.shape[2], keys.shape[2]))[:, 0]

    def call(code, x):
        return torch.cat([code(x[:, :2], x[:, :2]), code(x[:, 2:], x)], dim=1)

    assert diagnose(Biased(), some_x(), call=call).mistakes == mistakes
    assert "__new__" not in vars(module.CausalBias)
    assert type(bias(2, 3)) is module.CausalBias
