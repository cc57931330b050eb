"""Softmax with a learned attention sink."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def sink_weights(scores, sink_logits):
    # (head, query, key), (head,) -> (head, query, key)
    sinks = sink_logits[:, None, None].expand(-1, scores.shape[1], 1)  # -> (h, q, 1)
    with_sink = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)  # (h, q, k + 1)
    return with_sink[:, :, :-1]  # the sink's column is dropped


EXERCISE = FunctionExercise(
    sink_weights,
    title="Softmax with a sink",
    difficulty=2,
    minutes=3,
    prompt=(
        "`scores`, (head, query, key), are scaled and masked. `sink_logits`, (head,), holds one more logit per head, "
        "the attention sink. Let it take part in the softmax of each row, and return the attention weights of the keys "
        "alone, (head, query, key). The check also comes with scores of about 1000."
    ),
    hints=(
        "Join the sink to the scores as one more column, take the softmax, and drop that column.",
        "`sink_logits[:, None, None].expand(-1, scores.shape[1], 1)` is that column, (head, query, 1).",
        "After `torch.cat([scores, sinks], dim=-1).softmax(dim=-1)`, the last column is the sink's: `[:, :, :-1]`.",
    ),
    calls=4,
    std=1.5,
    special={
        "later tokens are hidden by scores of -inf": {
            "key": "query",
            "scores": lambda scores: scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf),
        },
        "one score of each row is about 1000": {
            "scores": lambda scores: scores + 1000.0 * (torch.arange(scores.shape[2]) == 1)  # exp of these overflows
        },
    },
    arguments={"scores": "head query key", "sink_logits": "head"},
    axes="head query key",
    gradients=("scores", "sink_logits"),
    wrong="""
scores.exp() / (scores.exp().sum(-1, keepdim=True) + sink_logits.exp()[:, None, None])
    softmax without a guard against large scores: exp(1000) is infinite
    ? Softmax doesn't change if the same number is subtracted from all, the sink's logit included. Which one keeps exp
        finite, and which function does that for you?
exponentials = (scores - scores.amax(-1, keepdim=True)).exp(); return exponentials / (exponentials.sum(-1, keepdim=True) + sink_logits.exp()[:, None, None])
    softmax in which the largest score is subtracted from the scores, and not from the sink's logit
    ? A softmax stays the same if one number is subtracted from *all* that takes part in it. What takes part here?
scores.softmax(-1)
    softmax without the sink: it is missing, or it cancels
    ? Where does the sink's logit enter the sum of the row, and does each row still sum to less than 1?
[scores, sinks] => [sinks, scores] && with_sink[:, :, :-1] => with_sink
    the sink's column kept: the first key of your result is the sink
    ? Which key does that column belong to?
:, :, :-1 => :
    the sink's column kept, behind the keys
    ? Which key does the last column belong to?
scores.exp() / (scores.exp().sum(-1, keepdim=True) + sink_logits[:, None, None])
    the logit itself in the denominator, without its exponential
    ? In softmax, what is done to a logit before the sum?
right(scores, torch.zeros_like(sink_logits))
    a sink of exp(0) = 1 in every head
    ? Where do you use `sink_logits`?
with_sink[:, :, :-1] => scores.softmax(-1) - with_sink[:, :, -1:]
    softmax without the sink, from which the sink's part is subtracted
    ? Should a sink take the same amount from each key, or a share?
:-1 => 1:
    the first key's column dropped in place of the sink's
    ? Where did you put the sink's column, and which one does your slice leave out?
""",
)
