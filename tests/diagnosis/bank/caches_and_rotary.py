"""Caches, rotary positions and shared heads as people write them at work: right ones first, then the wrong ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from course_lib.attention import (
    KVCache,
    LlamaAttention,
)

from .case import collector, some_x

try:
    import transformers
except ImportError:  # it belongs to the tests' packages, not to the course's
    transformers = None

CASES, case = collector()


def turn(t, at, base=10000.0):
    """Rotary positions for (..., token, width), the halves of a head in pairs."""
    half = t.shape[-1] // 2
    rate = base ** (-torch.arange(half, device=t.device, dtype=torch.float32) / half)
    angle = at.float()[..., None] * rate
    cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
    a, b = t.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def prompt_then_tokens(step, x, prompt=3):
    """The prompt at once, then one token after the other: step(tokens, place of the first) -> rows of the output."""
    rows = [step(x[:, :prompt], 0)]
    rows += [step(x[:, t : t + 1], t) for t in range(prompt, x.shape[1])]
    return torch.cat(rows, dim=1)


# ------------------------------------------------------------------------------------------------ the course's classes


@case(None)
def course_llama_padded_on_the_left():
    torch.manual_seed(5)
    real = torch.ones(3, 6, dtype=torch.bool)
    real[1, :2] = real[2, :1] = False

    def call(m, x):
        places = (real.cumsum(1) - 1).clamp(min=0).to(x.device)
        return m(x, positions=places, keep=real[:, None, None].to(x.device))

    module = LlamaAttention(16, num_heads=4, num_kv_heads=1)
    return module, some_x(3, 6, 16), {"num_heads": 4, "num_kv_heads": 1, "keep": real[:, None, None], "call": call}


# ------------------------------------------------------------------------------------------------ caches


@case(None)
def static_cache_with_rows_of_a_mask():
    torch.manual_seed(11)

    class Static(nn.Module):
        def __init__(self, b, kv, slots, d, like):
            super().__init__()
            self.register_buffer("k", like.new_zeros(b, kv, slots, d), persistent=False)
            self.register_buffer("v", like.new_zeros(b, kv, slots, d), persistent=False)

        def update(self, input_pos, k, v):
            self.k[:, :, input_pos] = k
            self.v[:, :, input_pos] = v
            return self.k, self.v

    class Attention(nn.Module):
        def __init__(self, dim, h, kv, d, slots=16):
            super().__init__()
            self.h, self.kv, self.d, self.slots, self.kv_cache = h, kv, d, slots, None
            self.wqkv, self.wo = nn.Linear(dim, (h + 2 * kv) * d, bias=False), nn.Linear(h * d, dim, bias=False)
            angle = torch.outer(torch.arange(slots), 10000.0 ** (-torch.arange(0, d, 2) / d))
            self.register_buffer("freqs_cis", torch.stack((angle.cos(), angle.sin()), -1), persistent=False)
            self.register_buffer("causal_mask", torch.ones(slots, slots, dtype=torch.bool).tril(), persistent=False)

        def rotate(self, t, freqs):
            pairs, freqs = t.unflatten(-1, (-1, 2)), freqs[None, :, None]
            real = pairs[..., 0] * freqs[..., 0] - pairs[..., 1] * freqs[..., 1]
            return torch.stack((real, pairs[..., 1] * freqs[..., 0] + pairs[..., 0] * freqs[..., 1]), -1).flatten(3)

        def forward(self, x, input_pos):
            b, n, _ = x.shape
            q, k, v = self.wqkv(x).split([self.h * self.d, self.kv * self.d, self.kv * self.d], dim=-1)
            q, k, v = (t.view(b, n, -1, self.d) for t in (q, k, v))
            freqs = self.freqs_cis[input_pos]
            q, k, v = (t.transpose(1, 2) for t in (self.rotate(q, freqs), self.rotate(k, freqs), v))
            k, v = self.kv_cache.update(input_pos, k, v)
            k, v = (t.repeat_interleave(self.h // self.kv, dim=1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.causal_mask[None, None, input_pos])
            return self.wo(y.transpose(1, 2).reshape(b, n, -1))

    def generate(m, x):
        m.kv_cache = Static(len(x), m.kv, m.slots, m.d, x)
        at = torch.arange(x.shape[1], device=x.device)
        return prompt_then_tokens(lambda tokens, start: m(tokens, at[start : start + tokens.shape[1]]), x)

    return Attention(13, 4, 2, 6), some_x(2, 7, 13), {"num_heads": 4, "num_kv_heads": 2, "call": generate}


@case(None)
def complex_rotary_and_a_start_position():
    torch.manual_seed(12)

    def apply_rotary_emb(xq, xk, freqs_cis):
        xq_, xk_ = (torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2)) for t in (xq, xk))
        freqs_cis = freqs_cis[None, :, None]
        xq_out, xk_out = (torch.view_as_real(t * freqs_cis).flatten(3) for t in (xq_, xk_))
        return xq_out.type_as(xq), xk_out.type_as(xk)

    def repeat_kv(t, n_rep):
        b, s, kv, d = t.shape
        return t[:, :, :, None, :].expand(b, s, kv, n_rep, d).reshape(b, s, kv * n_rep, d)

    class Attention(nn.Module):
        def __init__(self, dim, n_heads, n_kv_heads, head_dim, max_batch=32, max_len=24):
            super().__init__()
            self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv_heads, head_dim
            self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)
            self.cache_k = torch.zeros(max_batch, max_len, n_kv_heads, head_dim)
            self.cache_v = torch.zeros(max_batch, max_len, n_kv_heads, head_dim)

        def forward(self, x, start_pos, freqs_cis, mask):
            bsz, seqlen, _ = x.shape
            xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
            xk, xv = (w(x).view(bsz, seqlen, self.n_kv, self.head_dim) for w in (self.wk, self.wv))
            xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)
            self.cache_k, self.cache_v = self.cache_k.to(xq), self.cache_v.to(xq)
            self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
            self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
            keys = repeat_kv(self.cache_k[:bsz, : start_pos + seqlen], self.n_heads // self.n_kv).transpose(1, 2)
            values = repeat_kv(self.cache_v[:bsz, : start_pos + seqlen], self.n_heads // self.n_kv).transpose(1, 2)
            scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
            if mask is not None:
                scores = scores + mask
            scores = F.softmax(scores.float(), dim=-1).type_as(xq)
            return self.wo(torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1))

    def step(m, tokens, start):
        n, d = tokens.shape[1], m.head_dim
        angle = torch.outer(torch.arange(start, start + n).float(), 10000.0 ** (-torch.arange(0, d, 2) / d))
        freqs, mask = torch.polar(torch.ones_like(angle), angle).to(tokens.device), None
        if n > 1:
            mask = torch.full((n, n), float("-inf"), device=tokens.device).triu(1)
            mask = torch.hstack([torch.zeros((n, start), device=tokens.device), mask]).type_as(tokens)
        return m(tokens, start, freqs, mask)

    def call(m, x):
        return torch.cat([step(m, part, 2 * i) for i, part in enumerate(x.split(2, dim=1))], dim=1)

    return Attention(16, 6, 2, 4), some_x(2, 7, 16), {"num_heads": 6, "num_kv_heads": 2, "call": call}


if transformers is not None:

    @case(None)
    def library_llama_with_its_own_cache():
        from transformers.models.llama.modeling_llama import LlamaAttention as Theirs
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        config = transformers.LlamaConfig(
            hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=6, attn_implementation="sdpa"
        )
        torch.manual_seed(13)
        attention, rotary = Theirs(config, layer_idx=0).eval(), LlamaRotaryEmbedding(config)

        def call(m, x):
            cache = transformers.DynamicCache()

            def step(tokens, start):
                places = torch.arange(start, start + tokens.shape[1], device=x.device)[None]
                angles = rotary.to(x.device)(tokens, places)
                return m(tokens, angles, attention_mask=None, past_key_values=cache)[0]

            return prompt_then_tokens(step, x)

        return attention, some_x(2, 6, 24), {"num_heads": 4, "num_kv_heads": 2, "call": call}


@case(None)
def index_copy_into_a_buffer():
    torch.manual_seed(17)

    class Cached(nn.Module):
        def __init__(self, dim, h, d, slots=12):
            super().__init__()
            self.h, self.d, self.slots = h, d, slots
            self.qkv, self.out = nn.Linear(dim, 3 * h * d, bias=False), nn.Linear(h * d, dim + 3)

        def forward(self, x, cache_position):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
            q, k = turn(q, cache_position), turn(k, cache_position)
            if cache_position[0] == 0:
                self.k_cache = x.new_zeros(b, self.h, self.slots, self.d)
                self.v_cache = torch.zeros_like(self.k_cache)
            self.k_cache.index_copy_(2, cache_position, k)
            self.v_cache.index_copy_(2, cache_position, v)
            scores = torch.einsum("bhqd,bhkd->bhqk", q, self.k_cache) / self.d**0.5
            hidden = torch.arange(self.slots, device=x.device) > cache_position[:, None]
            p = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            return self.out(torch.einsum("bhqk,bhkd->bqhd", p, self.v_cache).flatten(2))

    def call(m, x):
        places = torch.arange(x.shape[1], device=x.device)
        return prompt_then_tokens(lambda tokens, start: m(tokens, places[start : start + tokens.shape[1]]), x, 4)

    return Cached(14, 3, 8), some_x(2, 7, 14), {"num_heads": 3, "call": call}


@case(None)
def pages_of_two_tokens():
    torch.manual_seed(18)
    size = 2

    class Paged(nn.Module):
        def __init__(self, dim, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q, self.kv_proj = nn.Linear(dim, h * d, bias=False), nn.Linear(dim, 2 * kv * d, bias=False)
            self.o = nn.Linear(h * d, dim, bias=False)

        def forward(self, token, pool, table, pos):
            b = len(token)
            q = self.q(token).view(b, self.kv, self.h // self.kv, self.d)
            pool[table[:, pos // size], pos % size] = self.kv_proj(token).view(b, 2, self.kv, self.d)
            k, v = pool[table].flatten(1, 2)[:, : pos + 1].unbind(2)
            s = torch.einsum("bgrd,bkgd->bgrk", q, k) / math.sqrt(self.d)
            return self.o(torch.einsum("bgrk,bkgd->bgrd", s.softmax(-1), v).reshape(b, 1, -1))

    def call(m, x):
        pages = math.ceil(x.shape[1] / size)
        table = torch.arange(len(x) * pages, device=x.device).flip(0).view(len(x), pages)
        pool = x.new_zeros(len(x) * pages, size, 2, m.kv, m.d)
        return torch.cat([m(x[:, t : t + 1], pool, table, t) for t in range(x.shape[1])], dim=1)

    return Paged(10, 6, 2, 5), some_x(3, 5, 10), {"num_heads": 6, "num_kv_heads": 2, "call": call}


@case(None)
def batch_padded_on_the_left_while_decoding():
    torch.manual_seed(22)
    real = torch.ones(3, 7, dtype=torch.bool)
    real[1, :3] = real[2, :1] = False

    class Attention(nn.Module):
        def __init__(self, hidden, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, heads * d, bias=False) for _ in range(3))
            self.o_proj = nn.Linear(heads * d, hidden, bias=False)

        def forward(self, x, attention_mask, position_ids, past):
            b, n, _ = x.shape
            q, k, v = (p(x).view(b, n, self.heads, self.d) for p in (self.q_proj, self.k_proj, self.v_proj))
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            q, k = turn(q, position_ids[:, None]), turn(k, position_ids[:, None])
            past.append((k, v))
            k, v = (torch.cat(parts, dim=2) for parts in zip(*past, strict=True))
            at = torch.arange(k.shape[2], device=x.device)
            mask = (at <= at[-n:, None]) & attention_mask[:, None, None, : k.shape[2]]
            bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device)
            bias = bias.masked_fill(~mask, torch.finfo(x.dtype).min)
            w = q @ k.mT / math.sqrt(self.d) + bias
            return self.o_proj((w.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))

    def call(m, x):
        mask, past = real.to(x.device), []
        places = (mask.long().cumsum(-1) - 1).masked_fill(~mask, 1)
        return prompt_then_tokens(
            lambda tokens, start: m(tokens, mask, places[:, start : start + tokens.shape[1]], past), x, prompt=4
        )

    return Attention(10, 4, 6), some_x(3, 7, 10), {"num_heads": 4, "keep": real[:, None, None], "call": call}


@case(None)
def torch_bias_for_the_lower_right():
    torch.manual_seed(23)

    class Attention(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.in_proj, self.out_proj = nn.Linear(d_in, 3 * heads * d), nn.Linear(heads * d, d_in)

        def forward(self, x, cache):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, -1))
            cache["k"] = k = torch.cat((cache["k"], k), 2) if "k" in cache else k
            cache["v"] = v = torch.cat((cache["v"], v), 2) if "v" in cache else v
            bias = causal_lower_right(q.shape[2], k.shape[2])
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            return self.out_proj(y.transpose(1, 2).flatten(2))

    def call(m, x):
        cache = {}
        return torch.cat([m(part, cache) for part in x.split(3, dim=1)], dim=1)

    return Attention(8, 2, 6), some_x(2, 7, 8), {"num_heads": 2, "call": call}


# ------------------------------------------------------------------------------------------------ positions


@case(None)
def every_two_turned():
    torch.manual_seed(32)

    def rotate_every_two(t):
        return torch.stack((-t[..., 1::2], t[..., ::2]), dim=-1).flatten(-2)

    class GPTJ(nn.Module):
        def __init__(self, embed, heads, d, rotary_dim, max_positions=32):
            super().__init__()
            self.heads, self.d, self.rotary_dim = heads, d, rotary_dim
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embed, heads * d, bias=False) for _ in range(3))
            self.out_proj = nn.Linear(heads * d, embed, bias=False)
            inv_freq = 1.0 / (10000 ** (torch.arange(0, rotary_dim, 2) / rotary_dim))
            angle = torch.einsum("i,j->ij", torch.arange(max_positions).float(), inv_freq)
            self.register_buffer("embed_positions", torch.cat((angle.sin(), angle.cos()), dim=1), persistent=False)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (p(x).view(b, n, self.heads, self.d) for p in (self.q_proj, self.k_proj, self.v_proj))
            sin, cos = self.embed_positions[:n].repeat_interleave(2, dim=1)[:, None].view(n, 1, 2, -1).unbind(2)
            r = self.rotary_dim
            q, k = (torch.cat((t[..., :r] * cos + rotate_every_two(t[..., :r]) * sin, t[..., r:]), -1) for t in (q, k))
            q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
            keep = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
            w = torch.where(keep, torch.matmul(q, k.mT) / self.d**0.5, torch.finfo(q.dtype).min).softmax(-1)
            return self.out_proj((w @ v).permute(0, 2, 1, 3).reshape(b, n, -1))

    return GPTJ(13, 2, 8, 4), some_x(3, 5, 13), {"num_heads": 2}


@case(None)
def norms_of_heads_before_they_are_turned():
    torch.manual_seed(35)

    class Qwen(nn.Module):
        def __init__(self, hidden, heads, kv, d):
            super().__init__()
            self.d, self.rep = d, heads // kv
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, n * d, bias=False) for n in (heads, kv, kv))
            self.o_proj = nn.Linear(heads * d, hidden, bias=False)
            self.q_norm, self.k_norm = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)

        def forward(self, x, past=None):
            shape = (*x.shape[:2], -1, self.d)
            q = self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2)
            k = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
            v = self.v_proj(x).view(shape).transpose(1, 2)
            start = past[0].shape[2] if past else 0
            at = torch.arange(start, start + x.shape[1], device=x.device)
            q, k = turn(q, at, 1e6), turn(k, at, 1e6)
            if past:
                k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
            keys, values = k.repeat_interleave(self.rep, dim=1), v.repeat_interleave(self.rep, dim=1)
            hidden = torch.arange(k.shape[2], device=x.device) > at[:, None]
            w = (q @ keys.mT * self.d**-0.5).masked_fill(hidden, torch.finfo(q.dtype).min).softmax(-1)
            return self.o_proj((w @ values).transpose(1, 2).reshape(*x.shape[:2], -1)), (k, v)

    def call(m, x):
        rows, past = [], None
        for token in x.split(1, dim=1):
            y, past = m(token, past)
            rows.append(y)
        return torch.cat(rows, dim=1)

    return Qwen(18, 6, 2, 8), some_x(2, 5, 18), {"num_heads": 6, "num_kv_heads": 2, "call": call}


@case(None)
def scores_capped_after_rotary():
    torch.manual_seed(36)

    class Gemma(nn.Module):
        def __init__(self, hidden, heads, kv, d, cap=20.0):
            super().__init__()
            self.d, self.rep, self.cap = d, heads // kv, cap
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, n * d, bias=False) for n in (heads, kv, kv))
            self.o_proj = nn.Linear(heads * d, hidden, bias=False)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (p(x).view(b, n, -1, self.d).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            at = torch.arange(n, device=x.device)
            q, k = turn(q, at), turn(k, at)
            k, v = (t.repeat_interleave(self.rep, dim=1) for t in (k, v))
            scores = torch.matmul(q * self.d**-0.5, k.transpose(2, 3))
            scores = torch.tanh(scores / self.cap) * self.cap
            scores = scores + torch.full((n, n), -torch.inf, device=x.device, dtype=x.dtype).triu(1)
            weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
            return self.o_proj((weights @ v).transpose(1, 2).reshape(b, n, -1))

    return Gemma(12, 4, 2, 10), some_x(3, 6, 12), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def a_sink_for_every_head():
    torch.manual_seed(37)

    class Sinks(nn.Module):
        def __init__(self, hidden, heads, kv, d):
            super().__init__()
            self.heads, self.kv, self.d = heads, kv, d
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, n * d) for n in (heads, kv, kv))
            self.o_proj, self.sinks = nn.Linear(heads * d, hidden), nn.Parameter(torch.randn(heads))

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (p(x).view(b, n, -1, self.d).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            at = torch.arange(n, device=x.device)
            q, k = turn(q, at), turn(k, at)
            k, v = (t.repeat_interleave(self.heads // self.kv, dim=1) for t in (k, v))
            logits = torch.matmul(q, k.mT) * self.d**-0.5
            logits = logits.masked_fill(at > at[:, None], torch.finfo(x.dtype).min)
            logits = torch.cat([logits, self.sinks.view(1, -1, 1, 1).expand(b, -1, n, -1)], dim=-1)
            logits = logits - logits.max(dim=-1, keepdim=True).values
            weights = F.softmax(logits, dim=-1, dtype=logits.dtype)[..., :-1]  # what the sink got is dropped
            return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(b, n, -1))

    return Sinks(14, 4, 2, 6), some_x(2, 5, 14), {"num_heads": 4, "num_kv_heads": 2}


@case(None)
def one_more_in_the_sum():
    torch.manual_seed(38)

    def quiet_softmax(scores):
        top = scores.amax(-1, keepdim=True).clamp(min=0)
        e = (scores - top).exp()
        return e / (e.sum(-1, keepdim=True) + (-top).exp())  # a head may also look at nothing

    class Quiet(nn.Module):
        def __init__(self, d_in, d_out, heads):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = (nn.Linear(n, d_out, bias=False) for n in (d_in, d_in, d_in, d_out))

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            at = torch.arange(x.shape[1], device=x.device)
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(at > at[:, None], -torch.inf)
            return self.o((quiet_softmax(scores) @ v).transpose(1, 2).flatten(2))

    return Quiet(11, 18, 3), some_x(3, 6, 11), {"num_heads": 3}


@case(None)
def a_temperature_for_every_head():
    torch.manual_seed(40)

    class Cosine(nn.Module):
        def __init__(self, dim, heads, d):
            super().__init__()
            self.heads = heads
            self.to_qkv, self.to_out = nn.Linear(dim, 3 * heads * d, bias=False), nn.Linear(heads * d, dim)
            self.logit_scale = nn.Parameter(torch.linspace(1.0, 2.5, heads))

        def forward(self, x, cache):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
            start = cache[0].shape[2] if cache else 0
            at = torch.arange(start, start + x.shape[1], device=x.device)
            q, k = turn(F.normalize(q, dim=-1), at), turn(F.normalize(k, dim=-1), at)
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = k, v
            sim = q @ k.mT * self.logit_scale.clamp(max=math.log(100)).exp()[:, None, None]
            sim = sim.masked_fill(torch.arange(k.shape[2], device=x.device) > at[:, None], -torch.finfo(sim.dtype).max)
            return self.to_out((sim.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def call(m, x):
        cache = []
        return prompt_then_tokens(lambda tokens, start: m(tokens, cache), x)

    return Cosine(10, 3, 8), some_x(2, 6, 10), {"num_heads": 3, "call": call}


@case(None)
def latent_keys_and_one_turned_part_for_all():
    torch.manual_seed(41)

    class Latent(nn.Module):
        def __init__(self, dim, heads, nope, rope, value, rank):
            super().__init__()
            self.heads, self.nope, self.rope, self.value, self.rank = heads, nope, rope, value, rank
            self.q_proj = nn.Linear(dim, heads * (nope + rope), bias=False)
            self.kv_a_proj = nn.Linear(dim, rank + rope, bias=False)
            self.kv_norm = nn.RMSNorm(rank)
            self.kv_b_proj = nn.Linear(rank, heads * (nope + value), bias=False)
            self.o_proj = nn.Linear(heads * value, dim, bias=False)

        def forward(self, x, past=None):
            b, n, _ = x.shape
            q = self.q_proj(x).view(b, n, self.heads, -1).transpose(1, 2)
            q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
            latent, k_rope = self.kv_a_proj(x).split([self.rank, self.rope], dim=-1)
            start = past[0].shape[1] if past is not None else 0
            at = torch.arange(start, start + n, device=x.device)
            q_rope, k_rope = turn(q_rope, at), turn(k_rope, at)
            latent = self.kv_norm(latent)
            if past is not None:
                latent, k_rope = torch.cat((past[0], latent), 1), torch.cat((past[1], k_rope), 1)
            kv = self.kv_b_proj(latent).view(b, -1, self.heads, self.nope + self.value).transpose(1, 2)
            k_nope, v = kv.split([self.nope, self.value], dim=-1)
            k = torch.cat((k_nope, k_rope[:, None].expand(-1, self.heads, -1, -1)), dim=-1)
            scores = torch.cat((q_nope, q_rope), dim=-1) @ k.mT * (self.nope + self.rope) ** -0.5
            hidden = torch.arange(k.shape[2], device=x.device) > at[:, None]
            weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            return self.o_proj((weights @ v).transpose(1, 2).flatten(2)), (latent, k_rope)

    def call(m, x):
        first, past = m(x[:, :4])
        return torch.cat((first, m(x[:, 4:], past)[0]), 1) if x.shape[1] > 4 else first

    return Latent(16, 3, 6, 4, 5, 7), some_x(2, 6, 16), {"num_heads": 3, "call": call}


@case(None)
def documents_that_each_begin_at_zero():
    torch.manual_seed(42)
    document = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    places = torch.tensor([0, 1, 2, 0, 1, 2, 3])
    same = document == document[:, None]

    class Packed(nn.Module):
        def __init__(self, hidden, heads, d):
            super().__init__()
            self.heads = heads
            self.qkv, self.o = nn.Linear(hidden, 3 * heads * d, bias=False), nn.Linear(heads * d, hidden)

        def forward(self, x, position_ids, seq_id):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            q, k = turn(q, position_ids), turn(k, position_ids)
            at = torch.arange(x.shape[1], device=x.device)
            keep = (seq_id == seq_id[:, None]) & (at <= at[:, None])
            return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))

    def call(m, x):
        return m(x, places.to(x.device), document.to(x.device))

    return Packed(12, 2, 8), some_x(3, 7, 12), {"num_heads": 2, "keep": same, "call": call}


@case(None)
def longer_texts_by_scaled_angles():
    torch.manual_seed(44)

    class Yarn(nn.Module):
        def __init__(self, hidden, heads, d, factor=4.0):
            super().__init__()
            self.heads, self.d = heads, d
            self.wqkv, self.wo = nn.Linear(hidden, 3 * heads * d, bias=False), nn.Linear(heads * d, hidden, bias=False)
            plain = 10000.0 ** (-torch.arange(0, d, 2) / d)
            ramp = torch.linspace(0, 1, d // 2)
            self.register_buffer("inv_freq", plain * (1 - ramp) + plain / factor * ramp, persistent=False)
            self.attention_scaling = 0.1 * math.log(factor) + 1.0

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.wqkv(x).view(b, n, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
            freqs = torch.arange(n, device=x.device, dtype=self.inv_freq.dtype)[:, None] * self.inv_freq
            emb = torch.cat((freqs, freqs), dim=-1)
            cos, sin = emb.cos() * self.attention_scaling, emb.sin() * self.attention_scaling
            q, k = (t * cos + torch.cat((-t[..., self.d // 2 :], t[..., : self.d // 2]), -1) * sin for t in (q, k))
            return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    return Yarn(9, 4, 6), some_x(3, 5, 9), {"num_heads": 4}


# ------------------------------------------------------------------------------------------------ more right ones


@case(None)
def half_of_each_head_turned_in_pairs():
    torch.manual_seed(202)

    class GLM(nn.Module):
        def __init__(self, hidden, heads, groups, d):
            super().__init__()
            self.heads, self.groups, self.d = heads, groups, d
            self.query_key_value = nn.Linear(hidden, (heads + 2 * groups) * d)
            self.dense = nn.Linear(heads * d, hidden, bias=False)

        def rope_cache(self, n, like):
            rot = self.d // 2
            theta = 1.0 / 10000 ** (torch.arange(0, rot, 2, device=like.device, dtype=like.dtype) / rot)
            idx = torch.outer(torch.arange(n, device=like.device, dtype=like.dtype), theta)
            return torch.stack((idx.cos(), idx.sin()), dim=-1)

        def rotate(self, t, cache):
            rot, rest = t.chunk(2, dim=-1)
            pairs, cache = rot.unflatten(-1, (-1, 2)), cache[:, None]
            first = pairs[..., 0] * cache[..., 0] - pairs[..., 1] * cache[..., 1]
            second = pairs[..., 1] * cache[..., 0] + pairs[..., 0] * cache[..., 1]
            return torch.cat((torch.stack((first, second), -1).flatten(-2), rest), dim=-1)

        def forward(self, x, kv_cache=None):
            sizes = [self.heads * self.d, self.groups * self.d, self.groups * self.d]
            q, k, v = (t.unflatten(-1, (-1, self.d)) for t in self.query_key_value(x).split(sizes, dim=-1))
            start = 0 if kv_cache is None else kv_cache[0].shape[1]
            angles = self.rope_cache(start + x.shape[1], x)[start:]
            q, k = self.rotate(q, angles), self.rotate(k, angles)
            if kv_cache is not None:
                k, v = torch.cat((kv_cache[0], k), dim=1), torch.cat((kv_cache[1], v), dim=1)
            kv_cache = (k, v)
            k, v = (t.unsqueeze(3).expand(-1, -1, -1, self.heads // self.groups, -1).flatten(2, 3) for t in (k, v))
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            if q.shape[2] == k.shape[2]:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(start)
                y = F.scaled_dot_product_attention(q, k, v, keep)
            return self.dense(y.transpose(1, 2).flatten(2)), kv_cache

    def call(m, x):
        rows, past = [], None
        for part in x.split(3, dim=1):
            y, past = m(part, past)
            rows.append(y)
        return torch.cat(rows, dim=1)

    return GLM(13, 4, 2, 8), some_x(3, 7, 13), {"num_heads": 4, "num_kv_heads": 2, "call": call}


@case(None)
def queries_grow_with_the_text():
    torch.manual_seed(203)

    class LogN(nn.Module):
        def __init__(self, hidden, heads, trained=3):
            super().__init__()
            self.heads, self.trained = heads, trained
            self.c_attn, self.c_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden, bias=False)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, dim=-1))
            at = torch.arange(n, device=x.device)
            q, k = turn(q, at), turn(k, at)
            logn = torch.log(at + 1.0).div(math.log(self.trained)).clamp(min=1).to(q.dtype)
            q = q * logn[:, None]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(b, n, -1))

    return LogN(18, 3), some_x(2, 6, 18), {"num_heads": 3}


@case(None)
def buckets_of_distances_for_the_last_row():
    torch.manual_seed(204)

    class T5(nn.Module):
        def __init__(self, d_model, heads, d_kv, buckets=8):
            super().__init__()
            self.heads, self.d_kv, self.buckets = heads, d_kv, buckets
            self.q, self.k, self.v = (nn.Linear(d_model, heads * d_kv, bias=False) for _ in range(3))
            self.o = nn.Linear(heads * d_kv, d_model, bias=False)
            self.relative_attention_bias = nn.Embedding(buckets, heads)
            with torch.no_grad():
                self.q.weight.mul_(d_kv**-0.5)  # T5 has the scale in its weights

        def bias(self, n_q, n_k, device):
            context = torch.arange(n_k - n_q, n_k, device=device)[:, None]
            memory = torch.arange(n_k, device=device)
            values = self.relative_attention_bias((context - memory).clamp(0, self.buckets - 1))
            return values.permute(2, 0, 1).masked_fill(memory > context, -torch.inf)

        def forward(self, x, past):
            q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            if past:
                k, v = torch.cat([past["k"], k], dim=2), torch.cat([past["v"], v], dim=2)
            past.update(k=k, v=v)
            scores = torch.matmul(q, k.transpose(3, 2)) + self.bias(q.shape[2], k.shape[2], x.device)
            return self.o(torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2))

    def call(m, x):
        past = {}
        return prompt_then_tokens(lambda tokens, start: m(tokens, past), x)

    return T5(14, 2, 9), some_x(3, 6, 14), {"num_heads": 2, "call": call}


@case(None)
def learned_keys_in_front():
    torch.manual_seed(205)

    class Prefix(nn.Module):
        def __init__(self, hidden, heads, d, prefix=2):
            super().__init__()
            self.heads, self.d = heads, d
            self.qkv, self.o = nn.Linear(hidden, 3 * heads * d), nn.Linear(heads * d, hidden)
            self.prefix = nn.Parameter(torch.randn(2, heads, prefix, d))

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            pk, pv = self.prefix[:, None].expand(-1, len(x), -1, -1, -1)
            k, v = torch.cat((pk, k), dim=2), torch.cat((pv, v), dim=2)
            keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - q.shape[2])
            return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))

    return Prefix(11, 3, 5), some_x(2, 6, 11), {"num_heads": 3}


@case(None)
def static_slots_with_an_additive_mask():
    torch.manual_seed(206)

    class Static(nn.Module):
        def __init__(self, dim, h, kv, d, slots=12):
            super().__init__()
            self.h, self.kv, self.d, self.slots = h, kv, d, slots
            self.wq, self.wk, self.wv = (nn.Linear(dim, n * d, bias=False) for n in (h, kv, kv))
            self.wo = nn.Linear(h * d, dim, bias=False)

        def forward(self, x, cache, start):
            b, n, _ = x.shape
            at = torch.arange(start, start + n, device=x.device)
            q = turn(self.wq(x).view(b, n, self.h, self.d).transpose(1, 2), at)
            k = turn(self.wk(x).view(b, n, self.kv, self.d).transpose(1, 2), at)
            v = self.wv(x).view(b, n, self.kv, self.d).transpose(1, 2)
            cache["k"].narrow(2, start, n).copy_(k)
            cache["v"].narrow(2, start, n).copy_(v)
            q = q.unflatten(1, (self.kv, -1))
            scores = torch.einsum("bgrqd,bgkd->bgrqk", q, cache["k"]) * self.d**-0.5
            blind = torch.arange(self.slots, device=x.device) > at[:, None]
            scores = scores + blind.to(x.dtype) * torch.finfo(x.dtype).min
            y = torch.einsum("bgrqk,bgkd->bqgrd", scores.softmax(-1), cache["v"])
            return self.wo(y.flatten(2))

    def call(m, x):
        cache = {name: x.new_zeros(len(x), m.kv, m.slots, m.d) for name in "kv"}
        return prompt_then_tokens(lambda tokens, start: m(tokens, cache, start), x, prompt=2)

    return Static(10, 6, 3, 4), some_x(2, 7, 10), {"num_heads": 6, "num_kv_heads": 3, "call": call}


@case(None)
def layer_norms_and_pairs_side_by_side():
    torch.manual_seed(208)

    class Grouped(nn.Module):
        def __init__(self, dim, heads, kv, d):
            super().__init__()
            self.heads, self.kv, self.d = heads, kv, d
            self.q_norm, self.k_norm = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, n * d, bias=False) for n in (heads, kv, kv))
            self.o_proj = nn.Linear(heads * d, dim, bias=False)

        def rotate_half(self, t):
            return torch.stack((-t[..., 1::2], t[..., ::2]), dim=-1).flatten(-2)

        def forward(self, x):
            b, n, _ = x.shape
            freq = 10000.0 ** (-torch.arange(0, self.d, 2, device=x.device, dtype=x.dtype) / self.d)
            emb = torch.repeat_interleave(torch.arange(n, device=x.device, dtype=x.dtype)[:, None] * freq, 2, dim=-1)
            q = self.q_norm(self.q_proj(x).view(b, n, self.heads, self.d)).transpose(1, 2)
            k = self.k_norm(self.k_proj(x).view(b, n, self.kv, self.d)).transpose(1, 2)
            v = self.v_proj(x).view(b, n, self.kv, self.d).transpose(1, 2)
            q, k = (t * emb.cos() + self.rotate_half(t) * emb.sin() for t in (q, k))
            k, v = (t.repeat_interleave(self.heads // self.kv, dim=1) for t in (k, v))
            attn = torch.matmul(q, k.transpose(2, 3)) * self.d**-0.5
            mask = torch.full((n, n), torch.finfo(x.dtype).min, device=x.device, dtype=x.dtype).triu(1)
            attn = F.softmax(attn + mask, dim=-1, dtype=torch.float32).to(q.dtype)
            return self.o_proj(torch.matmul(attn, v).transpose(1, 2).contiguous().view(b, n, -1))

    return Grouped(15, 4, 2, 6), some_x(3, 5, 15), {"num_heads": 4, "num_kv_heads": 2}


if transformers is not None:

    def library(name, kind, config, x, **told):
        """An attention class of the library with its own rotary positions and its own cache."""
        import importlib

        module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        config._attn_implementation = "eager"
        attention = getattr(module, f"{kind}Attention")(config, layer_idx=0).eval()
        rotary = getattr(module, f"{kind}RotaryEmbedding")(config)

        def call(m, x):
            cache = transformers.DynamicCache()

            def step(tokens, start):
                at = torch.arange(start, start + tokens.shape[1], device=x.device)
                keys = torch.arange(start + tokens.shape[1], device=x.device)
                mask = torch.zeros(len(at), len(keys), dtype=x.dtype, device=x.device)
                mask = mask.masked_fill(keys > at[:, None], torch.finfo(x.dtype).min)
                angles = rotary.to(x.device)(tokens, at[None])
                return m(tokens, angles, attention_mask=mask[None, None], past_key_values=cache)[0]

            return prompt_then_tokens(step, x)

        return attention, x, {"call": call, **told}

    @case(None)
    def library_norms_before_rotary():
        torch.manual_seed(47)
        config = transformers.Qwen3Config(hidden_size=15, num_attention_heads=6, num_key_value_heads=3, head_dim=4)
        return library("qwen3", "Qwen3", config, some_x(2, 6, 15), num_heads=6, num_kv_heads=3)


# ------------------------------------------------------------------------------------------------ stale-cache


@case("stale-cache")
def length_moves_with_the_prompt_only():
    torch.manual_seed(101)

    class Cache:
        def __init__(self, b, kv, slots, d, like):
            self.k = torch.zeros(b, kv, slots, d, dtype=like.dtype, device=like.device)
            self.v = torch.zeros_like(self.k)
            self.length = 0

        def append(self, k, v):
            end = self.length + k.shape[2]
            self.k[:, :, self.length : end] = k
            self.v[:, :, self.length : end] = v
            if k.shape[2] > 1:  # wrong
                self.length = end  # wrong
            return self.k[:, :, :end], self.v[:, :, :end]

    class Llama(nn.Module):
        def __init__(self, dim, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, n * d, bias=False) for n in (h, kv, kv))
            self.out_proj = nn.Linear(h * d, dim, bias=False)

        def forward(self, x, cache):
            q, k, v = (
                p(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            at = torch.arange(cache.length, cache.length + x.shape[1], device=x.device)
            q, k = turn(q, at), turn(k, at)
            k, v = cache.append(k, v)
            keep = torch.arange(k.shape[2], device=x.device) <= at[:, None]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
            return self.out_proj(y.transpose(1, 2).flatten(2))

    def call(m, x):
        cache = Cache(len(x), m.kv, 16, m.d, x)
        return prompt_then_tokens(lambda tokens, start: m(tokens, cache), x)

    return Llama(12, 4, 2, 6), some_x(2, 7, 12), {"num_heads": 4, "num_kv_heads": 2, "call": call}


@case("stale-cache")
def a_list_as_default():
    torch.manual_seed(110)

    class Decoder(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads = heads
            self.qkv, self.proj = nn.Linear(d_in, 3 * heads * d), nn.Linear(heads * d, d_in)

        def forward(self, x, past=[]):  # noqa: B006  # wrong
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            past.append((k, v))  # wrong
            k, v = (torch.cat(parts, dim=2) for parts in zip(*past, strict=True))  # wrong
            keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - q.shape[2])
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
            return self.proj(y.transpose(1, 2).flatten(2))

    def call(m, x):
        return prompt_then_tokens(lambda tokens, start: m(tokens), x)

    return Decoder(8, 2, 5), some_x(2, 6, 8), {"num_heads": 2, "call": call}


# ------------------------------------------------------------------------------------------------ causal-top-left


@case("causal-top-left")
def tril_of_queries_by_keys():
    torch.manual_seed(122)

    class MultiQuery(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.q, self.k, self.v = nn.Linear(d_in, heads * d), nn.Linear(d_in, d), nn.Linear(d_in, d)
            self.o = nn.Linear(heads * d, d_in)

        def forward(self, x, cache):
            q = self.q(x).unflatten(-1, (self.heads, self.d)).transpose(1, 2)
            cache["k"] = k = torch.cat((cache["k"], self.k(x)), 1) if cache else self.k(x)
            cache["v"] = v = torch.cat((cache["v"], self.v(x)), 1) if "v" in cache else self.v(x)
            scores = torch.einsum("bhqd,bkd->bhqk", q, k) / math.sqrt(self.d)
            causal = torch.tril(torch.ones(q.shape[2], k.shape[1], device=x.device))  # wrong
            p = scores.masked_fill(causal == 0, float("-inf")).softmax(dim=-1)
            return self.o(torch.einsum("bhqk,bkd->bqhd", p, v).flatten(2))

    def call(m, x):
        cache = {}
        return prompt_then_tokens(lambda tokens, start: m(tokens, cache), x, prompt=2)

    return MultiQuery(10, 3, 7), some_x(3, 6, 10), {"num_heads": 3, "num_kv_heads": 1, "call": call}


@case("causal-top-left")
def torch_bias_for_the_upper_left():
    torch.manual_seed(125)

    class Attention(nn.Module):
        def __init__(self, d_in, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.in_proj, self.out_proj = nn.Linear(d_in, 3 * heads * d), nn.Linear(heads * d, d_in)

        def forward(self, x, past=None):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, -1))
            if past is not None:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            bias = causal_upper_left(q.shape[2], k.shape[2])  # wrong
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)  # wrong
            return self.out_proj(y.transpose(1, 2).flatten(2)), (k, v)

    def call(m, x):
        first, past = m(x[:, :4])
        return torch.cat((first, m(x[:, 4:], past)[0]), 1) if x.shape[1] > 4 else first

    return Attention(9, 3, 4), some_x(2, 7, 9), {"num_heads": 3, "call": call}


# ------------------------------------------------------------------------------------------------ rotary-unused


@case("rotary-unused")
def queries_turned_and_keys_forgotten():
    torch.manual_seed(141)

    class Attention(nn.Module):
        def __init__(self, hidden, heads, kv, d):
            super().__init__()
            self.d, self.groups = d, heads // kv
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, n * d, bias=False) for n in (heads, kv, kv))
            self.o_proj = nn.Linear(heads * d, hidden, bias=False)

        def forward(self, x):
            b, n, _ = x.shape
            at = torch.arange(n, device=x.device)
            q = turn(self.q_proj(x).view(b, n, -1, self.d).transpose(1, 2), at)
            k = self.k_proj(x).view(b, n, -1, self.d).transpose(1, 2)  # wrong
            v = self.v_proj(x).view(b, n, -1, self.d).transpose(1, 2)
            k, v = k.repeat_interleave(self.groups, dim=1), v.repeat_interleave(self.groups, dim=1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong
            return self.o_proj(y.transpose(1, 2).reshape(b, n, -1))

    return Attention(12, 4, 2, 6), some_x(2, 6, 12), {"num_heads": 4, "num_kv_heads": 2}


@case("rotary-unused")
def turned_part_not_put_back():
    torch.manual_seed(146)

    class NeoX(nn.Module):
        def __init__(self, hidden, heads, d, rot):
            super().__init__()
            self.heads, self.d, self.rot = heads, d, rot
            self.query_key_value, self.dense = nn.Linear(hidden, 3 * heads * d), nn.Linear(heads * d, hidden)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.query_key_value(x).view(b, n, self.heads, 3 * self.d).transpose(1, 2).chunk(3, dim=-1)
            at = torch.arange(n, device=x.device)
            q_rot, q_pass = q[..., : self.rot], q[..., self.rot :]
            k_rot, k_pass = k[..., : self.rot], k[..., self.rot :]
            q_out, k_out = turn(q_rot, at), turn(k_rot, at)  # noqa: F841  # wrong
            q, k = torch.cat((q_rot, q_pass), dim=-1), torch.cat((k_rot, k_pass), dim=-1)  # wrong
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong
            return self.dense(y.transpose(1, 2).reshape(b, n, -1))

    return NeoX(14, 2, 12, 4), some_x(3, 5, 14), {"num_heads": 2}


# ------------------------------------------------------------------------------------------------ rotary-on-values


@case("rotary-on-values")
def turned_in_place_through_a_loop():
    torch.manual_seed(153)

    class NeoX(nn.Module):
        def __init__(self, hidden, heads, d, rot):
            super().__init__()
            self.heads, self.d, self.rot = heads, d, rot
            self.query_key_value, self.dense = nn.Linear(hidden, 3 * heads * d), nn.Linear(heads * d, hidden)

        def forward(self, x):
            b, n, _ = x.shape
            qkv = self.query_key_value(x).view(b, n, self.heads, 3, self.d).permute(3, 0, 2, 1, 4).clone()
            at = torch.arange(n, device=x.device)
            for part in qkv:
                part[..., : self.rot] = turn(part[..., : self.rot], at)  # wrong
            q, k, v = qkv
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.dense(y.transpose(1, 2).reshape(b, n, -1))

    return NeoX(12, 2, 10, 4), some_x(2, 6, 12), {"num_heads": 2}


@case("rotary-on-values")
def second_argument_is_the_value():
    torch.manual_seed(154)

    def apply_rotary_pos_emb(a, b, at):
        return turn(a, at), turn(b, at)

    class Attention(nn.Module):
        def __init__(self, hidden, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(hidden, heads * d) for _ in range(3))
            self.o_proj = nn.Linear(heads * d, hidden)

        def forward(self, x, cache):
            q, k, v = (
                p(x).unflatten(-1, (self.heads, self.d)).transpose(1, 2)
                for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            at = torch.arange(cache.length, cache.length + x.shape[1], device=x.device)
            q, v = apply_rotary_pos_emb(q, v, at)  # wrong
            k, v = cache.append(k, v)
            hidden = torch.arange(k.shape[2], device=x.device) > at[:, None]
            w = (q @ k.mT * self.d**-0.5).masked_fill(hidden, torch.finfo(x.dtype).min).softmax(-1)
            return self.o_proj((w @ v).transpose(1, 2).flatten(2))

    def call(m, x):
        cache = KVCache(len(x), m.heads, 16, m.d, dtype=x.dtype, device=x.device)
        return prompt_then_tokens(lambda tokens, start: m(tokens, cache), x)

    return Attention(11, 3, 6), some_x(2, 6, 11), {"num_heads": 3, "call": call}


# ------------------------------------------------------------------------------------------------ more wrong ones


@case("stale-cache")
def guess_never_taken_back():
    torch.manual_seed(212)

    class Draft(nn.Module):
        def __init__(self, d_in, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q, self.kv_proj, self.o = nn.Linear(d_in, h * d), nn.Linear(d_in, 2 * kv * d), nn.Linear(h * d, d_in)

        def forward(self, x, cache):
            b, n, _ = x.shape
            q = self.q(x).view(b, n, self.h, self.d).transpose(1, 2)
            kv = self.kv_proj(x).view(b, n, 2, self.kv, self.d)
            cache["kv"] = torch.cat((cache["kv"], kv), dim=1) if "kv" in cache else kv  # wrong
            k, v = cache["kv"].permute(2, 0, 3, 1, 4)
            keep = torch.ones(n, k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - n)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
            return self.o(y.transpose(1, 2).reshape(b, n, -1))

    def call(m, x):
        cache = {}
        first = m(x[:, :2], cache)
        m(x[:, 2:4].flip(1), cache)
        return torch.cat((first, m(x[:, 2:], cache)), dim=1)

    return Draft(9, 4, 2, 5), some_x(3, 6, 9), {"num_heads": 4, "num_kv_heads": 2, "call": call}


@case("causal-top-left")
def first_rows_of_the_square():
    torch.manual_seed(214)

    class Attention(nn.Module):
        def __init__(self, d_in, h, kv, d):
            super().__init__()
            self.h, self.kv, self.d = h, kv, d
            self.q, self.k, self.v = (nn.Linear(d_in, n * d) for n in (h, kv, kv))
            self.o = nn.Linear(h * d, d_in)

        def forward(self, x, past):
            q, k, v = (f(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for f in (self.q, self.k, self.v))
            past.append((k, v))
            k, v = (torch.cat(held, dim=2) for held in zip(*past, strict=True))
            square = torch.ones(k.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril()
            mask = square[: q.shape[2]]  # wrong
            k, v = k.repeat_interleave(self.h // self.kv, 1), v.repeat_interleave(self.h // self.kv, 1)
            w = (q @ k.mT / math.sqrt(self.d)).masked_fill(~mask, -torch.inf).softmax(-1)
            return self.o((w @ v).transpose(1, 2).flatten(2))

    def call(m, x):
        past = []
        return prompt_then_tokens(lambda tokens, start: m(tokens, past), x)

    return Attention(12, 4, 2, 5), some_x(2, 6, 12), {"num_heads": 4, "num_kv_heads": 2, "call": call}


@case("rotary-unused")
def place_divided_away():
    torch.manual_seed(219)

    class Attention(nn.Module):
        def __init__(self, dim, heads, d):
            super().__init__()
            self.heads, self.d = heads, d
            self.qkv, self.proj = nn.Linear(dim, 3 * heads * d), nn.Linear(heads * d, dim)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
            at = torch.arange(n, device=x.device) // n  # wrong
            q, k = turn(q, at), turn(k, at)  # wrong
            return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, -1))

    return Attention(14, 2, 6), some_x(3, 5, 14), {"num_heads": 2}
