"""Exchange what two tokens have."""

from course_lib.exercises.function_exercise import FunctionExercise


def exchange(here, one, other):
    # (batch, head, token, d), two positions -> (batch, head, token, d)
    exchanged = here.clone()
    exchanged[:, :, one] = here[:, :, other]
    exchanged[:, :, other] = here[:, :, one]
    return exchanged


EXERCISE = FunctionExercise(
    exchange,
    title="Exchange what two words have",
    difficulty=1,
    minutes=2,
    prompt=(
        "`here` is (batch, head, token, head_dim), such as the keys of a block. Return it with what stands at the "
        "tokens number `one` and `other` exchanged, in all samples and heads. Leave `here` as it is."
    ),
    hints=(
        "Which axis are the tokens?",
        "If you write the first into the copy and then read the copy, the second is lost. Read from `here`.",
        "`exchanged[:, :, one] = here[:, :, other]`, and the other way round.",
    ),
    inputs={
        "here": "batch num_heads token head_dim",
        "one": lambda rng, token: rng.integer(max(token - 1, 1)),
        "other": lambda token: token - 1,
    },
    least={"one": 0},
    arguments={"here": "batch head token head_dim"},
    axes="batch head token head_dim",
    fixed="token",
    wrong="""
right(here, 0, 0)
    what was there before: nothing was exchanged
    ? Which two places are written?
= here[:, :, one] => = exchanged[:, :, one]
    what stood at `other` in both places
    ? Did you write both places, and what stood at `one` when you read it?
exchanged[:, :, other] = here[:, :, one] => pass
    what stood at `other` in both places
    ? Where does the first one go?
exchanged[:, :, one] = here[:, :, other] => pass
    what stood at `one` in both places
    ? Where does the second one go?
right(here.transpose(1, 2), one % here.shape[1], other % here.shape[1]).transpose(1, 2)
    two heads exchanged
    ? Which axis are the tokens?
""",
)
