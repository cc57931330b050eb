"""Let a cache grow."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def append_to_cache(cache, keys, values):
    # 2 x (b, g, cached, d), 2 x (b, g, new, d) -> 2 x (b, g, cached + new, d)
    old_keys, old_values = cache
    return torch.cat([old_keys, keys], dim=2), torch.cat([old_values, values], dim=2)


EXERCISE = FunctionExercise(
    append_to_cache,
    title="Let a cache grow",
    difficulty=1,
    minutes=4,
    prompt=(
        "`cache` holds the keys and the values of the tokens so far, a tuple of two tensors of (batch, kv head, "
        "cached token, head_dim); before the first step they hold 0 tokens. `keys` and `values` are those of the new "
        "tokens, (batch, kv head, new token, head_dim). Give back the grown cache: the keys and the values of all "
        "tokens, the oldest first. That is what attention reads in this step, and what the next step gets. Leave the "
        "old cache as it is, and let a gradient reach it: whoever trains on long texts needs that."
    ),
    hints=(
        "`torch.cat` joins tensors along an axis that exists already. Which of the four grows?",
        "The tokens are axis 2, and the old ones stand in front: the list that is joined begins with them.",
        "`torch.cat([cache[0], keys], dim=2)`, and the same for `cache[1]` and `values`.",
    ),
    inputs={"cache": ("batch kv_head cached head_dim", "batch kv_head cached head_dim")},
    calls=2,
    first={"new": "cached"},  # so that any axis joins
    also=({"new": 1},),
    special={"no tokens are cached": {"cached": 0}},
    arguments={
        "cache": "batch kv_head cached head_dim",
        "keys": "batch kv_head new head_dim",
        "values": "batch kv_head new head_dim",
    },
    axes="keys values",
    gradients=("cache", "keys", "values"),
    trained=True,
    wrong="""
(keys, values)
    the new tokens alone: the old ones are forgotten [token-missing-from-cache]
    ? Which keys does the newest query have to see?
cache
    the old cache: the new tokens are never kept [token-missing-from-cache]
    ? May a new token look at itself?
[old_keys, keys] => [keys, old_keys] && [old_values, values] => [values, old_values]
    the new tokens in front of the old ones [stale-cache]
    ? In which order do the tokens stand in the text?
dim=2 => dim=1
    a cache of more heads: the tokens should be joined, not the heads
    ? Which axis counts the tokens?
dim=2 => dim=0
    a cache of more samples: the tokens should be joined, not the samples
    ? Which axis counts the tokens?
dim=2 => dim=3
    a cache whose rows got wider: the tokens should be joined, not the elements
    ? Which axis counts the tokens?
right(cache, values, keys)
    a cache in which new keys and new values changed places
    ? Which part of the cache holds the keys?
(result[0], result[0])
    the keys in place of the values
    ? What is the second part made of?
tuple(grown[:, :, -max(cache[0].shape[2], 1):] for grown in result)
    a cache that drops its oldest tokens [token-missing-from-cache]
    ? How many tokens are there after the step?
(torch.cat([cache[0], keys], 2), cache[1])
    grown keys beside the old values [stale-cache]
    ? What does the weight on the newest key multiply?
(cache[0], torch.cat([cache[1], values], 2))
    grown values beside the old keys [stale-cache]
    ? Which key does the newest query have to meet?
result[::-1]
    the grown cache with keys and values exchanged
    ? Which part of the cache comes first?
result[0]
    the grown keys alone; the values are part of the cache, too
    ? How many tensors does the cache hold?
right(result, keys, values)
    new tokens that were added twice
    ? How many tokens are there after the step?
right(cache, keys.flip(2), values.flip(2))
    the new tokens in reverse order
    ? In which order do the tokens stand in the text?
torch.cat(result, 2)
    keys and values in one tensor, one below the other
    ? How many tensors does the cache hold?
""",
)
