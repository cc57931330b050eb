"""Steps that are left out, rows in another place, weights in another role, and right code that resembles each."""

import torch
import torch.nn.functional as F
from torch import nn

from .case import collector, some_x
from .parts import Parts, causal_softmax

CASES, case = collector()


def heads_of(t, heads):
    """(..., token, width) -> (..., head, token, head_dim)."""
    return t.unflatten(-1, (heads, -1)).transpose(-3, -2)


# ---------------------------------------------------------------------------------------- dead-parameter


@case(None)
def activation_that_stands_in_a_sequence_too():
    class InSequence(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.attn, self.act = Parts(d_in=width, heads=3, head_dim=4), nn.GELU()
            self.mlp = nn.Sequential(nn.Linear(width, 15), self.act, nn.Linear(15, width))

        def forward(self, x):
            q, k, v = self.attn.qkv(x)
            x = x + self.attn.attend(self.attn.scores(q, k), v)
            return x + self.mlp(x)

    return InSequence(10), some_x(2, 7, 10), {"num_heads": 3}


class Layers(nn.Module):
    """Several residual layers of attention."""

    def __init__(self, width, count):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, seed) for seed in range(count))


class Layer(Parts):
    def __init__(self, width, seed=0):
        super().__init__(d_in=width, heads=2, head_dim=5, seed=seed)

    def forward(self, x):
        q, k, v = self.qkv(x)
        return x + self.attend(self.scores(q, k), v)


@case("dead-parameter")
def first_layer_in_place_of_the_second():
    class Twice(Layers):
        def forward(self, x):
            for _ in self.layers:
                x = self.layers[0](x)  # wrong
            return x

    return Twice(9, 2), some_x(2, 6, 9), {"num_heads": 2}


# ---------------------------------------------------------------------------------------- value-unused


@case("value-unused")
def residual_kept_and_not_added():
    class PostNorm(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=3, head_dim=4)
            self.norm = nn.LayerNorm(10)

        def forward(self, x):
            residual = x  # noqa: F841  # wrong
            q, k, v = self.qkv(x)
            return self.norm(self.attend(self.scores(q, k), v))

    return PostNorm(), some_x(2, 6, 10), {"num_heads": 3}


@case("value-unused")
def places_of_the_values_given_and_not_added():
    class Placed(Parts):
        def forward(self, x, places_k, places_v):  # wrong
            q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x) + places_k), self.split(self.v_proj(x))
            return self.attend(self.scores(q, k), v)

    table_k, table_v = torch.randn(2, 1, 8, 12, generator=torch.Generator().manual_seed(5))

    def call(code, x):
        num_tokens = x.shape[1]
        return code(x, table_k[:, :num_tokens].to(x), table_v[:, :num_tokens].to(x))

    return Placed(d_in=10, heads=3, head_dim=4), some_x(2, 6, 10), {"num_heads": 3, "call": call}


