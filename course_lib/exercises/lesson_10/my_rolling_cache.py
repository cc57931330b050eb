# pyright: reportIndexIssue=false
"""A rolling cache of one's own."""

import torch
from torch import nn

from course_lib.exercises.cache_exercise import CacheExercise

from .rolling_slot import rolling_slot


class MyRollingCache(nn.Module):
    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__()
        room = torch.zeros(batch, num_kv_heads, num_sinks + window, head_dim)
        self.register_buffer("keys", room)
        self.register_buffer("values", room.clone())
        self.window, self.num_sinks = window, num_sinks
        self.length = 0  # tokens so far, those that were overwritten included

    def forward(self, key, value):
        # 2 x (b, g, 1, d) -> 2 x (b, g, kept, d): the sinks and the window
        slot = rolling_slot(self.length, self.window, self.num_sinks)
        self.keys[:, :, slot] = key[:, :, 0]
        self.values[:, :, slot] = value[:, :, 0]
        self.length += 1
        kept = min(self.length, self.num_sinks + self.window)
        return self.keys[:, :, :kept], self.values[:, :, :kept]


EXERCISE = CacheExercise(
    MyRollingCache,
    title="A rolling cache",
    difficulty=3,
    minutes=6,
    rolling=True,
    prompt=(
        "A cache that never grows: it reserves `num_sinks + window` slots once, in buffers, and keeps the first "
        "`num_sinks` tokens and the newest `window` others. `forward` gets the key and the value of *one* new token, "
        "each (b, g, 1, d), writes them into the token's slot, adds one to `length`, the number of all tokens so far, "
        "and returns the keys and the values that it keeps, the new token's among them, in any order."
    ),
    hints=(
        "The constructor is that of `MyCache` in lesson 09, with fewer slots. Keep `window` and `num_sinks` as well.",
        "The new token's position is `self.length`, so `slot = rolling_slot(self.length, self.window, self.num_sinks)`. "
        "Write into `self.keys[:, :, slot]`, which has no axis for the token: `key[:, :, 0]`.",
        "While the cache fills, only the first `self.length` slots hold a token. After that all of them do: "
        "`kept = min(self.length, self.num_sinks + self.window)`.",
    ),
    wrong="""
room.clone() => room
    the values twice: keys and values are written into the same memory
    ? How many tensors does `torch.zeros` make in your `__init__`? Two names of one tensor are no copy.
return self.keys[:, :, :kept], self.values[:, :, :kept] => return self.keys, self.values
    all slots, also those that no token has filled yet
    ? Which weight would a key of zeros get from softmax?
return self.keys[:, :, :kept], self.values[:, :, :kept] => return key, value
    the new token alone [token-missing-from-cache]
    ? The next score product needs the keys of the whole window. Where are they?
(self.length, self.window, self.num_sinks) => (self.length, self.window, 0)
    a cache whose sinks are overwritten when the window has gone round
    ? Into which slots may no later token be written?
(self.length, self.window, self.num_sinks) => (self.length, self.num_sinks + self.window, 0)
    one circle over all slots: the sinks are overwritten, and the window is longer by as many tokens
    ? Into which slots may no later token be written?
(self.length, self.window, self.num_sinks) => (self.length + 1, self.window, self.num_sinks)
    the tokens in the slots of their successors: the length was counted before the slot was computed [window-off-by-one]
    ? What is the position of the very first token, and what is `length` when it comes?
kept = min(self.length, self.num_sinks + self.window) => kept = min(self.length, self.window)
    as many tokens as the window has, the sinks counted among them [window-off-by-one]
    ? How many slots are filled when the cache has been full once?
self.length += 1 => self.length = slot + 1
    tokens that are counted round the ring, so that the cache takes itself for empty again [stale-cache]
    ? What does the attention read from `length`, and what would the next token's position be?
] = value[:, :, 0] => ] = key[:, :, 0]
    the keys in place of the values [projection-reused]
    ? What do you write into `values`?
""",
)
