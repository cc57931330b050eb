"""What a computation waits for."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def bound_by(operations, bytes_moved, flops_per_second, bytes_per_second):
    # four numbers -> "memory" or "compute"
    intensity = operations / bytes_moved
    balance = flops_per_second / bytes_per_second
    return "memory" if intensity < balance else "compute"


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for number, (rate, width) in enumerate(rng.size_rows(4, 2)):
        balance = 10 * rate / width
        for factor in (0.8, 1.25, 0.4, 0.02, 60.0):
            moved = (1 + rng.integer(50)) * 10 ** (4 + number)
            cases.append(Case((round(balance * factor * moved), moved, rate * 10**12, width * 10**11)))
    whole, moved = 2 + rng.integer(20), 10 * (1 + rng.integer(9))
    near = 10 * whole + 2, 10 * whole + 5  # tenths: both are rounded down to the same integer
    cases.append(Case((near[0] * moved, 10 * moved, near[1] * 10**11, 10**12)))
    return rng.shuffled(cases)


EXERCISE = FunctionExercise(
    bound_by,
    title="What a computation waits for",
    difficulty=1,
    minutes=3,
    prompt=(
        "A computation does `operations` multiplications and additions and moves `bytes_moved` bytes. A machine does "
        "at most `flops_per_second` operations and moves at most `bytes_per_second` bytes per second, both at the same "
        'time. Give back the word `"memory"` if the computation waits for memory, and `"compute"` if it waits for '
        "arithmetic. (Upper and lower case are the same.)"
    ),
    hints=(
        "Which of the two takes longer, moving the bytes or computing the operations?",
        "operations / flops_per_second is the time of the arithmetic. What is the other time?",
        "Compare `operations / bytes_moved` with `flops_per_second / bytes_per_second`: below it, memory decides.",
    ),
    draw=_draw,
    wrong="""
intensity < balance => intensity > balance
    the two words exchanged
    ? Which of the two times is longer where there are few operations per byte?
'compute'
    the word for arithmetic, whatever comes in
    ? When is memory slower?
'memory'
    the word for memory, always
    ? When is arithmetic slower?
flops_per_second / => bytes_per_second /
    a comparison in which the machine's operations per byte are not used
    ? How many operations does this machine do while one byte arrives?
flops_per_second / bytes_per_second => bytes_per_second / flops_per_second
    a comparison with the balance upside down, in bytes per operation
    ? In what unit is each side of your comparison?
operations / bytes_moved => bytes_moved / operations
    a comparison of the bytes per operation with the operations per byte of the machine
    ? In what unit is each side of your comparison?
operations / bytes_moved < flops_per_second / bytes_per_second
    True where memory decides, and False elsewhere; a word is asked for
    ? Which word belongs to True?
""",
)
