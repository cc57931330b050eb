# pyright: reportIndexIssue=false, reportArgumentType=false
"""Latent attention in the absorbed form."""

import torch
from torch import nn

from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.layer_exercise import LayerExercise
from course_lib.exercises.lesson_04.to_heads import to_heads
from course_lib.exercises.lesson_07.rotary_table import rotary_table
from course_lib.exercises.lesson_07.rotate import rotate

CACHE = """\
import torch

class Cache:
    def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=None):
        self.widths = rotary_dim, latent_dim
        self.rotary_keys = self.latents = None
        self.length = 0

    def append(self, rotary_keys, latents):
        for name, one, width in zip(("rotary keys", "latents"), (rotary_keys, latents), self.widths):
            if one.dim() != 4 or one.shape[1] != 1:
                raise ValueError(f"the cache has one head, (b, 1, t, width), and the new {name} are {tuple(one.shape)}")
            if one.shape[3] != width:
                raise ValueError(f"the cache keeps {name} of width {width}, and the new ones are {one.shape[3]} wide")
        if self.length:
            rotary_keys = torch.cat([self.rotary_keys, rotary_keys], dim=2)
            latents = torch.cat([self.latents, latents], dim=2)
        self.rotary_keys, self.latents = rotary_keys, latents
        self.length = latents.shape[2]
        return rotary_keys, latents
"""


class MyLatentAttention(nn.Module):
    def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=100.0):
        super().__init__()
        self.num_heads, self.head_dim, self.rotary_dim = num_heads, head_dim, rotary_dim
        self.q_proj = nn.Linear(d_in, num_heads * head_dim, bias=False)
        self.rotary_q_proj = nn.Linear(d_in, num_heads * rotary_dim, bias=False)
        self.latent_proj = nn.Linear(d_in, latent_dim, bias=False)  # down
        self.latent_norm = nn.RMSNorm(latent_dim, eps=1e-6)
        self.rotary_k_proj = nn.Linear(d_in, rotary_dim, bias=False)
        self.k_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)  # up
        self.v_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, d_in, bias=False)
        self.base = base

    def forward(self, x, cache=None):  # (batch, token, d_in) -> the same shape
        start = 0 if cache is None else cache.length
        table = rotary_table(start + x.shape[1], self.rotary_dim, self.base)
        cos, sin = (one[start:].to(x) for one in table)  # of the new tokens
        queries = to_heads(self.q_proj(x), self.num_heads)  # (b, h, t, d)
        rotary_queries = to_heads(self.rotary_q_proj(x), self.num_heads)  # (b, h, t, r)
        rotary_queries = rotate(rotary_queries, cos, sin)
        rotary_keys = rotate(self.rotary_k_proj(x)[:, None], cos, sin)  # (b, 1, t, r)
        latents = self.latent_norm(self.latent_proj(x))[:, None]  # (b, 1, t, l)
        if cache is not None:
            rotary_keys, latents = cache.append(rotary_keys, latents)
        # (h * d, l) -> (h, d, l)
        key_up = self.k_proj.weight.unflatten(0, (self.num_heads, -1))
        value_up = self.v_proj.weight.unflatten(0, (self.num_heads, -1))
        # (b, h, q, d) @ (h, d, l) @ (b, 1, l, k) -> (b, h, q, k)
        scores = queries @ key_up @ latents.transpose(2, 3)
        scores = scores + rotary_queries @ rotary_keys.transpose(2, 3)
        scores = scores * (self.head_dim + self.rotary_dim) ** -0.5
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
        seen = seen.tril(scores.shape[-1] - scores.shape[-2])
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        # (b, h, q, k) @ (b, 1, k, l) @ (h, l, d) -> (b, h, q, d)
        context = weights @ latents @ value_up.transpose(1, 2)
        return self.out_proj(context.transpose(1, 2).flatten(2))


def _sizes(rng: InputGenerator) -> list[tuple[int, ...]]:
    # No width, nor that of all heads, fits in the place of another; the second layer has another base and, as the
    # storyteller, four heads: a mistake may need an even number.
    drawn = []
    for more in ((), (rng.choice((30, 50, 70)),)):
        num_heads, head_dim, _ = rng.shuffled((3, 5, 7))
        if more:
            num_heads = 4
        d_in, latent_dim, rotary_dim = rng.choice((23, 29, 31)), rng.choice((9, 11, 13)), rng.choice((6, 8))
        drawn.append((d_in, num_heads, latent_dim, head_dim, rotary_dim, *more))
    return drawn


