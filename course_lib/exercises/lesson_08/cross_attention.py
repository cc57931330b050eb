"""One sentence asks another."""

from course_lib.exercises.function_exercise import FunctionExercise


def cross_attention(x, context, w_q, w_k, w_v):
    # (b, query, d_in), (b, key, d_in), 3 x (out, d_in) -> (b, query, d_v)
    queries, keys, values = x @ w_q.T, context @ w_k.T, context @ w_v.T
    # (b, q, d) @ (b, d, k) -> (b, q, k)
    scores = queries * queries.shape[-1] ** -0.5 @ keys.transpose(1, 2)
    return scores.softmax(dim=-1) @ values  # (b, q, k) @ (b, k, d_v) -> (b, q, d_v)


EXERCISE = FunctionExercise(
    cross_attention,
    title="One sentence asks another",
    difficulty=2,
    minutes=5,
    prompt=(
        "One head of cross-attention: the queries come from `x`, the keys and values from `context`, which may "
        "have another number of tokens. Scaled, without a mask. The weights lie as `nn.Linear` keeps them: "
        "`w_q` and `w_k` are (head_dim, d_in), `w_v` is (d_v, d_in)."
    ),
    hints=(
        "It is the head of lesson 01. The only question is which of the two inputs each projection reads.",
        "A weight of (out, in) is applied as `x @ w_q.T`. The scores are (batch, query, key), not square.",
        "`queries = x @ w_q.T`, `keys = context @ w_k.T`, `values = context @ w_v.T`; the scores are divided by the "
        "square root of head_dim.",
    ),
    std=0.7,
    first={"key": "query"},  # so that keys and values of x can be told
    also=({"batch": 1, "query": 1}, {"key": 1, "head_dim": 1}),
    arguments={
        "x": "batch query d_in",
        "context": "batch key d_in",
        "w_q": "head_dim d_in",
        "w_k": "head_dim d_in",
        "w_v": "d_v d_in",
    },
    axes="batch query d_v",
    gradients=("x", "context", "w_q", "w_k", "w_v"),
    wrong="""
right(x, x, w_q, w_k, w_v)
    self-attention of x: the context is never read
    ? Which of the three projections read the context?
x @ => context @
    self-attention of the context: x is never read
    ? Who asks, and who is asked?
context @ w_v => x @ w_v
    cross-attention with values from x: the context is asked, and gives nothing
    ? Whose values does a weight on a token of the context multiply?
context @ w_k => x @ w_k
    cross-attention with keys from x: x asks itself and gets the values of the context
    ? Which tokens does a query choose among?
right(context, x, w_q, w_k, w_v)
    cross-attention the other way around: the context asks x
    ? Who asks, and who is asked?
scores.softmax => scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax
    cross-attention with a causal mask: all of the other sentence is there already
    ? Is there a token in the context that a query must not see?
1) => 2)
    softmax over the queries [softmax-wrong-axis]
right(x, context, w_k, w_q, w_v)
    cross-attention with the weights of queries and keys exchanged [projection-reused]
scores.softmax(dim=-1) @ values => scores.softmax(dim=-1)
    the weights, before they are multiplied by the values [weights-not-applied]
w_v. => w_k.
    cross-attention whose weights are multiplied by the keys, not the values [projection-reused]
    ? Which of the three weights makes what is mixed?
queries.shape[-1] => context.shape[1]
    cross-attention scaled by the number of keys [wrong-scale]
queries * queries.shape[-1] ** -0.5 @ => queries @ && @ values => * queries.shape[-1] ** -0.5 @ values
    cross-attention divided after softmax [wrong-scale]
right(x, torch.cat([x, context], 1), w_q, w_k, w_v)
    attention over the tokens of both sentences; the keys come from the context alone
    ? Which tokens does a query choose among?
1) => 0)
    softmax over the samples of the batch [softmax-wrong-axis]
queries.shape[-1] ** -0.5 => x.shape[-1] ** -1.0
    cross-attention whose scores are divided by d_in [wrong-scale]
""",
)
