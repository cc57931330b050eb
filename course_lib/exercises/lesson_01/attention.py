"""Attention as one function of queries, keys and values."""

from course_lib.exercises.function_exercise import FunctionExercise

from .scaled_scores import scaled_scores
from .softmax_rows import softmax_rows


def attention(queries, keys, values):
    # (query, head_dim), (key, head_dim), (key, width) -> (query, width)
    weights = softmax_rows(scaled_scores(queries, keys))
    return weights @ values  # (query, key) @ (key, width) -> (query, width)


EXERCISE = FunctionExercise(
    attention,
    title="Compare, weigh, mix",
    difficulty=2,
    minutes=5,
    prompt="All three steps in one function, for one head without a mask.",
    hints=(
        "Three steps, three tensors: queries meet keys, softmax makes weights, weights mix values.",
        "You wrote the first two steps above: call your own functions.",
        "The mix is `weights @ values`: (query, key) @ (key, width) -> (query, width).",
    ),
    calls=4,
    std=1.5,
    first={"key": "query", "width": "head_dim"},  # arguments can be exchanged
    also=({"query": 1, "key": 1}, {"query": 1, "head_dim": 1}),
    arguments={"queries": "query head_dim", "keys": "key head_dim", "values": "key width"},
    axes="query width",
    gradients=("queries", "keys", "values"),
    wrong="""
keys) => values)
    attention scored with the values [scores-from-values]
    ? Which line reads `keys`?
@ values => @ keys
    attention whose weights are multiplied by the keys, not the values [projection-reused]
    ? Which of the three arguments does the last product use?
keys) => queries)
    attention scored with the queries alone [projection-reused]
    ? Which two of the three arguments make the scores?
scaled_scores(queries, keys).softmax(0) @ values
    attention with softmax over the queries [softmax-wrong-axis]
scaled_scores(queries, keys) @ values
    attention without softmax [no-softmax]
queries @ keys.T @ values
    attention without softmax and without the division [no-softmax]
scaled_scores(queries, keys).softmax(-1).softmax(-1) @ values
    attention with softmax taken twice [double-softmax]
scaled_scores(queries, keys).masked_fill(torch.ones(len(queries), len(keys)).triu(1).bool(), -torch.inf).softmax(-1) @ values
    attention under a causal mask; this task hides no key
    ? Which keys may a query see here?
(queries @ keys.T / values.shape[1] ** 0.5).softmax(-1) @ values
    attention with scores divided by the root of the values' width [wrong-scale]
(queries @ keys.T / len(keys) ** 0.5).softmax(-1) @ values
    attention with scores divided by the root of the number of keys [wrong-scale]
scaled_scores(queries, keys).exp() @ values
    exp of the scores times the values, not divided by its sum
scaled_scores(queries, keys).softmax(-1).T @ values
    attention whose table of weights was transposed before it met the values [weights-transposed]
values
    the values themselves [weights-not-applied]
weights @ values => weights
    the weights, before they are multiplied by the values [weights-not-applied]
(queries @ keys.T).softmax(-1) / queries.shape[1] ** 0.5 @ values
    attention divided after softmax [wrong-scale]
""",
)
