"""Attention with caches of several conventions, right or with one mistake; none of their names is the doctor's."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS = 12, 3


class Cached(nn.Module):
    """Causal attention of three heads, the state of which is handed on as subclasses say.

    `mistake`: "top left", the mask of a piece is aligned with the first key; "window lost", later pieces see more than
    the three last tokens; "restart", positions count from 0 in each piece; "newest missing", "" for none.
    """

    def __init__(self, mistake: str = "", window: int | None = None, positions: bool = False) -> None:
        super().__init__()
        self.mistake, self.window = mistake, window
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.place = nn.Embedding(32, WIDTH) if positions or mistake == "restart" else None

    def heads(self, x: Tensor, start: int) -> list[Tensor]:
        if self.place is not None:
            first = 0 if self.mistake == "restart" else start
            x = x + self.place(torch.arange(first, first + x.shape[1], device=x.device))
        return [f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        queries, keys = q.shape[2], k.shape[2]
        ones = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        keep = ones.tril(0 if self.mistake == "top left" else keys - queries)
        if self.window is not None and (self.mistake != "window lost" or keys == queries):
            keep = keep & ones.triu(keys - queries - self.window + 1)
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2))


class Returned(Cached):
    """The state is returned beside the output and taken back in."""

    def forward(self, x, state=None):
        q, k, v = self.heads(x, 0 if state is None else state[0].shape[2])
        if state is not None:
            old = state[1][:, :, :-1] if self.mistake == "newest missing" else state[1]
            k, v = torch.cat([state[0], k], 2), torch.cat([old, v], 2)
            k = k[:, :, -v.shape[2] :]
        return self.attend(q, k, v), (k, v)


class TwoReturned(Cached):
    """Keys and values are returned and taken one by one."""

    def forward(self, x, k_before=None, v_before=None):
        q, k, v = self.heads(x, 0 if k_before is None else k_before.shape[2])
        if k_before is not None:
            k, v = torch.cat([k_before, k], 2), torch.cat([v_before, v], 2)
        return self.attend(q, k, v), k, v


class Asked(Cached):
    """The state is returned only if it is asked for."""

    def forward(self, x, before=None, keep_going=False):
        q, k, v = self.heads(x, 0 if before is None else before[0].shape[2])
        if before is not None:
            k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
        y = self.attend(q, k, v)
        return (y, (k, v)) if keep_going else y


class Filled(Cached):
    """The caller gives a list, which is filled."""

    def forward(self, x, store=None):
        q, k, v = self.heads(x, store[0].shape[2] if store else 0)
        if store is not None:
            if store:
                k, v = torch.cat([store[0], k], 2), torch.cat([store[1], v], 2)
            store[:] = [k, v]
        return self.attend(q, k, v)


class Buffers(Cached):
    """The state is written into buffers of the module, where the caller says."""

    def __init__(self, mistake: str = "", **more) -> None:
        super().__init__(mistake, **more)
        for name in ("ck", "cv"):
            self.register_buffer(name, torch.zeros(4, HEADS, 32, WIDTH // HEADS), persistent=False)

    def forward(self, x, start=0):
        q, k, v = self.heads(x, start)
        end = start + x.shape[1]
        self.ck[: len(x), :, start:end], self.cv[: len(x), :, start:end] = k.detach(), v.detach()
        return self.attend(q, self.ck[: len(x), :, :end].to(q.dtype), self.cv[: len(x), :, :end].to(q.dtype))


class Flagged(Cached):
    """The module keeps the state in itself if it is asked to, and counts."""

    def __init__(self, mistake: str = "", **more) -> None:
        super().__init__(mistake, **more)
        self.kept = None

    def forward(self, x, go_on=False):
        before = self.kept if go_on else None
        q, k, v = self.heads(x, 0 if before is None else before[0].shape[2])
        if before is not None:
            k, v = torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)
        if go_on:
            self.kept = k, v
        return self.attend(q, k, v)


class Objects(Cached):
    """The caller makes an object of a class of its own, which stores keys and values."""

    def forward(self, x, memory=None):
        q, k, v = self.heads(x, 0 if memory is None else memory.seen())
        if memory is not None:
            k, v = memory.update(k, v, 0)
        return self.attend(q, k, v)


class Checked(Objects):
    """A class is asked for, which nobody can guess."""

    def forward(self, x, memory=None):
        if memory is not None and not isinstance(memory, dict):
            memory.update(self.k(x), self.v(x))
            raise TypeError("memory must be a Memory")
        return super().forward(x)


CONVENTIONS = (Returned, TwoReturned, Asked, Filled, Buffers, Flagged, Objects)
