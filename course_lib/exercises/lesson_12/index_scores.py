"""The scores of an indexer."""

from course_lib.exercises.function_exercise import FunctionExercise


def index_scores(queries, keys, head_weights):
    # (head, query, width), (key, width), (query, head) -> (query, key)
    by_head = (queries @ keys.T).relu()  # (h, q, k)
    return (head_weights.T[..., None] * by_head).sum(dim=0)


EXERCISE = FunctionExercise(
    index_scores,
    title="The scores of an indexer",
    difficulty=3,
    minutes=6,
    prompt=(
        "The indexer of DeepSeek-V3.2, for one text. It has a few narrow heads, `queries`, (head, query, width), which "
        "share one set of `keys`, (key, width). In each head the products of queries and keys that are below 0 become "
        "0 (relu). The index score of a query and a key is the sum over the heads, each weighted by "
        "`head_weights`, (query, head), which may be negative. Return (query, key)."
    ),
    hints=(
        "`queries @ keys.T` is (head, query, key). `relu` comes before the heads are added.",
        "The weights need the axes (head, query, 1): transpose them, and add an axis with `[..., None]`.",
    ),
    calls=4,
    arguments={"queries": "head query width", "keys": "key width", "head_weights": "query head"},
    axes="query key",
    gradients=("queries", "keys", "head_weights"),
    wrong="""
(queries @ keys.T).relu() => queries @ keys.T
    scores without relu
    ? What should a head add whose product is negative?
(head_weights.T[..., None] * (queries @ keys.T)).sum(dim=0).relu()
    relu of the sum; it belongs to each head
    ? What is the score if one head says 3 and another -5?
(head_weights.T[..., None] * (queries @ keys.T)).relu().sum(dim=0)
    relu after the weights: a head with a negative weight could never lower a score
    ? What should a head with a negative weight do to the keys that it likes?
(head_weights.T[..., None] * by_head).sum(dim=0) => by_head.sum(dim=0)
    all heads weighted alike
    ? Where do you use `head_weights`?
(queries @ keys.T) => (queries * queries.shape[-1] ** -0.5 @ keys.T)
    products that are divided by the root of the width; here that isn't asked for [wrong-scale]
    ? Which of the steps does the text name?
""",
)
