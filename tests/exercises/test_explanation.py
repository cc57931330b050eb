"""What a wrong answer computes is told from slips in the solution: only what is so, and only if it says something."""

from course_lib.exercises import ALL, InputGenerator, LocalAnswer

from .written_answers import run_cell

TOLD = "what comes out if"


def message(name, source):
    verdict = ALL[name].judge(LocalAnswer(run_cell(source, name)), InputGenerator(3))
    assert verdict.state == "not passed yet", verdict
    return verdict.message


def test_an_answer_that_gives_the_same_everywhere_has_no_explanation():
    source = "def needs_copy(shape, strides, axis):\n    return [] == []\n"
    assert TOLD not in message("needs_copy", source)


COUNTED = """
calls = []
def explicit_intensity(num_tokens, num_heads, head_dim, bytes_per_number):
    calls.append(num_tokens)
    heads = num_heads if len(calls) > LAST else 1
    moved = 4 * num_heads * num_tokens * head_dim + 4 * heads * num_tokens**2
    return 4 * num_heads * num_tokens**2 * head_dim / (moved * bytes_per_number)
"""


def test_an_explanation_holds_on_fresh_inputs_too():
    exercise = ALL["explicit_intensity"]
    answer = run_cell(COUNTED.replace("LAST", "10**9"), exercise.name)
    assert TOLD in exercise.judge(LocalAnswer(answer), InputGenerator(3)).message
    calls, fresh = len(answer.__globals__["calls"]), len(exercise.cases(InputGenerator(0)))
    assert TOLD in message(exercise.name, COUNTED.replace("LAST", str(calls)))
    assert TOLD not in message(exercise.name, COUNTED.replace("LAST", str(calls - fresh)))
