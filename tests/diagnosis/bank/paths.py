"""Windows, gates, caches and options: code that is right on one path and, in the wrong cases, wrong on another."""

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x
from .parts import Parts, causal_softmax

CASES, case = collector()


def band(queries, keys, window, like, sinks=0):
    """True = visible; the queries are the last of the keys' tokens."""
    at_q = torch.arange(keys - queries, keys, device=like.device)[:, None]
    at_k = torch.arange(keys, device=like.device)
    return (at_k <= at_q) & ((at_q - at_k < window) | (at_k < sinks))


# ---------------------------------------------------------------------------------------- right


class Windowed(Parts):
    """A window of so many tokens, the query's own included."""

    def __init__(self, window=3, sinks=0, **sizes):
        super().__init__(**sizes)
        self.window, self.sinks = window, sinks

    def forward(self, x, past=None):
        q, k, v = self.qkv(x)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        keep = band(q.shape[2], k.shape[2], self.window, x, self.sinks)
        context = self.merge(self.scores(q, k).masked_fill(~keep, -torch.inf).softmax(-1) @ v)
        return context, (k, v)


def decoded(module, x, prompt=3):
    """The prompt, then word by word, with the cache that the module gives back."""
    past = None
    rows = []
    for piece in (x[:, :prompt], *x[:, prompt:].split(1, 1)):
        out, past = module(piece, past)
        rows.append(out)
    return torch.cat(rows, 1)


@case(None)
def window_on_both_sides():
    class Both(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            at = torch.arange(x.shape[1], device=x.device)
            keep = (at[:, None] - at).abs() < 2
            return self.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=keep))

    return Both(d_in=12, heads=3, head_dim=4), some_x(2, 6, 12), {"num_heads": 3, "causal": False, "window": 2}


@case(None)
def fused_by_a_switch():
    class Switch(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.flash = True
            self.dropout = 0.2

        def forward(self, x):
            q, k, v = self.qkv(x)
            if self.flash:
                p = self.dropout if self.training else 0.0
                return self.merge(F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True))
            weights = F.dropout(causal_softmax(self.scores(q, k)), self.dropout, self.training)
            return self.merge(weights @ v)

    return Switch(), some_x(2, 6, 10), {"num_heads": 2}


@case(None)
def padding_and_future_together():
    class Padded(Parts):
        def forward(self, x, key_padding_mask=None):
            q, k, v = self.qkv(x)
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            if key_padding_mask is not None:
                hidden = hidden | key_padding_mask[:, None, None, :]
            return self.merge(self.scores(q, k).masked_fill(hidden, -1e9).softmax(-1) @ v)

    return Padded(d_in=9, heads=3, head_dim=4), some_x(2, 5, 9), {"num_heads": 3}


@case(None)
def gate_of_each_element():
    class Gated(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=3, head_dim=4)
            self.gate_proj = nn.Linear(10, 12)

        def forward(self, x):
            q, k, v = self.qkv(x)
            context = (causal_softmax(self.scores(q, k)) @ v).transpose(1, 2).flatten(2)
            return self.o_proj(context * torch.sigmoid(self.gate_proj(x)))

    return Gated(), some_x(2, 5, 10), {"num_heads": 3}


