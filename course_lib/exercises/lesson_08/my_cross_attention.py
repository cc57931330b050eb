"""Attention whose keys and values come from another sequence."""

from torch import nn

from course_lib.attention import attend
from course_lib.exercises.cross_exercise import CrossExercise
from course_lib.exercises.lesson_04.to_heads import to_heads


class MyCrossAttention(nn.Module):
    def __init__(self, d_in, d_context, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_in, d_in, bias=False)
        self.k_proj = nn.Linear(d_context, d_in, bias=False)
        self.v_proj = nn.Linear(d_context, d_in, bias=False)
        self.out_proj = nn.Linear(d_in, d_in, bias=False)

    def forward(self, x, context, keep=None):
        # (batch, query, d_in), (batch, key, d_context) -> (batch, query, d_in)
        queries = to_heads(self.q_proj(x), self.num_heads)  # (b, h, q, d)
        keys = to_heads(self.k_proj(context), self.num_heads)  # (b, h, k, d)
        values = to_heads(self.v_proj(context), self.num_heads)
        mixed, _ = attend(queries, keys, values, keep)  # (b, h, q, d)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


EXERCISE = CrossExercise(
    MyCrossAttention,
    title="Attention with a context",
    difficulty=3,
    minutes=6,
    prompt=(
        "Multi-head attention whose queries come from `x`, (batch, query, d_in), and whose keys and values come from "
        "`context`, (batch, key, d_context). The projections are `q_proj`, `k_proj`, `v_proj` and `out_proj`, without "
        "bias; all heads together are d_in wide. There is no causal mask; `keep`, if it is given, is bool, True = may "
        "attend, and broadcasts to (batch, head, query, key)."
    ),
    hints=(
        "It is the class of lesson 05. Which of the projections read `x`, and which read `context`?",
        "A projection is as wide on its way in as what it reads: `nn.Linear(d_context, d_in, bias=False)` for the keys "
        "and for the values.",
        "`to_heads` splits all three; `attend(queries, keys, values, keep)` returns context and attention weights and "
        "takes `keep=None`, too. Then `transpose(1, 2)`, `flatten(2)` and `out_proj`.",
    ),
    stub="class MyCrossAttention(nn.Module): ...",
    wrong="""
attend(queries, keys, values, keep) => attend(queries, keys, values)
    attention without the mask `keep` [mask-discarded]
    ? Which line of `forward` reads `keep`?
attend(queries, keys, values, keep) => attend(queries, keys, values, None if keep is None else ~keep)
    attention whose mask is inverted [mask-inverted]
    ? Does True mean "may attend" here, or "hidden"?
attend(queries, keys, values, keep) => attend(queries, keys, values, None if keep is None else keep[:, :1])
    attention whose heads all get the mask of head 0
    ? Which axes of `keep` may have a size of 1, and which may have more?
mixed, _ = attend(queries, keys, values, keep) => mixed = attend(queries, keys, values)[1].masked_fill(torch.tensor(False) if keep is None else ~keep, 0.0) @ values
    attention whose hidden weights become 0 after the softmax, so that the others no longer sum to 1 [mask-after-softmax]
    ? What do the weights of one query sum to, if some are made 0 after the softmax?
attend(queries, keys, values, keep) => attend(queries, keys, values, torch.ones(queries.shape[2], keys.shape[2]).tril().bool() & (True if keep is None else keep))
    cross-attention with a causal mask: all of the other sequence is there already
    ? Is there a token in the context that a query must not see?
values = to_heads(self.v_proj(context), self.num_heads) => values = to_heads(self.k_proj(context), self.num_heads)
    attention whose keys are its values, too [projection-reused]
    ? Which projection makes the values?
keys = to_heads(self.k_proj(context), self.num_heads) => keys = to_heads(self.v_proj(context), self.num_heads)
    attention whose values are its keys, too [scores-from-values]
    ? Which projection makes the keys?
mixed.transpose(1, 2).flatten(2) => mixed.reshape(x.shape)
    heads that are merged without the transpose [merge-without-transpose]
    ? Which axis must stand beside head_dim before you flatten?
return self.out_proj(mixed.transpose(1, 2).flatten(2)) => return mixed.transpose(1, 2).flatten(2)
    attention without the output projection [output-projection-missing]
    ? What comes after the heads are merged?
attend(queries, keys, values, keep) => attend(queries * self.q_proj.out_features ** 0.5 / self.num_heads ** 0.5, keys, values, keep)
    attention whose scores are not scaled [missing-scale]
attend(queries, keys, values, keep) => attend(queries / self.num_heads ** 0.5, keys, values, keep)
    attention that is scaled by the width of all heads [wrong-scale]
    ? How wide is one query?
""",
)
