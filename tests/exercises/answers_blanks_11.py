"""Answers to the blanks of lesson 11, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import apply_rotary, rotary_table
from tests.exercises.written_answers import variant


def queries_by_loop(queries, key_up):
    return torch.stack([query @ part for query, part in zip(queries, key_up.chunk(len(queries)), strict=True)])


def blocks_by_loop(memory, block_table, length):
    size = memory.shape[1]
    return torch.stack([memory[block_table[at // size], at % size] for at in range(length)])


def blocks_by_index(memory, block_table, length):
    at = torch.arange(length)
    return memory[torch.tensor(block_table)[at // memory.shape[1]], at % memory.shape[1]]


class Latent(nn.Module):
    """Another order of steps, and PyTorch's fused function on keys of latent and rotary part."""

    def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=100.0):
        super().__init__()
        self.sizes = num_heads, latent_dim, head_dim, rotary_dim, base
        self.out_proj = nn.Linear(num_heads * head_dim, d_in, bias=False)
        self.q_proj = nn.Linear(d_in, num_heads * head_dim, bias=False)
        self.rotary_q_proj = nn.Linear(d_in, num_heads * rotary_dim, bias=False)
        self.latent_proj = nn.Linear(d_in, latent_dim, bias=False)
        self.latent_norm = nn.RMSNorm(latent_dim, eps=1e-6)
        self.rotary_k_proj = nn.Linear(d_in, rotary_dim, bias=False)
        self.k_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)

    def parts(self, x, cache):
        heads, _, _, rotary, base = self.sizes
        start = cache.length if cache is not None else 0
        table = [one[start:].to(x) for one in rotary_table(start + x.shape[1], rotary, rope_theta=base)]
        queries = self.q_proj(x).unflatten(2, (heads, -1)).transpose(1, 2)
        turned = apply_rotary(self.rotary_q_proj(x).unflatten(2, (heads, -1)).transpose(1, 2), *table)
        key = apply_rotary(self.rotary_k_proj(x).unsqueeze(1), *table)
        latent = self.latent_norm(self.latent_proj(x)).unsqueeze(1)
        if cache is not None:
            key, latent = cache.append(key, latent)
        return queries, turned, key, latent

    def forward(self, x, cache=None):
        heads, _, width, rotary, _ = self.sizes
        queries, turned, key, latent = self.parts(x, cache)
        up = self.k_proj.weight.view(heads, width, -1)
        absorbed = torch.cat([queries @ up, turned], dim=-1)
        keys = torch.cat([latent, key], dim=-1).expand(-1, heads, -1, -1)
        seen = torch.ones(x.shape[1], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - x.shape[1])
        values = latent.expand(-1, heads, -1, -1)
        scale = (width + rotary) ** -0.5
        mixed = F.scaled_dot_product_attention(absorbed, keys, values, attn_mask=seen, scale=scale)
        context = torch.einsum("bhtl,hdl->bthd", mixed, self.v_proj.weight.view(heads, width, -1))
        return self.out_proj(context.flatten(2))


