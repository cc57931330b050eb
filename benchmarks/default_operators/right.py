"""Right attention in steps that an operator can replace, in one pass and token by token."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, MAX_TOKENS = 12, 3, 32


class Decoder(nn.Module):
    """Causal multi-head attention with rotary positions; each step is a method, so that one of them can go wrong."""

    num_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys, values = self.project(x)
        positions = self.positions(torch.arange(x.shape[1], device=x.device))
        queries, keys = self.rotate(queries, positions), self.rotate(keys, positions)
        return self.merge(self.attend(queries, keys, values, self.keep(x.shape[1], x.device)))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b, t, width) -> three times (b, h, t, d)."""
        queries, keys, values = (self.split(projection(x)) for projection in (self.q_proj, self.k_proj, self.v_proj))
        return queries, keys, values

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def positions(self, indices: Tensor) -> Tensor:
        return indices

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn each pair (i, i + d/2) by the angle of its position."""
        half = x.shape[-1] // 2
        speeds = 10.0 ** -torch.arange(half, device=x.device, dtype=x.dtype)
        angles = positions.to(x.dtype).unsqueeze(-1) * speeds
        first, second = x[..., :half], x[..., half:]
        turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.cat(turned, dim=-1)

    def keep(self, tokens: int, device: torch.device) -> Tensor:
        """(query, key), True = may attend."""
        return torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor) -> Tensor:
        scores = self.scores(queries, keys).masked_fill(~keep, float("-inf"))
        return self.dropout(self.softmax(scores)) @ values

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5

    def softmax(self, scores: Tensor) -> Tensor:
        return F.softmax(scores, dim=-1)

    def merge(self, heads: Tensor) -> Tensor:
        return self.o_proj(heads.transpose(1, 2).flatten(2))


class Encoder(Decoder):
    """The same without a mask."""

    def keep(self, tokens: int, device: torch.device) -> Tensor:
        return torch.ones(tokens, tokens, dtype=torch.bool, device=device)


class Cached(Decoder):
    """The decoder, token by token, with a cache of fixed room that every call begins anew."""

    def forward(self, x: Tensor) -> Tensor:
        self.start(x)
        return torch.cat([self.step(x[:, t : t + 1], t) for t in range(x.shape[1])], dim=1)

    def start(self, x: Tensor) -> None:
        room = x.new_zeros(2, len(x), self.num_heads, MAX_TOKENS, WIDTH // self.num_heads)
        self.kept_keys, self.kept_values = room[0], room[1]
        self.length = 0

    def step(self, token: Tensor, index: int) -> Tensor:
        query, key, value = self.project(token)
        position = self.positions(torch.tensor([index], device=token.device))
        query, key = self.rotate(query, position), self.rotate(key, position)
        keys, values = self.update(key, value)
        keep = torch.ones(1, keys.shape[2], dtype=torch.bool, device=token.device)
        return self.merge(self.attend(query, keys, values, keep))

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new key and value, and return all that are visible."""
        self.kept_keys[:, :, self.length], self.kept_values[:, :, self.length] = key[:, :, 0], value[:, :, 0]
        self.length += 1
        return self.kept_keys[:, :, : self.length], self.kept_values[:, :, : self.length]
