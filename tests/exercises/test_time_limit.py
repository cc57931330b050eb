"""Code that never ends is ended with a sentence, in plain Python and in a notebook's kernel."""

import time

import pytest

from course_lib.exercises import ALL, InputGenerator, LocalAnswer
from course_lib.exercises.answering import TimeLimit, time_limit

from .written_answers import run_cell

FUNCTION = """
def scores_of_token(query, keys):
    while True:
        {body}
"""
CLASS = """
class SingleHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        while d_in > 0:
            pass

    def forward(self, x):
        return x
"""
ENDLESS = [
    ("scores_of_token", FUNCTION.format(body="pass"), "`scores_of_token`"),
    ("scores_of_token", FUNCTION.format(body="torch.ones(3).sum()"), "`scores_of_token`"),
    ("SingleHeadWithGaps", CLASS, "`SingleHeadWithGaps.__init__`"),
]
KERNEL = """
import course_lib.exercises.local_answer as local
from course_lib.exercises import ALL, InputGenerator, LocalAnswer
def scores_of_token(query, keys):
    while True:
        len(keys)
ALL["scores_of_token"].judge(LocalAnswer(scores_of_token, seconds=0.3), InputGenerator(0))
"""


@pytest.mark.parametrize(("name", "source", "place"), ENDLESS)
def test_an_endless_loop_is_ended_with_its_line(name, source, place):
    begin = time.monotonic()
    verdict = ALL[name].judge(LocalAnswer(run_cell(source, name), seconds=0.3), InputGenerator(0))
    assert time.monotonic() - begin < 10
    assert verdict.state == "not passed yet" and f"Your code stopped in {place}" in verdict.message
    assert "it was stopped after 0.3 seconds" in verdict.message
    assert verdict.hint == "Which loop may never end?" and verdict.where.startswith("<answer ")


@pytest.mark.slow
def test_a_kernel_goes_on_after_an_endless_loop():
    manager = pytest.importorskip("jupyter_client.manager")
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    shown = []

    def keep(message):
        shown.append(str(message["content"].get("data", {}).get("text/plain", "")))

    try:
        client.execute_interactive(KERNEL, timeout=120, output_hook=keep)
        client.execute_interactive("6 * 7", timeout=60, output_hook=keep)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    assert "stopped in `scores_of_token`" in "".join(shown) and "after 0.3 seconds" in "".join(shown)
    assert shown[-2:].count("42") == 1


def forever():
    while True:
        pass


@pytest.mark.slow
def test_the_inner_of_two_limits_ends_alone():
    """The one around it goes on, with its own end."""
    begin = time.monotonic()
    with pytest.raises(TimeLimit, match=r"after 1 seconds"), time_limit(1.0):
        with pytest.raises(TimeLimit, match=r"after 0\.2 seconds"), time_limit(0.2):
            forever()
        assert time.monotonic() - begin < 1
        forever()
    assert time.monotonic() - begin < 10


def test_the_outer_of_two_limits_ends_both():
    """The inner one had longer, and says nothing."""
    begin = time.monotonic()
    with pytest.raises(TimeLimit, match=r"after 0\.2 seconds"), time_limit(0.2), time_limit(60.0):
        forever()
    assert time.monotonic() - begin < 10


def test_after_an_inner_limit_that_held_the_outer_one_holds():
    with pytest.raises(TimeLimit, match=r"after 0\.3 seconds"), time_limit(0.3):
        with time_limit(60.0):
            pass
        forever()


def test_an_interrupt_by_hand_is_no_time_limit():
    """Also after an inner limit was over."""
    with pytest.raises(KeyboardInterrupt), time_limit(60.0):
        with pytest.raises(TimeLimit), time_limit(0.1):
            forever()
        raise KeyboardInterrupt
