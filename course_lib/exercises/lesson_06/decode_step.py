"""One new token and a cache."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


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


def _step(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    group = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    return (queries @ keys.mT * queries.shape[-1] ** -0.5).softmax(-1) @ values


def _grown(key: Tensor, value: Tensor, cached_keys: Tensor, cached_values: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([cached_keys, key], 2), torch.cat([cached_values, value], 2)


def _tiled(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    group = queries.shape[1] // keys.shape[1]
    return _step(queries, keys.repeat(1, group, 1, 1), values.repeat(1, group, 1, 1))


def _products(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    group = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    return queries @ keys.mT * queries.shape[-1] ** -0.5 @ values


def _over_heads(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    group = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    return (queries @ keys.mT * queries.shape[-1] ** -0.5).softmax(1) @ values


def _first_weights(queries: Tensor, keys: Tensor) -> Tensor:
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)
    return (queries @ keys.mT * queries.shape[-1] ** -0.5).softmax(-1)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    rows = [*rng.size_rows(3, 5, 2, 8), (1, 4, 2, 5, 3), (3, 1, 2, 6, 4), (2, 3, 4, 0, 5), (2, 2, 1, 3, 1)]
    for kv, group, batch, past, width in rows:
        new = rng.normal(batch, kv * group, 1, width, std=1.5), *(rng.normal(batch, kv, 1, width) for _ in range(2))
        about = "" if past else "the cache is empty"
        cases.append(Case((*new, *(rng.normal(batch, kv, past, width) for _ in range(2))), about))
    return cases


EXERCISE = FunctionExercise(
    decode_step,
    title="One new token and a cache",
    difficulty=3,
    minutes=10,
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
        "`share_heads` copies keys and values for each query head: right numbers, at a price that the lesson measures. "
        "Without a copy, one `reshape` makes the heads that share a kv head its queries, (batch, kv head, heads per kv "
        "head, head_dim); at the end go back to the shape of `queries`.",
    ),
    draw=_draw,
    arguments={
        "queries": "batch head 1 head_dim",
        "key": "batch kv_head 1 head_dim",
        "value": "batch kv_head 1 head_dim",
        "cached_keys": "batch kv_head past head_dim",
        "cached_values": "batch kv_head past head_dim",
    },
    axes="output keys values",
    fixed="head kv_head",
    wrong=(
        Wrong(
            "a step whose token doesn't attend to itself",
            lambda q, k, v, ck, cv: (_step(q, ck, cv), *_grown(k, v, ck, cv)),
            hint="Which keys does the product meet: those before or after the new one is added?",
        ),
        Wrong(
            "a step that ignores the cache: the new token attends to itself alone",
            lambda q, k, v, ck, cv: (_step(q, k, v), *_grown(k, v, ck, cv)),
            hint="Which keys should the query meet?",
        ),
        Wrong(
            "the right output, and caches that haven't grown",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)), ck, cv),
            hint="What will the next token need from this one?",
        ),
        Wrong(
            "caches with the new token first; it comes last",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)), torch.cat([k, ck], 2), torch.cat([v, cv], 2)),
            hint="In which order do you join the two?",
        ),
        Wrong(
            "caches that were shared out to all heads: what sharing saved is lost",
            lambda q, k, v, ck, cv: (
                _step(q, *_grown(k, v, ck, cv)),
                *(one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in _grown(k, v, ck, cv)),
            ),
            hint="How many kv heads should be kept?",
        ),
        Wrong(
            "a step whose kv heads are dealt out in turn, 0, 1, 0, 1",
            lambda q, k, v, ck, cv: (_tiled(q, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)),
            "kv-heads-tiled",
        ),
        Wrong(
            "a step without the division by the root of head_dim",
            lambda q, k, v, ck, cv: (_step(q * q.shape[-1] ** 0.5, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)),
            "missing-scale",
        ),
        Wrong(
            "a step under a mask that is aligned at the first key: the new token sees the oldest one only",
            lambda q, k, v, ck, cv: (_step(q, *(one[:, :, :1] for one in _grown(k, v, ck, cv))), *_grown(k, v, ck, cv)),
            "causal-top-left",
            hint="Which key may the new token not see?",
        ),
        Wrong(
            "a step scored with the values",
            lambda q, k, v, ck, cv: (_step(q, *[torch.cat([cv, v], 2)] * 2), *_grown(k, v, ck, cv)),
            "scores-from-values",
            "Which line reads the keys, the cached and the new ones?",
        ),
        Wrong(
            "the output alone",
            lambda q, k, v, ck, cv: _step(q, *_grown(k, v, ck, cv)),
            hint="What will the next token need from this one?",
        ),
        Wrong(
            "the grown caches with keys and values exchanged",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)[::-1]),
            hint="In which order are the three given back?",
        ),
        Wrong(
            "a step whose scores are divided by head_dim, not by its square root",
            lambda q, k, v, ck, cv: (_step(q * q.shape[-1] ** -0.5, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)),
            "wrong-scale",
        ),
        Wrong(
            "a step scaled by the width over all heads",
            lambda q, k, v, ck, cv: (_step(q * q.shape[1] ** -0.5, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)),
            "wrong-scale",
        ),
        Wrong(
            "a step with softmax over the queries: there is one, so every weight is 1",
            lambda q, k, v, ck, cv: (
                torch.cat([cv, v], 2).sum(2, keepdim=True).repeat_interleave(q.shape[1] // k.shape[1], 1),
                *_grown(k, v, ck, cv),
            ),
            "softmax-wrong-axis",
        ),
        Wrong(
            "a step in which every head reads kv head 0",
            lambda q, k, v, ck, cv: (_step(q, *(one[:, :1] for one in _grown(k, v, ck, cv))), *_grown(k, v, ck, cv)),
            "kv-head-zero-only",
        ),
        Wrong(
            "a step whose keys stand in another order than its values",
            lambda q, k, v, ck, cv: (_step(q, torch.cat([k, ck], 2), torch.cat([cv, v], 2)), *_grown(k, v, ck, cv)),
            hint="Does the weight on the newest key multiply the newest value?",
        ),
        Wrong(
            "the right output and keys, and a cache of values that hasn't grown",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)), torch.cat([ck, k], 2), cv),
            hint="What will the next token need from this one?",
        ),
        Wrong(
            "the right output and values, and a cache of keys that hasn't grown",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)), ck, torch.cat([cv, v], 2)),
            hint="What will the next token need from this one?",
        ),
        Wrong(
            "the right output, with the new key and value in place of the caches",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)), k, v),
            "token-missing-from-cache",
            "Which keys will the next token have to see?",
        ),
        Wrong(
            "the caches first and the output last",
            lambda q, k, v, ck, cv: (*_grown(k, v, ck, cv), _step(q, *_grown(k, v, ck, cv))),
            hint="In which order are the three given back?",
        ),
        Wrong(
            "an output that was merged already, (batch, 1, head * head_dim): right, but one step too far",
            lambda q, k, v, ck, cv: (_step(q, *_grown(k, v, ck, cv)).transpose(1, 2).flatten(2), *_grown(k, v, ck, cv)),
            hint="Which shape does the task ask for?",
        ),
        Wrong(
            "a step without softmax",
            lambda q, k, v, ck, cv: (_products(q, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)),
            "no-softmax",
        ),
        Wrong(
            "a step scaled by the number of keys",
            lambda q, k, v, ck, cv: (
                _step(q * (q.shape[-1] / (ck.shape[2] + 1)) ** 0.5, *_grown(k, v, ck, cv)),
                *_grown(k, v, ck, cv),
            ),
            "wrong-scale",
        ),
        Wrong(
            "a step whose weights are multiplied by the keys, not the values",
            lambda q, k, v, ck, cv: (_step(q, torch.cat([ck, k], 2), torch.cat([ck, k], 2)), *_grown(k, v, ck, cv)),
            "projection-reused",
            "What does the last product multiply the weights with?",
        ),
        Wrong(
            "a step with softmax over the heads",
            lambda q, k, v, ck, cv: (_over_heads(q, *_grown(k, v, ck, cv)), *_grown(k, v, ck, cv)),
            "softmax-wrong-axis",
        ),
        Wrong(
            "the weights, before they are multiplied by the values",
            lambda q, k, v, ck, cv: (_first_weights(q, torch.cat([ck, k], 2)), *_grown(k, v, ck, cv)),
            "weights-not-applied",
        ),
    ),
)
