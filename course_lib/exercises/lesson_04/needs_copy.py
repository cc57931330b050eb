"""View or copy?"""

from __future__ import annotations

import math

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def needs_copy(shape, strides, axis):  # two tuples of ints, int -> True or False
    return strides[axis] != shape[axis + 1] * strides[axis + 1]


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _case(shape: tuple[int, ...], order: tuple[int, ...], axis: int, cut: int = 0) -> Case:
    """Return a tensor whose axes were permuted, and whose last axis was cut out of a wider one."""
    strides = _contiguous((*shape[:-1], shape[-1] + cut))
    return Case((tuple(shape[at] for at in order), tuple(strides[at] for at in order), axis))


def _stepped(rng: InputGenerator, more: bool) -> Case:
    """Return every `step`-th column of a wider tensor; `more` slots lie behind a row's last step, fewer than a step."""
    first, rows, columns, step = *rng.sizes(3, 2, 9), 2 + rng.integer(4)
    width = columns * step + (1 + rng.integer(step - 1) if more else 0)
    return Case(((first, rows, columns), (rows * width, width, step), 1))


def _draw(rng: InputGenerator) -> list[Case]:
    four = [rng.sizes(4, 2, 9) for _ in range(8)]
    wide = (*four[6][:2], *sorted(four[6][2:], reverse=True))
    three = [rng.sizes(3, 2, 9) for _ in range(4)]
    plain, by_head, swapped = (0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)
    return rng.shuffled(
        [
            _case(four[0], plain, rng.integer(3)),
            _case(four[1], by_head, 2),  # (batch, token, head, head_dim) -> after the transpose: needs a copy
            _case(four[2], by_head, rng.integer(2)),
            _case(four[3], swapped, 2),  # not contiguous, and still a view
            _case(four[4], swapped, 1),  # batch and head: needs a copy
            _case(four[5], (2, 3, 0, 1), 2 * rng.integer(2)),  # not contiguous, and still a view
            _case(wide, plain, 2, cut=wide[2] - wide[3]),  # columns of a wider tensor: needs a copy
            _case(four[7], plain, rng.integer(2), cut=1 + rng.integer(3)),  # not contiguous, and still a view
            _case(three[0], (0, 2, 1), 1),
            _case(three[1], (1, 2, 0), 0),  # not contiguous, and still a view
            _case(three[2], (1, 2, 0), 1),
            _case(three[3], (0, 1, 2), 1),
            _stepped(rng, more=False),  # not contiguous, and still a view
            _stepped(rng, more=True),  # the last step of a row is longer: needs a copy
        ]
    )


EXERCISE = FunctionExercise(
    needs_copy,
    title="View or copy?",
    difficulty=3,
    minutes=11,
    prompt=(
        "You know the shape and the strides of a tensor. Two neighbouring axes, `axis` and `axis + 1`, are to become "
        "one, and all others stay. Can `view` do that, or does `reshape` have to copy? Return True if a copy is "
        "needed. All sizes are 2 or more; no axis is repeated by `expand`. Compute it from the numbers alone, without "
        "making a tensor.\n\n"
        "For example, shape (2, 3, 4) with strides (12, 4, 1) is a tensor as it was made: axes 1 and 2 can be joined "
        "by a view. With strides (12, 1, 3) they can't."
    ),
    hints=(
        "The joined axis has *one* stride: each step along it must skip the same number of slots.",
        "Within a row a step skips `strides[axis + 1]` slots. How far is it from the last element of a row to the "
        "first one of the next row?",
        "It is the same step only if a step along `axis` skips a whole row: `shape[axis + 1] * strides[axis + 1]` "
        "slots. Compare that with `strides[axis]`.",
    ),
    draw=_draw,
    wrong="""
False
    False, whatever the strides are
    ? Why does `view` ever refuse?
True
    True, whatever the strides are
    ? Why does `view` ever work?
strides != _contiguous(shape)
    True for every tensor that is not contiguous; but only two of its axes are joined
    ? Does it matter how the other axes lie in memory?
strides[axis] < strides[axis + 1]
    True where the second stride is the larger one; that the strides fall is not enough for a view
    ? Which elements lie between the end of a row and the start of the next one?
1] * => 0] *
    a comparison with the size of the first axis; the second one says how long a row is
    ? How many steps along which axis lead through one row?
strides[axis] != shape[axis + 1]
    a comparison with the size alone, as if the second stride were 1
    ? How many slots does one step along the second axis skip?
strides[axis] // strides[axis + 1] != shape[axis + 1]
    a comparison with a quotient that `//` has rounded down
    ? If a row has 3 steps of 2 slots and the next row begins 7 slots on, what does `7 // 2` say?
not result
    the opposite: True where a view is enough
    ? What does True mean in this task?
right(shape, strides, len(shape) - 2)
    the answer for the last two axes, whatever `axis` is
    ? Which argument says which axes are joined?
right(shape, strides, 0)
    the answer for the first two axes, whatever `axis` is
    ? Which argument says which axes are joined?
""",
)
