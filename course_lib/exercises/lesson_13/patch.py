"""Take one head from another run."""

from course_lib.exercises.function_exercise import FunctionExercise

from .ablate_head import with_means


def patch(here, there, head):
    # 2 x (batch, head, token, d), int -> (batch, head, token, d)
    patched = here.clone()
    patched[:, head] = there[:, head]
    return patched


EXERCISE = FunctionExercise(
    patch,
    title="Take one head from another run",
    difficulty=1,
    minutes=1,
    prompt=(
        "`here` and `there` are what the heads of a block have in two runs, both (batch, head, token, head_dim): their "
        "queries, say. Return what they have here, but with head number `head` taken from there. Leave both as they "
        "are."
    ),
    hints=(
        "Nearly everything is `here`. Which slice comes from `there`?",
        "`there[:, head]` is (batch, token, head_dim).",
        "`patched = here.clone()`, then `patched[:, head] = there[:, head]`.",
    ),
    inputs={
        "here": with_means,
        "there": "batch num_heads token head_dim",
        "head": lambda rng, num_heads: 1 + rng.integer(num_heads - 1),
    },
    also=({"head": 0}, {"head": lambda num_heads: num_heads - 1}),
    least={"head": 0},
    arguments={"here": "batch head token head_dim", "there": "batch head token head_dim"},
    axes="batch head token head_dim",
    fixed="head",
    wrong="""
patched[:, head] = there[:, head] => pass
    what was here: nothing was taken from there
    ? Where does `there` enter?
patched[:, head] = there[:, head] => patched = there.clone()
    all that was there
    ? Which heads stay as they were?
right(there, here, head)
    what was there, with one head from here
    ? Which run gives one head, and which gives the rest?
= there[:, head] => += there[:, head]
    the sum of both runs in the head's place
    ? What is left of the head that was here?
patched[:, head] = there[:, head] => patched[head : head + 1] = there[head : head + 1]
    one sample taken from there, with all its heads
    ? Which axis are the heads?
there[:, head] => 0.0
    zeros in the head's place: that removes it
    ? Where does `there` enter?
""",
)
