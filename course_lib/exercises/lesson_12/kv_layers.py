"""Which layer computes the keys that a layer reads."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def kv_layers(kinds, num_shared):
    # a string such as "LLGLG", an int -> a list of ints, one per layer
    own = kinds[: len(kinds) - num_shared]
    return [*range(len(own)), *(own.rindex(kind) for kind in kinds[len(own) :])]


def _draw(rng: InputGenerator) -> list[Case]:
    cases = [Case(("LLLLGLLLLG", 3)), Case(("LGLG", 2)), Case(("LG", 0), "no layer shares"), Case(("LLLL", 3))]
    for local, repeats in rng.size_rows(4, 2, 2, 6):
        kinds = ("L" * local + "G") * (repeats + 1)
        cases.append(Case((kinds, 1 + rng.integer(len(kinds) - local - 2))))
    return cases


EXERCISE = FunctionExercise(
    kv_layers,
    title="Whose keys?",
    difficulty=3,
    minutes=6,
    prompt=(
        'In Gemma 3n layers are local, "L", with a window, or global, "G", and the last `num_shared` layers have no '
        "keys and values of their own. Such a layer reads those of the last layer of its own kind that still has some. "
        "`kinds` has a letter per layer, from the first to the last. Return, for each layer, the index of the layer "
        "whose keys and values it reads: its own, where it has some."
    ),
    hints=(
        "`kinds[: len(kinds) - num_shared]` are the layers with keys of their own. Beware of `[:-num_shared]`: with 0 "
        "it is empty.",
        "`own.rindex(kind)` is the index of the last layer of that kind among them.",
    ),
    draw=_draw,
    wrong="""
own.rindex(kind) => own.index(kind)
    the first layer of that kind, in place of the last
    ? Of all layers with keys of their own, which one is nearest to the shared ones?
own.rindex(kind) => len(own) - 1
    the last layer with keys of its own, whatever its kind: a global layer would read keys of a window
    ? Which keys does a local layer keep, and are they enough for a global one?
[*range(len(own)), *(own.rindex(kind) for kind in kinds[len(own) :])] => [own.rindex(kind) for kind in kinds]
    all layers read the keys of the last one of their kind, even those that have their own
    ? Whose keys does the first layer read?
len(kinds) - num_shared => num_shared
    the numbers of layers exchanged: the first `num_shared` have keys
    ? How many layers have keys of their own?
[*range(len(kinds))]
    each layer reads its own keys
    ? What do the last `num_shared` layers read?
""",
)
