"""Attention to the keys that an indexer selects."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def selected_attention(queries, keys, values, index_scores, k):
    # (b, h, query, d), 2 x (b, h, key, d), (b, query, key), int -> (b, h, query, d)
    num_queries, num_keys = index_scores.shape[1:]
    seen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=queries.device)
    seen = seen.tril(num_keys - num_queries)  # the last query sees all keys
    allowed = index_scores.masked_fill(~seen, -torch.inf)
    highest = allowed.topk(min(k, num_keys), dim=-1).indices  # (b, query, k)
    selected = torch.zeros_like(allowed).scatter(-1, highest, 1.0) > 0
    keep = (selected & seen)[:, None]  # the same for all heads
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values


def _alike_but_first(x):
    return torch.cat([x[:, :, :1], x[:, :, 1:2].expand(-1, -1, x.shape[2] - 1, -1)], dim=2)


EXERCISE = FunctionExercise(
    selected_attention,
    title="Attention to selected keys",
    difficulty=4,
    minutes=7,
    prompt=(
        "Causal attention in which each query attends to at most `k` keys: of those that it may see, the ones with the "
        "highest `index_scores`, (batch, query, key), and the same for all heads. Where it may see fewer than `k`, it "
        "attends to all of them. There may be more keys than queries, as with a cache: then the last query is the last "
        "token. Return the context of each head."
    ),
    hints=(
        "Four parts: the causal mask, (query, key); the selection among what it allows, (batch, query, key); both "
        "joined with `&`, with an axis for the heads; and attention under that mask.",
        "Hide later keys *before* the selection: `index_scores.masked_fill(~seen, -torch.inf)`. Then "
        "`topk(min(k, num_keys), dim=-1).indices`, and `scatter(-1, indices, 1.0)` into zeros makes a table of them.",
        "`keep = (selected & seen)[:, None]`: in a row with fewer than k keys, `topk` has filled up with hidden ones.",
    ),
    inputs={"key": lambda query, more: query + more},
    calls=4,
    also=(
        {"more": 0, "key": lambda query: query, "k": 2},
        {"key": lambda query: query, "k": lambda query: query},
        {"key": lambda query: query, "k": lambda query: query + 3},
        {"query": 1, "k": 2},
    ),
    special={  # of equal keys it is all the same which are chosen, but not how many
        "the first key has the highest index score, and all others tie": {
            "keys": lambda rng, b, h, key, d: _alike_but_first(rng.normal(b, h, key, d)),
            "values": lambda rng, b, h, key, width: _alike_but_first(rng.normal(b, h, key, width)),
            "index_scores": lambda b, query, key: (torch.arange(key) < 1).double().repeat(b, query, 1),
            "k": 3,
        }
    },
    least={"k": 1},
    most={"k": 1000},
    arguments={
        "queries": "b h query d",
        "keys": "b h key d",
        "values": "b h key width",
        "index_scores": "b query key",
    },
    axes="b h query width",
    fixed="query key",
    gradients=("queries", "keys", "values"),
    wrong="""
selected = torch.zeros_like(allowed).scatter(-1, highest, 1.0) > 0 => selected = allowed >= allowed.gather(-1, highest[..., -1:])
    every key selected that reaches the k-th highest score: of equal scores, more than k
    ? How many keys does your mask keep if all index scores are equal, and how many may it?
keep = (selected & seen)[:, None] => keep = (selected & seen if num_keys > k else torch.ones_like(selected))[:, None]
    a selection that is skipped where there are no more than k keys, and the causal mask is lost with it [mask-lost-on-option]
    ? Of a text of three tokens, with k = 8: which keys may the first token see?
keep = (selected & seen)[:, None] => keep = selected[:, None]
    the first rows see later tokens: where fewer than k keys are allowed, `topk` fills up with hidden ones [no-causal-mask]
    ? Which keys does `topk` return of a row with one allowed key, if k is 3?
allowed = index_scores.masked_fill(~seen, -torch.inf) => allowed = index_scores
    keys selected before the mask: a part of the k is spent on keys that are hidden, so that later tokens decide what earlier ones see
    ? Can a later token's index score change which past keys are selected?
.tril(num_keys - num_queries) => .tril()
    a mask that begins in the top left corner, though the last query is the last token [causal-top-left]
    ? Two queries meet six keys. Which key is the last that the first of them may see?
queries.shape[-1] ** -0.5 => 1.0
    scores that aren't divided by the square root of head_dim [missing-scale]
    ? By what are the scores divided before the softmax?
scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values => (scores.softmax(dim=-1) * keep) @ values
    a selection after softmax: the attention weights of the selected keys no longer sum to 1 [mask-after-softmax]
    ? Between which keys should softmax divide?
""",
)