@case(None)
def low_rank_update_that_starts_at_zero():
    class LowRank(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.down, self.up = nn.Parameter(torch.randn(10, 2)), nn.Parameter(torch.zeros(2, 12))

        def forward(self, x):
            q = self.split(self.q_proj(x) + x @ self.down @ self.up)
            _, k, v = self.qkv(x)
            return self.attend(self.scores(q, k), v)

    return LowRank(), some_x(2, 5, 10), {"num_heads": 2}


@case(None)
def keys_first_and_their_transpose():
    class KeysFirst(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            scores = k @ q.mT * self.head_dim**-0.5  # (b, h, key, query)
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(-1)
            weights = scores.masked_fill(hidden, -torch.inf).softmax(-2)
            return self.merge(weights.mT @ v)

    return KeysFirst(d_in=10, heads=2, head_dim=6), some_x(2, 5, 10), {"num_heads": 2}


# ---------------------------------------------------------------------------------------- window-off-by-one


@case("window-off-by-one")
def a_loop_with_a_slice():
    def attention(x, w):
        q, k, v = x @ w[0], x @ w[1], x @ w[2]
        rows = []
        for i in range(x.shape[1]):
            low = max(0, i - 2)  # wrong
            s = q[:, i : i + 1] @ k[:, low : i + 1].mT * q.shape[-1] ** -0.5  # wrong
            rows.append(s.softmax(-1) @ v[:, low : i + 1])  # wrong
        return torch.cat(rows, 1)

    w = torch.randn(3, 10, 6, generator=torch.Generator().manual_seed(2)) / 3
    return lambda x: attention(x, w.to(x)), some_x(2, 6, 10), {"num_heads": 1, "window": 2}


@case("window-off-by-one")
def both_sides_one_too_wide():
    class Wide(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            at = torch.arange(x.shape[1], device=x.device)
            far = (at[:, None] - at).abs() > 2  # wrong
            return self.merge(self.scores(q, k).masked_fill(far, -1e9).softmax(-1) @ v)  # wrong

    return Wide(d_in=10, heads=2, head_dim=6), some_x(2, 7, 10), {"num_heads": 2, "window": 2, "causal": False}


@case("window-off-by-one")
def cut_one_too_far_in_the_cache():
    class Cut(Windowed):
        def forward(self, x, past=None):
            out, (k, v) = super().forward(x, past)
            return out, (k[:, :, -self.window + 2 :], v[:, :, -self.window + 2 :])  # wrong

    def call(m, x):
        return decoded(m, x, prompt=1)

    return Cut(4, d_in=10, heads=3, head_dim=4), some_x(2, 7, 10), {"num_heads": 3, "window": 4, "call": call}


# ---------------------------------------------------------------------------------------- window-lost-in-decode


@case("window-lost-in-decode")
def no_mask_for_one_query():
    class NoMask(Windowed):
        def forward(self, x, past=None):
            q, k, v = self.qkv(x)
            if past is not None:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            scores = self.scores(q, k)
            if q.shape[2] > 1:  # wrong
                scores = scores.masked_fill(~band(q.shape[2], k.shape[2], self.window, x), -torch.inf)
            return self.merge(scores.softmax(-1) @ v), (k, v)  # wrong

    return (
        NoMask(3, d_in=10, heads=2, head_dim=6),
        some_x(2, 7, 10),
        {"num_heads": 2, "window": 3, "call": lambda m, x: decoded(m, x, 4)},
    )


@case("window-lost-in-decode")
def found_without_the_option():
    class Silent(Windowed):
        def forward(self, x, past=None):
            q, k, v = self.qkv(x)
            if past is None:
                keep = band(q.shape[2], k.shape[2], self.window, x)
                return self.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=keep)), (k, v)
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            return self.merge(F.scaled_dot_product_attention(q, k, v)), (k, v)  # wrong

    return (
        Silent(3, d_in=11, heads=2, head_dim=4),
        some_x(2, 8, 11),
        {"num_heads": 2, "call": lambda m, x: decoded(m, x, 5)},
    )


# ---------------------------------------------------------------------------------------- mask-lost-on-option


@case("mask-lost-on-option")
def weights_without_the_mask():
    class Weights(Parts):
        def forward(self, x, need_weights=False):
            q, k, v = self.qkv(x)
            if not need_weights:
                return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)), None
            weights = self.scores(q, k).softmax(-1)  # wrong
            return self.merge(weights @ v), weights

    return Weights(d_in=11, heads=3, head_dim=4), some_x(2, 5, 11), {"num_heads": 3}


@case("mask-lost-on-option")
def padding_switches_the_future_on():
    class Padding(Parts):
        def forward(self, x, key_padding_mask=None):
            q, k, v = self.qkv(x)
            mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
            causal = mask is None  # wrong
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)  # wrong
            return self.merge(context)

    return Padding(d_in=10, heads=2, head_dim=6), some_x(2, 6, 10), {"num_heads": 2}


# ----------------------------------------------------------------------------------------- mask-skipped-when-cached


REAL = torch.ones(3, 6, dtype=torch.bool)
REAL[1, :2] = REAL[2, :1] = False


