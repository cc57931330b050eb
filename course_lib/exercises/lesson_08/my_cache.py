# pyright: reportIndexIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false
"""A key-value cache of one's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.exercises.cache_exercise import CacheExercise
from course_lib.exercises.exercise import Wrong


class MyCache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        room = torch.zeros(batch, num_kv_heads, max_len, head_dim)
        self.register_buffer("keys", room)
        self.register_buffer("values", room.clone())
        self.length = 0  # tokens so far

    def forward(self, keys, values):
        # 2 x (b, g, new, d) -> 2 x (b, g, length, d): all tokens so far
        end = self.length + keys.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"the cache has no room for {end} tokens")
        self.keys[:, :, self.length : end] = keys
        self.values[:, :, self.length : end] = values
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class _OneRoom(MyCache):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.values = self.keys


class _NewOnly(MyCache):
    def forward(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return keys, values


class _WholeRoom(MyCache):
    def forward(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        super().forward(keys, values)
        return self.keys, self.values


class _CountsCalls(MyCache):
    def forward(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        before = self.length
        found = super().forward(keys, values)
        self.length = before + 1
        return found


class _LateLength(MyCache):
    def forward(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        start = self.length
        super().forward(keys, values)
        return self.keys[:, :, :start], self.values[:, :, :start]


class _KeysTwice(MyCache):
    def forward(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(keys, keys)


class _Exchanged(MyCache):
    def forward(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(values, keys)


EXERCISE = CacheExercise(
    MyCache,
    title="A key-value cache",
    difficulty=3,
    minutes=4,
    prompt=(
        "A cache has room for `max_len` tokens and holds `length` of them. `forward` gets the keys and values of the "
        "new tokens, writes them behind those that are there, adds to `length`, and returns the keys and the values "
        "of all tokens so far, the oldest first."
    ),
    hints=(
        "The new tokens go to the slots from `self.length` to `end`, where `end = self.length + keys.shape[2]`.",
        "`self.keys[:, :, self.length : end] = keys`, the same for the values, then `self.length = end`.",
    ),
    wrong=(
        Wrong(
            "the values twice: keys and values are written into the same memory",
            _OneRoom,
            hint="How many tensors does `torch.zeros` make in your `__init__`? Two names of one tensor are no copy.",
        ),
        Wrong(
            "the new tokens alone: the old ones are forgotten",
            _NewOnly,
            "token-missing-from-cache",
            "The next score product needs the keys of all tokens so far. Where are the earlier ones?",
        ),
        Wrong(
            "the whole room, with zeros where no token is yet",
            _WholeRoom,
            hint="Which weight would a key of zeros get from softmax?",
        ),
        Wrong(
            "the tokens before the new ones: a token must see itself, too",
            _LateLength,
            "token-missing-from-cache",
            "Where does your slice end: at the old or the new length?",
        ),
        Wrong(
            "tokens that were counted per call, although a call may bring several",
            _CountsCalls,
            "stale-cache",
            "By how much does the length grow when three tokens come?",
        ),
        Wrong("the keys in place of the values", _KeysTwice, "projection-reused", "What do you write into `values`?"),
        Wrong(
            "keys and values exchanged",
            _Exchanged,
            hint="In which order do keys and values come in, and in which do they go out?",
        ),
    ),
)
