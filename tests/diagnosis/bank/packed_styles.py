"""One packed projection with tokens before heads, as small GPTs are written: right code first, then what goes wrong."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x

CASES, case = collector()


class Packed(nn.Module):
    """One matrix for queries, keys and values, tokens before heads; subclasses say how scores become the output."""

    def __init__(self, n_embd=12, n_head=3, seed=1, **more):
        super().__init__()
        torch.manual_seed(seed)
        self.n_head, self.hd = n_head, n_embd // n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        for name, value in more.items():
            setattr(self, name, value)

    def parts(self, x):
        b, t, c = x.shape
        return (u.view(b, t, self.n_head, self.hd) for u in self.c_attn(x).split(c, dim=2))

    def seen(self, t, x):
        return torch.tril(torch.ones(t, t, dtype=torch.bool, device=x.device))

    def finish(self, att, v):
        return self.c_proj(torch.einsum("bhij,bjhd->bihd", att, v).reshape(len(v), -1, self.n_head * self.hd))

    def logits(self, q, k):
        return torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.hd)

    def usual(self, x, logits, v):
        return self.finish(logits.masked_fill(~self.seen(logits.shape[-1], x), float("-inf")).softmax(-1), v)


def freqs(t, d, x, theta=1e4):
    f = theta ** -(torch.arange(0, d, 2, device=x.device)[: d // 2].to(x.dtype) / d)
    return torch.outer(torch.arange(t, device=x.device).to(x.dtype), f)


def rope(u, x, theta=1e4):
    """(b, t, h, d)."""
    f = freqs(u.shape[1], u.shape[-1], x, theta)[None, :, None]
    r, i = u.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([r * f.cos() - i * f.sin(), r * f.sin() + i * f.cos()], -1).flatten(-2)


# ------------------------------------------------------------------------------------------------ right


@case(None)
def r_alibi_in_a_buffer():
    class A(Packed):
        def __init__(self):
            super().__init__(16, 4)
            m = 2.0 ** -torch.arange(2, 10, 2)
            i = torch.arange(64)
            self.register_buffer("alibi", m[:, None, None] * (i[None, None, :] - i[None, :, None]))

        def forward(self, x):
            q, k, v = self.parts(x)
            t = x.shape[1]
            return self.usual(x, self.logits(q, k) + self.alibi[:, :t, :t], v)

    return A(), some_x(2, 7, 16), {"num_heads": 4}


@case(None)
def r_sandwich_window():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            i = torch.arange(x.shape[1], device=x.device)
            far = i[:, None] - i >= 4
            return self.usual(x, self.logits(q, k).masked_fill(far, -1e30), v)

    return A(12, 2), some_x(2, 8, 12), {"num_heads": 2, "window": 4}


@case(None)
def r_gated_with_silu():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            att = self.logits(q, k).masked_fill(~self.seen(x.shape[1], x), float("-inf")).softmax(-1)
            y = torch.einsum("bhij,bjhd->bihd", att, v).flatten(2)
            return self.c_proj(y * F.silu(self.g(x)))

    m = A(12, 3)
    m.g = nn.Linear(12, 12)
    return m, some_x(2, 5, 12), {"num_heads": 3}


@case(None)
def r_additive_lowest_number():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            low = torch.finfo(x.dtype).min
            bias = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device)
            bias = bias.masked_fill(~self.seen(x.shape[1], x), low)
            return self.finish((self.logits(q, k) + bias).softmax(-1), v)

    return A(12, 3), some_x(2, 5, 12), {"num_heads": 3}


@dataclass
class Config:
    n_embd: int = 12
    n_head: int = 2
    flash: bool = True


@case(None)
def r_nano_with_a_switch():
    class A(Packed):
        def __init__(self, config):
            super().__init__(config.n_embd, config.n_head)
            self.flash = config.flash
            self.dropout = 0.3
            self.drop = nn.Dropout(0.3)

        def forward(self, x):
            q, k, v = (u.transpose(1, 2) for u in self.parts(x))
            if self.flash:
                p = self.dropout if self.training else 0
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=p, is_causal=True)
            else:
                a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                a = a.masked_fill(~self.seen(x.shape[1], x), float("-inf"))
                y = self.drop(F.softmax(a, dim=-1)) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view_as(x))

    return A(Config()), some_x(3, 5, 12), {"num_heads": 2}


@case(None)
def r_cache_object():
    class Cache:
        def __init__(self):
            self.k = self.v = None

        def update(self, k, v):
            self.k = k if self.k is None else torch.cat([self.k, k], 1)
            self.v = v if self.v is None else torch.cat([self.v, v], 1)
            return self.k, self.v

    class A(Packed):
        def forward(self, x, cache=None):
            q, k, v = self.parts(x)
            k, v = (k, v) if cache is None else cache.update(k, v)
            a = self.logits(q, k)
            seen = torch.ones(a.shape[-2:], dtype=torch.bool, device=x.device).tril(a.shape[-1] - a.shape[-2])
            return self.finish(a.masked_fill(~seen, float("-inf")).softmax(-1), v)

    def call(m, x):
        c = Cache()
        return torch.cat([m(p, c) for p in x.split(2, 1)], 1)

    return A(12, 3), some_x(2, 7, 12), {"num_heads": 3, "call": call}


@case(None)
def r_sdpa_with_a_window_mask():
    class A(Packed):
        def forward(self, x):
            q, k, v = (u.transpose(1, 2) for u in self.parts(x))
            i = torch.arange(x.shape[1], device=x.device)
            d = i[:, None] - i
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=(d >= 0) & (d < 2))
            return self.c_proj(y.transpose(1, 2).flatten(2))

    return A(12, 2), some_x(2, 6, 12), {"num_heads": 2, "window": 2}


# ------------------------------------------------------------------------------------------------ wrong


@case("bias-wrong-sign")
def w_alibi_buffer_reversed():
    class A(Packed):
        def __init__(self):
            super().__init__(16, 4)
            m = 2.0 ** -torch.arange(2, 10, 2)
            i = torch.arange(64)
            self.register_buffer("alibi", m[:, None, None] * (i[None, :, None] - i[None, None, :]))  # wrong

        def forward(self, x):
            q, k, v = self.parts(x)
            t = x.shape[1]
            return self.usual(x, self.logits(q, k) + self.alibi[:, :t, :t], v)  # wrong

    return A(), some_x(2, 7, 16), {"num_heads": 4}


@case("bias-wrong-sign")
def w_alibi_minus_minus():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            i = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
            m = torch.tensor([0.5, 0.25, 0.125], dtype=x.dtype, device=x.device).view(3, 1, 1)
            a = torch.sub(self.logits(q, k), m * (i[None, :] - i[:, None]))  # wrong
            return self.usual(x, a, v)

    return A(12, 3), some_x(2, 6, 12), {"num_heads": 3}


@case("mask-scaled")
def w_hidden_then_divided():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            a = torch.einsum("bihd,bjhd->bhij", q, k)
            a = a.masked_fill(~self.seen(x.shape[1], x), -50.0)
            return self.finish(F.softmax(a / math.sqrt(self.hd), -1), v)  # wrong

    return A(48, 3), some_x(2, 5, 48), {"num_heads": 3}


@case("mask-scaled")
def w_alibi_then_divided():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            i = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
            m = torch.tensor([0.5, 0.25], dtype=x.dtype, device=x.device).view(2, 1, 1)
            a = torch.einsum("bihd,bjhd->bhij", q, k) - m * (i[:, None] - i).abs()
            a = a * self.hd**-0.5  # wrong
            return self.usual(x, a, v)

    return A(12, 2), some_x(2, 6, 12), {"num_heads": 2}


@case("norm-wrong-axis")
def w_norm_over_heads_first_layout():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            q = (q - q.mean(2, keepdim=True)) / q.std(2, keepdim=True)  # wrong
            return self.usual(x, self.logits(q, k), v)

    return A(16, 4), some_x(2, 5, 16), {"num_heads": 4}


@case("softcap-missing")
def w_cap_with_norm_half():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            return self.usual(x, (self.logits(self.qn(q), self.kn(k)) / 30.0).tanh(), v)  # wrong

    m = A(18, 3)
    m.qn, m.kn = nn.RMSNorm(6), nn.RMSNorm(6)
    return m, some_x(2, 5, 18), {"num_heads": 3}


class CachedPacked(Packed):
    W = 10**6

    def mask(self, a, past):
        n, t = a.shape[-2:]
        i = torch.arange(t, device=a.device)
        d = i[-n:, None] - i
        return (d < 0) | (d >= self.W)

    def forward(self, x, past=None):
        q, k, v = self.parts(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        a = self.logits(q, k)
        return self.finish(a.masked_fill(self.mask(a, past), -1e30).softmax(-1), v), (k, v)


def run_pieces(m, x, later=1):
    past, ys = None, []
    for p in (x[:, :4], *x[:, 4:].split(later, 1)):
        y, past = m(p, past)
        ys.append(y)
    return torch.cat(ys, 1)


@case("window-lost-in-decode")
def w_window_only_for_the_prompt():
    class A(CachedPacked):
        W = 3

        def mask(self, a, past):
            if past is None:
                return super().mask(a, past)
            return torch.zeros(a.shape[-2:], dtype=torch.bool, device=a.device)

    return A(12, 2), some_x(2, 7, 12), {"num_heads": 2, "window": 3, "call": run_pieces}


@case("mask-skipped-when-cached")
def w_no_mask_for_chunks():
    class A(CachedPacked):
        def mask(self, a, past):
            if past is None:
                return super().mask(a, past)
            return torch.zeros(a.shape[-2:], dtype=torch.bool, device=a.device)

    return A(12, 2), some_x(2, 7, 12), {"num_heads": 2, "call": lambda m, x: run_pieces(m, x, 3)}


@case("dead-parameter")
def w_tokens_in_place_of_queries():
    class A(Packed):
        def forward(self, x):
            q, k, v = self.parts(x)
            q = x.view_as(q)  # wrong
            return self.usual(x, self.logits(q, k), v)

    return A(12, 3), some_x(2, 6, 12), {"num_heads": 3}


@case("token-missing-from-cache")
def w_prompt_without_its_first():
    class A(CachedPacked):
        def forward(self, x, past=None):
            y, (k, v) = super().forward(x, past)
            return y, (k[:, 1:], v[:, 1:])  # wrong

    return A(12, 2), some_x(2, 7, 12), {"num_heads": 2, "call": run_pieces}


@case("positions-restart-in-cache")
def w_wpe_from_zero():
    class A(CachedPacked):
        def forward(self, x, past=None):
            x = x + self.wpe.weight[: x.shape[1]]  # wrong
            return super().forward(x, past)

    m = A(12, 2)
    m.wpe = nn.Embedding(16, 12)
    return m, some_x(2, 7, 12), {"num_heads": 2, "call": run_pieces}


@case("positions-restart-in-cache")
def w_rope_from_zero():
    class A(CachedPacked):
        def parts(self, x):
            q, k, v = super().parts(x)
            return rope(q, x), rope(k, x), v  # wrong

    return A(12, 2), some_x(2, 7, 12), {"num_heads": 2, "call": run_pieces}


@case("is-causal-with-mask")
def w_both():
    class A(Packed):
        def forward(self, x):
            q, k, v = (u.transpose(1, 2) for u in self.parts(x))
            m = self.seen(x.shape[1], x)
            y = F.scaled_dot_product_attention(q, k, v, m, 0.0, True)  # wrong
            return self.c_proj(y.transpose(1, 2).flatten(2))

    return A(12, 2), some_x(2, 6, 12), {"num_heads": 2}


@case("paths-differ")
def w_other_scale_when_fused():
    class A(Packed):
        def __init__(self, config):
            super().__init__(config.n_embd, config.n_head)
            self.use_flash_attention = False

        def forward(self, x):
            q, k, v = (u.transpose(1, 2) for u in self.parts(x))
            if self.use_flash_attention:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)  # wrong
            else:
                a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                y = F.softmax(a.masked_fill(~self.seen(x.shape[1], x), -1e9), dim=-1) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view_as(x))

    return A(Config()), some_x(3, 5, 12), {"num_heads": 2}