@case("mask-skipped-when-cached")
def additive_mask_for_the_prompt_alone():
    class Additive(Parts):
        def forward(self, x, mask=None, past=None):
            q, k, v = self.qkv(x)
            if past is not None:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / self.head_dim**0.5
            if mask is not None:
                scores = scores + mask
            return self.merge(torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)), (k, v)  # wrong

    def call(m, x):
        mask = torch.full((4, 4), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        out, past = m(x[:, :4], mask)
        return torch.cat((out, m(x[:, 4:], None, past)[0]), 1)

    return Additive(d_in=10, heads=2, head_dim=4), some_x(2, 7, 10), {"num_heads": 2, "call": call}


@case("mask-skipped-when-cached")
def slots_and_a_mask_of_the_prompt():
    class Slots(Parts):
        def forward(self, x, keys, values, start):
            q, k, v = self.qkv(x)
            end = start + x.shape[1]
            keys[:, :, start:end], values[:, :, start:end] = k, v
            scores = self.scores(q, keys[:, :, :end])
            if start == 0:  # wrong
                scores = scores + torch.full((end, end), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
            return self.merge(scores.softmax(-1) @ values[:, :, :end])  # wrong

    def call(m, x):
        keys, values = x.new_zeros(2, len(x), 3, 16, 4)
        return torch.cat([m(x[:, i : i + 4], keys, values, i) for i in (0, 4)], 1)

    return Slots(d_in=12, heads=3, head_dim=4), some_x(2, 8, 12), {"num_heads": 3, "call": call}


@case("mask-skipped-when-cached")
def one_key_head_and_padding_dropped():
    class Dropped(Parts):
        def forward(self, x, real, past=None):
            q, k, v = self.qkv(x)
            if past is not None:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
                return self.attend(self.scores(q, k), v), (k, v)  # wrong
            weights = causal_softmax(self.scores(q, k).masked_fill(~real[:, None, None, : x.shape[1]], -1e9))
            return self.merge(weights @ v), (k, v)

    def call(m, x):
        out, past = m(x[:, :3], REAL)
        return torch.cat((out, m(x[:, 3:], REAL, past)[0]), 1)

    return (
        Dropped(d_in=9, heads=3, head_dim=4, kv_heads=1),
        some_x(3, 6, 9),
        {"num_heads": 3, "num_kv_heads": 1, "keep": REAL, "call": call},
    )


# ---------------------------------------------------------------------------------------- gate-unused


class WithGate(Parts):
    def __init__(self, width=None, **sizes):
        super().__init__(**sizes)
        self.gate = nn.Linear(self.q_proj.in_features, width or self.heads * self.head_dim)


@case("gate-unused")
def computed_and_left():
    class Left(WithGate):
        def forward(self, x):
            q, k, v = self.qkv(x)
            context = (causal_softmax(self.scores(q, k)) @ v).transpose(1, 2).flatten(2)
            gate = torch.sigmoid(self.gate(x))  # noqa: F841  # wrong
            return self.o_proj(context)  # wrong

    return Left(d_in=10, heads=3, head_dim=4), some_x(2, 5, 10), {"num_heads": 3}


@case("gate-unused")
def packed_with_the_queries():
    class Packed(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.q_and_gate = nn.Linear(10, 24, bias=False)
            del self.q_proj

        def forward(self, x):
            q, gate = self.q_and_gate(x).chunk(2, -1)
            q, k, v = self.split(q), self.split(self.k_proj(x)), self.split(self.v_proj(x))
            gate = F.silu(gate)  # wrong
            return self.attend(self.scores(q, k), v)  # wrong

    return Packed(), some_x(2, 5, 10), {"num_heads": 2}


@case("gate-unused")
def gate_without_any_reader():
    class Reader(WithGate):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(q, k), v)  # wrong

    return Reader(d_in=9, heads=3, head_dim=4), some_x(2, 7, 9), {"num_heads": 3}


# ---------------------------------------------------------------------------------------- dead-parameter


@case("dead-parameter")
def heads_do_not_talk():
    class Silent(Parts):
        def __init__(self):
            super().__init__(d_in=11, heads=3, head_dim=4)
            self.mix = nn.Linear(3, 3, bias=False)

        def forward(self, x):
            q, k, v = self.qkv(x)
            scores = self.scores(q, k)
            mixed = self.mix(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # noqa: F841  # wrong
            return self.attend(scores, v)  # wrong

    return Silent(), some_x(2, 5, 11), {"num_heads": 3}


# ---------------------------------------------------------------------------------------- token-missing-from-cache


@case("token-missing-from-cache")
def new_token_is_not_joined():
    class NotJoined(Parts):
        def forward(self, x, past=None):
            q, k, v = self.qkv(x)
            if past is None:
                return self.attend(self.scores(q, k), v), (k, v)
            out = self.merge(self.scores(q, past[0]).softmax(-1) @ past[1])  # wrong
            return out, (torch.cat((past[0], k), 2), torch.cat((past[1], v), 2))

    return NotJoined(d_in=11, heads=2, head_dim=6), some_x(2, 7, 11), {"num_heads": 2, "call": decoded}


@case("token-missing-from-cache")
def only_the_prompt_stays():
    class Prompt(Parts):
        def forward(self, x, past=None):
            q, k, v = self.qkv(x)
            if past is None:
                return self.attend(self.scores(q, k), v), (k, v)
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            return self.attend(self.scores(q, k), v), past  # wrong

    return Prompt(d_in=9, heads=3, head_dim=4), some_x(2, 6, 9), {"num_heads": 3, "call": decoded}


@case("token-missing-from-cache")
def dropped_when_a_list_is_joined():
    class Lists(Parts):
        def forward(self, x, keys, values):
            q, k, v = self.qkv(x)
            keys.append(k)
            values.append(v)
            k, v = torch.cat(keys[-2:], 2), torch.cat(values[-2:], 2)  # wrong
            return self.attend(self.scores(q, k), v)

    def call(m, x):
        keys, values = [], []
        return torch.cat([m(piece, keys, values) for piece in x.split(2, 1)], 1)

    return Lists(d_in=10, heads=2, head_dim=4), some_x(2, 8, 10), {"num_heads": 2, "call": call}


# ---------------------------------------------------------------------------------------- positions-restart-in-cache


@case("positions-restart-in-cache")
def queries_from_zero_keys_in_place():
    class Queries(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=3, head_dim=4)
            angle = torch.outer(torch.arange(32.0), 50.0 ** (-torch.arange(0, 4, 2) / 4))
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())

        def turn(self, t, start):
            cos, sin = self.cos[start : start + t.shape[2]], self.sin[start : start + t.shape[2]]  # wrong
            a, b = t.chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

        def forward(self, x, past=None):
            q, k, v = self.qkv(x)
            q = self.turn(q, 0)  # wrong
            k = self.turn(k, 0 if past is None else past[0].shape[2])
            if past is not None:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            return self.attend(self.scores(q, k), v), (k, v)

    return Queries(), some_x(2, 7, 9), {"num_heads": 3, "call": decoded}


@case("positions-restart-in-cache")
def word_by_word_at_place_zero():
    class Word(Parts):
        def forward(self, token, keys, values):
            q, k, v = self.qkv(token)
            at = torch.zeros(1, dtype=token.dtype, device=token.device)  # wrong
            angle = torch.outer(
                at, 10.0 ** (-torch.arange(0, self.head_dim, 2, dtype=token.dtype, device=token.device) / self.head_dim)
            )
            a, b = k.chunk(2, -1)
            k = torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)
            a, b = q.chunk(2, -1)
            q = torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)
            keys.append(k)
            values.append(v)
            return self.merge(self.scores(q, torch.cat(keys, 2)).softmax(-1) @ torch.cat(values, 2))

    def call(m, x):
        keys, values = [], []
        return torch.cat([m(token, keys, values) for token in x.split(1, 1)], 1)

    return Word(d_in=11, heads=2, head_dim=6), some_x(2, 5, 11), {"num_heads": 2, "call": call}