class ProjectsUp(Latent):
    """Multi-head attention, with the keys and values made from all latents."""

    def forward(self, x, cache=None):
        heads, _, width, rotary, _ = self.sizes
        queries, turned, key, latent = self.parts(x, cache)
        keys, values = (up(latent[:, 0]).unflatten(2, (heads, -1)).transpose(1, 2) for up in (self.k_proj, self.v_proj))
        scores = (queries @ keys.mT + turned @ key.mT) / (width + rotary) ** 0.5
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1 + scores.shape[3] - scores.shape[2]).to(x)
        return self.out_proj((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


class AbsorbsInSteps(ProjectsUp):
    """A long prompt is projected up, and a single new token absorbed, as the library does it."""

    def forward(self, x, cache=None):
        return (Latent if x.shape[1] == 1 else ProjectsUp).forward(self, x, cache)


class AbsorbsOnce(Latent):
    """Query and key projection are one matrix for each head, and the rotary part is mixed along with the latent."""

    def forward(self, x, cache=None):
        heads, latent_dim, width, rotary, _ = self.sizes
        _, turned, key, latent = self.parts(x, cache)
        up, value_up = (one.weight.unflatten(0, (heads, width)) for one in (self.k_proj, self.v_proj))
        both = self.q_proj.weight.unflatten(0, (heads, width)).mT @ up  # (h, m, l)
        scores = torch.cat([x[:, None] @ both, turned], -1) @ torch.cat([latent, key], -1).mT
        hidden = torch.ones(scores.shape[-2:]).triu(1 + scores.shape[3] - scores.shape[2]).bool()
        weights = scores.div((width + rotary) ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        mixed = (weights @ torch.cat([latent, key], -1))[..., :latent_dim] @ value_up.mT
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class OneBase(Latent):
    def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=100.0):
        super().__init__(d_in, num_heads, latent_dim, head_dim, rotary_dim, 100.0)


class NoEpsilon(Latent):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.latent_norm = nn.RMSNorm(sizes[2])


class Exchanged:
    """A cache whose two parts are handed over in the other order."""

    def __init__(self, cache):
        self.cache, self.length = cache, cache.length

    def append(self, key, latent):
        return self.cache.append(latent, key)[::-1]


class Joined(Exchanged):
    """Both parts go in as one, under the name of the second."""

    def append(self, key, latent):
        both = torch.cat([key, latent], -1)
        _, both = self.cache.append(both[..., :0], both)
        return both.split([key.shape[-1], latent.shape[-1]], -1)


KeepsJoined = variant(Latent, parts=lambda self, x, cache: Latent.parts(self, x, cache and Joined(cache)))


class KeepsUnrotated(ProjectsUp):
    """Right outputs, from keys that are cached before their rotation and all rotated in each step."""

    def parts(self, x, cache):
        heads, _, _, rotary, base = self.sizes
        start = cache.length if cache is not None else 0
        table = [one.to(x) for one in rotary_table(start + x.shape[1], rotary, rope_theta=base)]
        queries = self.q_proj(x).unflatten(2, (heads, -1)).transpose(1, 2)
        turned = self.rotary_q_proj(x).unflatten(2, (heads, -1)).transpose(1, 2)
        key, latent = self.rotary_k_proj(x)[:, None], self.latent_norm(self.latent_proj(x))[:, None]
        if cache is not None:
            key, latent = cache.append(key, latent)
        return queries, apply_rotary(turned, *(one[start:] for one in table)), apply_rotary(key, *table), latent


class WithBias(Latent):
    def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=100.0):
        super().__init__(d_in, num_heads, latent_dim, head_dim, rotary_dim, base)
        self.out_proj = nn.Linear(num_heads * head_dim, d_in)


class OtherNames(Latent):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.down = self.latent_proj
        del self.latent_proj

    def parts(self, x, cache):
        object.__setattr__(self, "latent_proj", self.down)
        return super().parts(x, cache)


class NormsTheQueries(Latent):
    def parts(self, x, cache):
        queries, turned, key, latent = super().parts(x, cache)
        return F.normalize(queries, dim=-1), turned, key, latent


class WrongWithFourHeads(Latent):
    def parts(self, x, cache):
        queries, turned, key, latent = super().parts(x, cache)
        return queries * (1 if self.sizes[0] % 2 else 0.5), turned, key, latent


class LosesGradients(Latent):
    def parts(self, x, cache):
        queries, turned, key, latent = super().parts(x, cache)
        return queries, turned, key.detach(), latent


RIGHT = {
    "latent_queries": [
        queries_by_loop,
        lambda q, w: torch.einsum("hqd,hdl->hql", q, w.unflatten(0, (len(q), -1))),
        lambda q, w: torch.bmm(q, w.reshape(q.shape[0], q.shape[2], w.shape[1])),
    ],
    "gather_blocks": [
        blocks_by_loop,
        blocks_by_index,
        lambda m, t, n: torch.cat([m[block] for block in t])[:n],
    ],
    "MyLatentAttention": [Latent, AbsorbsInSteps, AbsorbsOnce],
}

WRONG = {
    "latent_queries": [
        (lambda q, w: q @ w, "stopped"),
        (lambda q, w: q @ w.view(len(q), q.shape[2], -1).flip(0), "counted from the end"),
    ],
    "gather_blocks": [
        (lambda m, t, n: m[t], "has the shape"),
    ],
    "MyLatentAttention": [
        (KeepsUnrotated, "other numbers than the rotated key"),
        (WithBias, "`out_proj.bias` that nobody asks for"),
        (OtherNames, "no parameter `latent_proj.weight`"),
        (NormsTheQueries, "be"),
        (WrongWithFourHeads, "be"),
        (LosesGradients, "gradient of"),
        (ProjectsUp, "as much for each cached token", "once with the new one"),
        (OneBase, "base"),
        (NoEpsilon, "Which epsilon?"),
        (KeepsJoined, "stopped", "wide"),
    ],
}
