"""Take tokens back."""

from course_lib.exercises.function_exercise import FunctionExercise


def rewind_cache(cache, rejected):
    # 2 x (b, g, cached, d), int -> 2 x (b, g, cached - rejected, d)
    keys, values = cache
    kept = keys.shape[2] - rejected
    return keys[:, :, :kept], values[:, :, :kept]


EXERCISE = FunctionExercise(
    rewind_cache,
    title="Take tokens back",
    difficulty=2,
    minutes=4,
    prompt=(
        "A small model has guessed a few tokens ahead, and the large model has rejected the last `rejected` of them "
        "(speculative decoding does that all the time; Leviathan et al., 2022). `cache` is a tuple of keys and values, "
        "(batch, kv head, cached token, head_dim). Return the cache without the rejected tokens; `rejected` may be 0. "
        "Nothing has to be computed, because in causal attention no key depends on later tokens."
    ),
    hints=(
        "The rejected tokens are the last ones. How many are kept?",
        "`keys[:, :, :-rejected]` is right, except for 0: `-0` is 0, and the slice `[:0]` is empty.",
        "`kept = keys.shape[2] - rejected`, and `keys[:, :, :kept]`; the same for the values.",
    ),
    inputs={
        "cache": ("batch kv_head cached head_dim", "batch kv_head cached head_dim"),
        # As many kept as rejected would hide which of the two is which.
        "rejected": lambda rng, cached: rng.choice([count for count in range(1, cached) if cached != 2 * count]),
    },
    special={"no token is rejected": {"rejected": 0}, "all tokens are rejected": {"rejected": lambda cached: cached}},
    least={"rejected": 0},
    arguments={"cache": "batch kv_head cached head_dim"},
    axes="keys values",
    fixed="cached",
    wrong="""
keys.shape[2] - rejected => -rejected
    an empty cache where no token is rejected: `[:-0]` is `[:0]`
    ? What is `-rejected` if rejected is 0?
:kept => rejected:
    the cache without its oldest tokens
    ? Which tokens were guessed: the first or the last?
keys.shape[2] - rejected => rejected
    as many tokens as were rejected
    ? Does `rejected` count what is kept or what goes?
:kept => kept:
    the rejected tokens
    ? Which tokens should be left?
cache
    the cache as it was [stale-cache]
    ? What would the next token see?
tuple(torch.cat([new, 0 * old[:, :, new.shape[2]:]], 2) for old, new in zip(cache, result))
    rejected tokens that were set to 0 and are still there
    ? Which weight does a key of zeros get from softmax?
keys.shape[2] - rejected => max(keys.shape[1] - rejected, 0) && :, :, :kept => :, :kept
    a cache without some of its heads: tokens are rejected, not heads
    ? Which axis counts the tokens?
""",
)
