"""The doctor on caches, memories and positions: the library's own classes, and each with a mistake planted in it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    KVCache,
    LlamaAttention,
    MultiHeadAttention,
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


# --- what outlasts a call ---


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
