"""A gate on the context of each head."""

from course_lib.exercises.function_exercise import FunctionExercise


def gated_context(context, gate_logits):
    # (b, h, t, d), (b, t, h) -> (batch, token, head * head_dim)
    gate = gate_logits.sigmoid().transpose(1, 2)[..., None]  # (b, t, h) -> (b, h, t, 1)
    return (context * gate).transpose(1, 2).flatten(2)


EXERCISE = FunctionExercise(
    gated_context,
    title="A gate on each head",
    difficulty=2,
    minutes=5,
    prompt=(
        "A gate with one number per token and head: `gate_logits`, (batch, token, head), come from a projection of the "
        "same tokens. Multiply each head's context, (batch, head, token, head_dim), by the sigmoid of its logit, and "
        "merge the heads to (batch, token, head * head_dim), ready for the output projection."
    ),
    hints=(
        "Heads come before tokens in the context, and after them in the logits: `transpose(1, 2)`.",
        "`[..., None]` gives the gate a last axis of size 1, so that it holds for all of head_dim.",
    ),
    calls=4,
    std=1.5,
    arguments={"context": "batch head token head_dim", "gate_logits": "batch token head"},
    axes="batch token head*head_dim",
    gradients=("context", "gate_logits"),
    wrong="""
context.transpose(1, 2).flatten(2)
    the context without the gate [gate-unused]
    ? Where do you use `gate_logits`?
gate_logits.sigmoid() => gate_logits.softmax(-1)
    softmax over the heads: they compete, and not all of them can be open
    ? May two gates both be 1?
gate_logits.sigmoid() => gate_logits
    the logits themselves, without sigmoid: a gate lies between 0 and 1
    ? What should a logit of 0 do, and what of -1000?
.transpose(1, 2).flatten(2) => .flatten(1, 2).reshape(len(context), context.shape[2], -1)
    heads merged without a transpose, so that tokens are mixed [merge-without-transpose]
    ? Which axis comes right before head_dim when you merge?
""",
)