@case(None)
def changed_in_place_and_named_again():
    class InPlace(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            scores = self.scores(q, k)
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            hidden = scores.masked_fill_(future, -torch.inf)  # noqa: F841
            return self.merge(scores.softmax(-1) @ v)

    return InPlace(d_in=10, heads=2, head_dim=6), some_x(2, 7, 10), {"num_heads": 2}


@case("value-unused")
def second_term_of_the_output_dropped():
    class Dropped(Parts):
        def local(self, v):
            return torch.cat((v[:, :, :1], (v[:, :, 1:] + v[:, :, :-1]) / 2), 2)

        def forward(self, x):
            q, k, v = self.qkv(x)
            context = causal_softmax(self.scores(q, k)) @ v
            context + self.local(v)  # wrong
            return self.merge(context)

    return Dropped(d_in=11, heads=2, head_dim=4), some_x(2, 6, 11), {"num_heads": 2}


# ---------------------------------------------------------------------------------------- values-misaligned


class Memory(nn.Module):
    """Two learned keys and values beside those of the tokens."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.more = nn.Parameter(torch.randn(2, 2, width, generator=torch.Generator().manual_seed(3)))

    def attend(self, q, k, v):
        q, k, v = (heads_of(t, self.heads) for t in (q, k, v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@case("values-misaligned")
def memory_at_the_other_end():
    class InFront(Memory):
        def forward(self, x):
            more_k, more_v = self.more.unsqueeze(1).expand(-1, len(x), -1, -1)
            k = torch.cat((self.k(x), more_k), 1)
            v = torch.cat((more_v, self.v(x)), 1)  # wrong
            return self.attend(self.q(x), k, v)

    torch.manual_seed(0)
    return InFront(12, 3), some_x(2, 5, 12), {"num_heads": 3, "causal": False}


@case("values-misaligned")
def values_backwards():
    class Backwards(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            weights = causal_softmax(self.scores(q, k))
            return self.merge(weights @ v.flip(-2))  # wrong

    return Backwards(d_in=9, heads=2, head_dim=5), some_x(2, 6, 9), {"num_heads": 2}


@case("values-misaligned")
def values_of_the_next_token():
    class Next(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            v = torch.cat((v[:, :, 1:], v[:, :, -1:]), 2)  # wrong
            return self.merge(self.scores(q, k).softmax(-1) @ v)

    return Next(d_in=10, heads=3, head_dim=4), some_x(2, 7, 10), {"num_heads": 3, "causal": False}


@case("values-misaligned")
def values_rolled_by_one():
    class Rolled(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.merge(torch.einsum("bhqk,bhkd->bhqd", causal_softmax(self.scores(q, k)), v.roll(1, 2)))  # wrong

    return Rolled(d_in=8, heads=2, head_dim=6), some_x(2, 5, 8), {"num_heads": 2}


@case(None)
def memory_at_the_same_end():
    class Joined(Memory):
        def forward(self, x):
            more_k, more_v = self.more.unsqueeze(1).expand(-1, len(x), -1, -1)
            k, v = torch.cat((more_k, self.k(x)), 1), torch.cat((more_v, self.v(x)), 1)
            return self.attend(self.q(x), k, v)

    torch.manual_seed(0)
    return Joined(12, 3), some_x(2, 5, 12), {"num_heads": 3, "causal": False, "normalised": False}


@case(None)
def both_backwards():
    class Backwards(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.merge(self.scores(q, k.flip(2)).softmax(-1) @ v.flip(2))

    return Backwards(d_in=10, heads=3, head_dim=4), some_x(2, 6, 10), {"num_heads": 3, "causal": False}


# ---------------------------------------------------------------------------------------- roles-exchanged


@case("roles-exchanged")
def norms_of_queries_and_keys_exchanged():
    class Normed(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.q_norm, self.k_norm = nn.RMSNorm(6), nn.RMSNorm(6)

        def forward(self, x):
            q, k, v = self.qkv(x)
            q, k = self.k_norm(q), self.q_norm(k)  # wrong
            return self.attend(self.scores(q, k), v)

    return Normed(), some_x(2, 5, 10), {"num_heads": 2}


@case(None)  # CodeGen's are in this order; a remark says so
def packed_weights_taken_apart_in_another_order():
    class Packed(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.to_qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, v, k = (heads_of(t, self.heads) for t in self.to_qkv(x).chunk(3, -1))
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    torch.manual_seed(0)
    return Packed(12, 3), some_x(2, 7, 12), {"num_heads": 3}


@case(None)
def keys_and_values_of_a_latent_split_in_another_order():
    class Latent(nn.Module):
        def __init__(self, width, heads, latent, head_dim):
            super().__init__()
            self.heads, self.head_dim = heads, head_dim
            self.q, self.down = nn.Linear(width, heads * head_dim), nn.Linear(width, latent)
            self.kv_up, self.o = nn.Linear(latent, 2 * heads * head_dim), nn.Linear(heads * head_dim, width)

        def forward(self, x):
            kv = heads_of(self.kv_up(self.down(x)), self.heads)
            v, k = kv.split([self.head_dim, self.head_dim], -1)
            scores = heads_of(self.q(x), self.heads) @ k.mT * self.head_dim**-0.5
            return self.o((causal_softmax(scores) @ v).transpose(1, 2).flatten(2))

    torch.manual_seed(0)
    return Latent(11, 2, 6, 5), some_x(2, 6, 11), {"num_heads": 2}


@case("roles-exchanged")
def keys_made_by_the_projection_of_the_values():
    class Crossed(Parts):
        def forward(self, x):
            q = self.split(self.q_proj(x))
            k, v = self.split(self.v_proj(x)), self.split(self.k_proj(x))  # wrong
            return self.attend(self.scores(q, k), v)

    return Crossed(d_in=9, heads=3, head_dim=4), some_x(2, 5, 9), {"num_heads": 3}


@case("roles-exchanged")
def norm_of_the_keys_on_the_values():
    class Normed(Parts):
        def __init__(self):
            super().__init__(d_in=9, heads=2, head_dim=5)
            self.q_norm, self.k_norm = nn.LayerNorm(5), nn.LayerNorm(5)

        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(self.q_norm(q), k), self.k_norm(v))  # wrong

    return Normed(), some_x(2, 6, 9), {"num_heads": 2}


@case(None)
def norm_of_the_keys_on_keys_and_values():
    class Shared(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=2, head_dim=6)
            self.norm_q, self.norm_k = nn.LayerNorm(10), nn.LayerNorm(10)

        def forward(self, x):
            context = self.norm_k(x)
            q, k, v = self.q_proj(self.norm_q(x)), self.k_proj(context), self.v_proj(context)
            q, k, v = (self.split(t) for t in (q, k, v))
            return self.attend(self.scores(q, k), v)

    return Shared(), some_x(2, 7, 10), {"num_heads": 2}


@case(None)
def packed_in_the_order_of_its_local_name():
    class Packed(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.to_qvk, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            qkv = self.to_qvk(x)
            q, k, v = (heads_of(t, self.heads) for t in qkv.chunk(3, -1))
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    torch.manual_seed(0)
    return Packed(12, 2), some_x(2, 6, 12), {"num_heads": 2}


@case(None)
def packed_as_it_is_called():
    class Packed(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.kvq, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            k, v, q = (heads_of(t, self.heads) for t in self.kvq(x).chunk(3, -1))
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    torch.manual_seed(0)
    return Packed(10, 2), some_x(2, 7, 10), {"num_heads": 2}


@case(None)
def biases_of_content_and_place():
    class TwoBiases(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=3, head_dim=4)
            self.bias_u, self.bias_v = (nn.Parameter(torch.randn(3, 1, 4)) for _ in range(2))
            self.places = nn.Parameter(torch.randn(3, 4, 16))

        def forward(self, x):
            q, k, v = self.qkv(x)
            by_place = (q + self.bias_v) @ self.places[..., : x.shape[1]] * self.head_dim**-0.5
            return self.attend(self.scores(q + self.bias_u, k) + by_place, v)

    return TwoBiases(), some_x(2, 6, 10), {"num_heads": 3}


# ---------------------------------------------------------------------------------------- depends-on-length


class Relative(Parts):
    """A learned score for each distance, from a table whose last row is for the token itself."""

    def __init__(self, most=11):
        super().__init__(d_in=9, heads=2, head_dim=5)
        self.most, self.table = most, nn.Parameter(torch.randn(most, 5))

    def with_distances(self, q, rows):
        by_row = q @ rows.mT  # the last of the rows is for the distance 0
        num_tokens = q.shape[-2]
        at = torch.arange(num_tokens, device=q.device)
        row = (num_tokens - 1 - at[:, None] + at).clamp(max=num_tokens - 1)
        return by_row.gather(-1, row.expand(*by_row.shape[:2], -1, -1))


@case("depends-on-length")
def distances_from_the_wrong_end_of_the_table():
    class WrongEnd(Relative):
        def forward(self, x):
            q, k, v = self.qkv(x)
            rows = self.table[: x.shape[1]]  # wrong
            return self.attend(self.scores(q, k) + self.with_distances(q, rows), v)

    return WrongEnd(), some_x(2, 6, 9), {"num_heads": 2}


@case("depends-on-length")
def places_counted_from_the_end():
    class FromTheEnd(Parts):
        def __init__(self):
            super().__init__(d_in=10, heads=3, head_dim=4)
            self.places = nn.Embedding(16, 10)

        def forward(self, x):
            at = torch.arange(x.shape[1], device=x.device).flip(0)  # wrong
            q, k, v = self.qkv(x + self.places(at))
            return self.attend(self.scores(q, k), v)

    return FromTheEnd(), some_x(2, 5, 10), {"num_heads": 3}


@case("depends-on-length")
def output_divided_by_the_number_of_tokens():
    class Divided(Parts):
        def forward(self, x):
            q, k, v = self.qkv(x)
            return self.attend(self.scores(q, k), v) / x.shape[1]

    return Divided(d_in=8, heads=2, head_dim=6), some_x(2, 7, 8), {"num_heads": 2}
