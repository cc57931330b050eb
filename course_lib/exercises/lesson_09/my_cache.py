# pyright: reportIndexIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false, reportReturnType=false
"""A key-value cache of one's own."""

import torch
from torch import nn

from course_lib.exercises.cache_exercise import CacheExercise


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


EXERCISE = CacheExercise(
    MyCache,
    title="A key-value cache",
    difficulty=3,
    minutes=5,
    prompt=(
        "A cache has room for `max_len` tokens, which it reserves once, in buffers, and holds `length` of them. `forward` gets the keys and values of the "
        "new tokens, writes them behind those that are there, adds to `length`, and returns the keys and the values "
        "of all tokens so far, the oldest first. If there is no room for the new tokens, it raises a ValueError."
    ),
    hints=(
        "The new tokens go to the slots from `self.length` to `end`, where `end = self.length + keys.shape[2]`.",
        "`self.keys[:, :, self.length : end] = keys`, the same for the values, then `self.length = end`.",
    ),
    wrong="""
room.clone() => room
    the values twice: keys and values are written into the same memory
    ? How many tensors does `torch.zeros` make in your `__init__`? Two names of one tensor are no copy.
return self.keys[:, :, :end], self.values[:, :, :end] => return keys, values
    the new tokens alone: the old ones are forgotten [token-missing-from-cache]
    ? The next score product needs the keys of all tokens so far. Where are the earlier ones?
return self.keys[:, :, :end], self.values[:, :, :end] => return self.keys, self.values
    the whole room, with zeros where no token is yet
    ? Which weight would a key of zeros get from softmax?
return self.keys[:, :, :end], self.values[:, :, :end] => return self.keys[:, :, : end - keys.shape[2]], self.values[:, :, : end - keys.shape[2]]
    the tokens before the new ones: a token must see itself, too [token-missing-from-cache]
    ? Where does your slice end: at the old or the new length?
self.length = end => self.length += 1
    tokens that were counted per call, although a call may bring several [stale-cache]
    ? By how much does the length grow when three tokens come?
] = values => ] = keys
    the keys in place of the values [projection-reused]
    ? What do you write into `values`?
(self, keys, values) => (self, values, keys)
    keys and values exchanged
    ? In which order do keys and values come in, and in which do they go out?
""",
)
