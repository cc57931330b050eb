"""One new token and a cache."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def decode_step(queries, key, value, cached_keys, cached_values):
    # -> (b, h, 1, d), two of (b, g, past + 1, d)
    keys = torch.cat([cached_keys, key], dim=2)  # -> (b, g, past + 1, d)
    values = torch.cat([cached_values, value], dim=2)
    # (b, h, 1, d) -> (b, g, h / g, d): heads that share a kv head become its queries
    folded = queries.reshape(*keys.shape[:2], -1, queries.shape[-1])
    # (b, g, h / g, d) @ (b, g, d, k) -> (b, g, h / g, k)
    scores = (folded * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)
    context = scores.softmax(dim=-1) @ values  # (b, g, h / g, d)
    return context.reshape(queries.shape), keys, values


EXERCISE = FunctionExercise(
    decode_step,
    title="One new token and a cache",
    difficulty=3,
    minutes=6,
    prompt=(
        "One new token comes in, for each sample of a batch. `queries` is (batch, head, 1, head_dim); its `key` and "
        "`value` are (batch, kv head, 1, head_dim); the cache holds those of all tokens before it, `cached_keys` and "
        "`cached_values`, (batch, kv head, past, head_dim). There may be fewer kv heads than heads; consecutive heads "
        "then share one. Return a tuple of three: the context of the new token, "
        "(batch, head, 1, head_dim), and the grown caches of keys and values, (batch, kv head, past + 1, head_dim), "
        "with the new token last. The cached tensors themselves must not be changed."
    ),
    hints=(
        "First grow both caches, then let the new query attend to all of it. A token may attend to itself, too.",
        "`torch.cat([cached_keys, key], dim=2)` joins them along the tokens. No mask is needed: nothing is later.",
        "`share_heads` copies keys and values for each query head: right numbers, and a copy again. "
        "Without a copy, one `reshape` makes the heads that share a kv head its queries, (batch, kv head, heads per kv "
        "head, head_dim); at the end go back to the shape of `queries`.",
    ),
    inputs={"queries": "batch kv_head*group 1 head_dim"},
    std=1.5,
    also=({"kv_head": 1}, {"group": 1}, {"batch": 2, "kv_head": 2, "head_dim": 1}),
    special={"the cache is empty": {"past": 0}},
    arguments={
        "queries": "batch head 1 head_dim",
        "key": "batch kv_head 1 head_dim",
        "value": "batch kv_head 1 head_dim",
        "cached_keys": "batch kv_head past head_dim",
        "cached_values": "batch kv_head past head_dim",
    },
    axes="output keys values",
    fixed="head kv_head",
    wrong="""
@ keys. => @ cached_keys. && @ values => @ cached_values
    a step whose token doesn't attend to itself
    ? Which keys does the product meet: those before or after the new one is added?
@ keys. => @ key. && @ values => @ value
    a step that ignores the cache: the new token attends to itself alone
    ? Which keys should the query meet?
(result[0], cached_keys, cached_values)
    the right output, and caches that haven't grown
    ? What will the next token need from this one?
(result[0], torch.cat([key, cached_keys], 2), torch.cat([value, cached_values], 2))
    caches with the new token first; it comes last
    ? In which order do you join the two?
(result[0], *(grown.repeat_interleave(queries.shape[1] // key.shape[1], 1) for grown in result[1:]))
    caches that were shared out to all heads: what sharing saved is lost
    ? How many kv heads should be kept?
folded = queries. => queries = queries.unflatten(1, (-1, keys.shape[1])).transpose(1, 2); folded = queries. && context.reshape(queries.shape) => context.transpose(1, 2).reshape(len(queries), -1, 1, queries.shape[-1])
    a step whose kv heads are dealt out in turn, 0, 1, 0, 1 [kv-heads-tiled]
scores.softmax(dim=-1) @ values => scores[..., :1].softmax(dim=-1) @ values[:, :, :1]
    a step under a mask that is aligned at the first key: the new token sees the oldest one only [causal-top-left]
    ? Which key may the new token not see?
@ keys => @ values
    a step scored with the values [scores-from-values]
    ? Which line reads the keys, the cached and the new ones?
result[0]
    the output alone
    ? What will the next token need from this one?
context.reshape(queries.shape), keys, values => (context.reshape(queries.shape), values, keys)
    the grown caches with keys and values exchanged
    ? In which order are the three given back?
queries.shape[-1] ** => (queries.shape[1] * queries.shape[-1]) **
    a step scaled by the width over all heads [wrong-scale]
scores.softmax(dim=-1) => torch.ones_like(scores)
    a step with softmax over the queries: there is one, so every weight is 1 [softmax-wrong-axis]
(right(queries, key[:, :1], value[:, :1], cached_keys[:, :1], cached_values[:, :1])[0], *result[1:])
    a step in which every head reads kv head 0 [kv-head-zero-only]
@ keys. => @ torch.cat([key, cached_keys], dim=2).
    a step whose keys stand in another order than its values
    ? Does the weight on the newest key multiply the newest value?
, values => , cached_values
    the right output and keys, and a cache of values that hasn't grown
    ? What will the next token need from this one?
, keys => , cached_keys
    the right output and values, and a cache of keys that hasn't grown
    ? What will the next token need from this one?
(result[0], key, value)
    the right output, with the new key and value in place of the caches [token-missing-from-cache]
    ? Which keys will the next token have to see?
(*result[1:], result[0])
    the caches first and the output last
    ? In which order are the three given back?
(result[0].transpose(1, 2).flatten(2), *result[1:])
    an output that was merged already, (batch, 1, head * head_dim): right, but one step too far
    ? Which shape does the task ask for?
queries.shape[-1] ** => keys.shape[2] **
    a step scaled by the number of keys [wrong-scale]
@ values => @ keys
    a step whose weights are multiplied by the keys, not the values [projection-reused]
    ? What does the last product multiply the weights with?
scores.softmax(dim=-1) => scores.flatten(1, 2).softmax(1).view_as(scores)
    a step with softmax over the heads [softmax-wrong-axis]
scores.softmax(dim=-1) @ values => scores.softmax(dim=-1) && context.reshape(queries.shape) => context.flatten(1, 2)[:, :, None]
    the weights, before they are multiplied by the values [weights-not-applied]
""",
)
