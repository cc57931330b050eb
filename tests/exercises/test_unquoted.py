"""A word without quotes is taken for the word in a real kernel, and nothing else changes there."""

import re
import subprocess
import sys

import pytest
from jupyter_client.manager import start_new_kernel

IMPORT = "from course_lib.exercises import predict"


@pytest.fixture(scope="module")
def run():
    """Run a cell in one kernel; return what it printed and the name of its error."""
    manager, client = start_new_kernel(kernel_name="python3")
    said = []

    def output(message):
        if message["msg_type"] == "stream":
            said.append(message["content"]["text"])
        elif message["msg_type"] == "error":
            said.append("\n".join(message["content"]["traceback"]))

    def run_cell(source):
        said.clear()
        reply = client.execute_interactive(source, output_hook=output, timeout=60)
        return "".join(said).strip(), reply["content"].get("ename", "")

    yield run_cell
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def without_numbers(text):
    return re.sub(r"\d+", "0", text)  # the cell's


@pytest.mark.slow
def test_a_word_without_quotes_is_taken_for_the_word_and_nothing_else_is_changed(run):
    before, kind = run("guess = no\nlen(guess)")
    assert kind == "NameError"
    assert run(IMPORT) == ("", "") == run(f"{IMPORT}\nword = 'kept'\nk = [1, 2]")
    said = '… Nothing here is called no, so it counts as the word "no": words need quotes.'
    assert run("guess = no\npredict(guess, lambda: True)") == (
        f"{said}\n✗ You guessed no; it is yes. Read on to see why.",
        "",
    )
    said = '… Nothing here is called columns, so it counts as the word "columns": words need quotes.'
    assert run('guess = columns\npredict(guess, "columns")') == (f"{said}\n✓ You guessed columns; it is columns.", "")
    assert run('guess = word\npredict(guess, "kept")') == ("✓ You guessed kept; it is kept.", "")
    assert run("guess = k\npredict(guess, 'k')")[0].startswith("… Your guess is (1, 2); this question asks for a word")
    assert run("guess = ...\npredict(guess, 3)")[0].startswith("… No guess yet")
    assert run("here = 3\nguess = here\npredict(guess, 3)") == ("✓ You guessed 3; it is 3.", "")
    said = '… Nothing here is called left-right, so it counts as the word "left-right": words need quotes.'
    assert run('guess = left-right\npredict(guess, "left-right")')[0].startswith(f"{said}\n✓")
    assert run("guess = mask-after-softmax\npredict(guess, 3)")[0].endswith("this question asks for an integer.")
    assert run("a, b = 5, 2\nguess = a-b\npredict(guess, 3)") == ("✓ You guessed 3; it is 3.", "")
    # A keyword, too: "for" and "and" are words of sentences.
    said = '… Nothing here is called for, so it counts as the word "for": words need quotes.'
    assert run('guess = for  # a word\npredict(guess, "for")') == (f"{said}\n✓ You guessed for; it is for.", "")
    assert run('guess = and\npredict(guess, lambda: "for")')[0].endswith(
        "✗ You guessed and; it is for. Read on to see why."
    )
    assert run("guess = for\nlen(guess)")[1] == "SyntaxError"
    assert run("guess = 16.7%\npredict(guess, 3)")[1] == "SyntaxError"
    # Any other error is as it was.
    assert without_numbers(run("guess = no\nlen(guess)")[0]) == without_numbers(before)
    assert run("guess = sum([no])\npredict(guess, 3)")[1] == "NameError"
    assert run("predict(no, 3)")[1] == "NameError"
    assert run("1 / 0")[1] == "ZeroDivisionError"


@pytest.mark.slow
def test_plain_python_is_left_alone():
    code = f"{IMPORT}\nimport sys\nassert 'IPython' not in sys.modules\nguess = no\npredict(guess, True)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "NameError: name 'no' is not defined" in ended.stderr
