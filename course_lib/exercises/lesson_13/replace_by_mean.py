"""Put the mean in the place of a head's values."""

from course_lib.exercises.function_exercise import FunctionExercise

from .ablate_head import with_means


def replace_by_mean(values, head):
    # (batch, head, token, d), int -> (batch, head, token, d)
    replaced = values.clone()
    replaced[:, head] = values[:, head].mean(dim=(0, 1))  # (b, t, d) -> (d)
    return replaced


EXERCISE = FunctionExercise(
    replace_by_mean,
    title="Remove what a head carries",
    difficulty=2,
    minutes=2,
    prompt=(
        "Replace each value of head number `head` by the mean of that head's values, over all samples and tokens. The "
        "other heads keep their values. Leave `values`, (batch, head, token, head_dim), as it is."
    ),
    hints=(
        "`values[:, head]` is (batch, token, head_dim). Over which of these axes is the mean taken?",
        "The mean over samples and tokens, `.mean(dim=(0, 1))`, is one vector, (head_dim).",
        "Write it into a copy, `replaced = values.clone()`, at `replaced[:, head]`.",
    ),
    inputs={
        "values": with_means,
        "head": lambda rng, num_heads: 1 + rng.integer(num_heads - 1),
    },
    also=({"head": 0}, {"head": lambda num_heads: num_heads - 1}),
    least={"head": 0},
    arguments={"values": "batch head token head_dim"},
    axes="batch head token head_dim",
    fixed="head",
    wrong="""
replaced[:, head] = values[:, head].mean(dim=(0, 1)) => pass
    the values as they were
    ? Where does the number of the head enter?
values[:, head].mean(dim=(0, 1)) => 0.0
    zeros in the head's place; the mean is asked for
    ? What is the head's mean?
dim=(0, 1) => dim=0
    a mean over the samples only: each token still has a value of its own
    ? Does your mean still know the place of a token?
dim=(0, 1) => dim=1, keepdim=True
    a mean over the tokens only: each sample still has a value of its own
    ? Does your mean still know the sample?
values[:, head].mean(dim=(0, 1)) => values[:, head].mean()
    one number in the head's place: its mean over head_dim, too
    ? How many numbers has the mean of vectors?
replaced[:, head] = values[:, head].mean(dim=(0, 1)) => replaced = values.mean(dim=(0, 2), keepdim=True).expand_as(values)
    means in the place of all heads
    ? Which heads keep their values?
values[:, head].mean(dim=(0, 1)) => values.mean(dim=(0, 1, 2))
    the mean of all heads in the head's place
    ? Whose mean is it?
""",
)