# ---------------------------------------------------------------------------------------- is-causal-with-mask


@case("is-causal-with-mask")
def both_given_to_the_kernel():
    class Kernel(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            keep = band(x.shape[1], x.shape[1], 3, x)
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=True)  # wrong
            return self.merge(context)

    return Kernel(d_in=10, heads=3, head_dim=4), some_x(2, 5, 10), {"num_heads": 3, "window": 3}


@case("is-causal-with-mask")
def library_module_with_a_window():
    class Library(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.attention = nn.MultiheadAttention(12, 3, batch_first=True)

        def forward(self, x):
            hidden = ~band(x.shape[1], x.shape[1], 2, x)
            return self.attention(x, x, x, attn_mask=hidden, is_causal=True, need_weights=False)[0]  # wrong

    return Library(), some_x(2, 6, 12), {"num_heads": 3, "window": 2}


@case("is-causal-with-mask")
def padding_in_the_mask_of_the_library():
    class Library(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.mha = nn.MultiheadAttention(10, 2, batch_first=True, bias=False)

        def forward(self, x, keep):
            hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1) | ~keep[None, :]
            out, _ = self.mha(x, x, x, attn_mask=hidden, need_weights=False, is_causal=True)  # wrong
            return out

    keep = torch.tensor([True, True, False, True, True, True])

    def call(m, x):
        return m(x, keep)

    return Library(), some_x(2, 6, 10), {"num_heads": 2, "keep": keep.view(1, 1, 1, 6), "call": call}


# ---------------------------------------------------------------------------------------- paths-differ


@case("paths-differ")
def no_output_projection_when_fused():
    class Fused(Parts):
        def __init__(self):
            super().__init__(d_in=12, heads=3, head_dim=4)
            self.fused_attn = False

        def forward(self, x):
            q, k, v = self.qkv(x)
            if self.fused_attn:
                context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return context.transpose(1, 2).flatten(2)  # wrong
            return self.attend(self.scores(q, k), v)

    return Fused(), some_x(2, 5, 12), {"num_heads": 3}


@case("paths-differ")
def gate_only_when_weights_are_returned():
    class Gate(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=2, head_dim=6)
            self.to_gate = nn.Linear(9, 12)

        def forward(self, x, return_attention=False):
            q, k, v = self.qkv(x)
            weights = causal_softmax(self.scores(q, k))
            context = (weights @ v).transpose(1, 2).flatten(2)
            gate = self.to_gate(x).sigmoid()
            if return_attention:
                return self.o_proj(context), weights  # wrong
            return self.o_proj(context * gate)

    return Gate(), some_x(2, 7, 9), {"num_heads": 2}