EXERCISE = LayerExercise(
    MyLatentAttention,
    title="Latent attention",
    difficulty=5,
    minutes=15,
    prompt=(
        "Causal latent attention without biases, in the absorbed form: a step makes no key and no value of a token "
        "that is cached. The layers are `q_proj` (d_in to h * head_dim), `rotary_q_proj` (d_in "
        "to h * rotary_dim), `latent_proj` (d_in to latent_dim), `latent_norm` (an `nn.RMSNorm` with eps=1e-6), "
        "`rotary_k_proj` (d_in to rotary_dim), `k_proj` and `v_proj` (latent_dim to h * head_dim), and `out_proj` (h * "
        "head_dim to d_in). A score is the sum of two products, of the queries with the keys that `k_proj` makes of the "
        "normed latents, and of the rotated queries with the rotated key that all heads share, divided by the root of "
        "head_dim + rotary_dim. With a cache, `cache.append(rotary_keys, latents)`, each (b, 1, new, width), stores "
        "what is new and returns that of all tokens so far; `cache.length` tokens were there before."
    ),
    hints=(
        "Make five things of `x`: queries (b, h, t, d), rotary queries (b, h, t, r), both with `to_heads`; one latent "
        "and one rotary key per token, (b, 1, t, l) and (b, 1, t, r). Rotate the two that are called so, with the rows "
        "of `rotary_table` that begin at `cache.length`. Only then comes the cache.",
        "The rows of `self.k_proj.weight` belong to head 0, then to head 1: "
        "`key_up = self.k_proj.weight.unflatten(0, (self.num_heads, -1))` is (h, d, l), and `queries @ key_up` are the "
        "absorbed queries. Add the two score products before you scale and mask.",
        "`context = weights @ latents @ value_up.transpose(1, 2)`: first each head mixes the latents, (b, h, q, l), and "
        "then its own matrix turns the mix into values, (b, h, q, d). After that everything is as in lesson 05.",
    ),
    sizes=_sizes,
    cache=(CACHE, "Cache"),
    per_token=lambda d_in, num_heads, latent_dim, head_dim, rotary_dim, *_: latent_dim + rotary_dim,
    holds="the rotated key and the normed latent",
    wrong="""
(self.head_dim + self.rotary_dim) ** -0.5 => (latents.shape[-1] + self.rotary_dim) ** -0.5
    scores that are divided by the root of the width that the absorbed queries have [wrong-scale]
    ? Absorbing changes no score. How wide was a query before?
(self.head_dim + self.rotary_dim) ** -0.5 => self.head_dim**-0.5
    scores that are divided by the root of head_dim alone [wrong-scale]
    ? Of how many products is a score the sum?
scores = scores * (self.head_dim + self.rotary_dim) ** -0.5 => pass
    scores that are not divided [missing-scale]
    ? By what are the scores divided before the softmax?
scores = scores + rotary_queries @ rotary_keys.transpose(2, 3) => pass
    scores without the part that knows the positions
    ? Where do the rotary queries meet the rotary keys?
rotary_keys = rotate(self.rotary_k_proj(x)[:, None], cos, sin) => rotary_keys = self.rotary_k_proj(x)[:, None]
    rotary keys that are not rotated
    ? The product should depend on the distance of two tokens. Which two are rotated for that?
rotary_queries = rotate(rotary_queries, cos, sin) => pass
    rotary queries that are not rotated
    ? The product should depend on the distance of two tokens. Which two are rotated for that?
self.latent_norm(self.latent_proj(x)) => self.latent_proj(x)
    latents that are not normed
    ? What stands between `latent_proj` and the cache?
self.k_proj.weight.unflatten(0, (self.num_heads, -1)) => self.k_proj.weight.unflatten(0, (-1, self.num_heads)).transpose(0, 1)
    rows of k_proj that are handed to the heads in turn
    ? Rows 0 to head_dim - 1 of `k_proj.weight` all belong to head 0.
self.v_proj.weight.unflatten(0, (self.num_heads, -1)) => self.v_proj.weight.unflatten(0, (-1, self.num_heads)).transpose(0, 1)
    rows of v_proj that are handed to the heads in turn
    ? Rows 0 to head_dim - 1 of `v_proj.weight` all belong to head 0.
self.v_proj.weight => self.k_proj.weight
    values that k_proj makes [projection-reused]
    ? Which layer projects the mix of latents up to values?
self.base = base => self.base = 100.0
    attention whose rotary positions have the default base, whatever the argument says
    ? Where does `forward` read `base`?
start = 0 if cache is None else cache.length => start = 0
    attention whose positions start at 0 with each piece [positions-restart-in-cache]
    ? How many tokens does the cache hold when a new one arrives?
rotary_keys, latents = cache.append(rotary_keys, latents) => cache.append(rotary_keys, latents)
    attention that forgets the pieces before [token-missing-from-cache]
    ? What does the cache return, and with what do you go on?
seen = seen.tril(scores.shape[-1] - scores.shape[-2]) => seen = seen.tril()
    attention whose mask begins in the top left corner, whatever the cache holds [causal-top-left]
    ? Two new tokens meet six latents. Which is the last that the first of them may see?
seen = seen.tril(scores.shape[-1] - scores.shape[-2]) => pass
    attention without a mask [no-causal-mask]
    ? What hides the tokens that come later?
context.transpose(1, 2).flatten(2) => context.reshape(*x.shape[:2], -1)
    heads that are merged without the transpose [merge-without-transpose]
    ? Which axis stands before the heads when you merge them?
""",
)
