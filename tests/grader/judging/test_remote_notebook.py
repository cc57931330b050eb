"""A notebook's answers from the sandbox: nonsense and sudden ends become reasons, never errors of the grader."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from course_grader.judging.remote_answers import RemoteAnswer, plain_result
from course_grader.judging.remote_notebook import EXTRA_STARTS, OutOfTime, RemoteNotebook
from course_grader.sandbox import NotebookEnded, OpaqueValue, ResourceLimits, SandboxLost
from course_lib.exercises import LearnerError, Ran

LOADED = {"loaded": {"f": "function"}}
CELLS = [(1, "a"), (3, "b")]


class Scripted:
    """A sandbox whose sessions say what a test wants: for each session a list, an exception is raised."""

    def __init__(self, *sessions):
        self.limits, self.sessions, self.asked, self.open = ResourceLimits(), iter(sessions), [], 0

    @contextlib.contextmanager
    def session(self):
        script = iter(next(self.sessions))
        self.open += 1

        def follow(request, seconds, **arguments):
            self.asked.append((request, arguments))
            for said in script:
                if isinstance(said, Exception):
                    raise said
                yield said

        def ask_all(requests, seconds):
            for request, arguments in requests:
                yield next(follow(request, seconds, **arguments))

        yield SimpleNamespace(follow=follow, ask_all=ask_all, until=1e18)
        self.open -= 1


def remote(*sessions):
    return RemoteNotebook(Scripted(*sessions), CELLS, ["f"], {})


def test_a_function():
    with remote([{"cell": 1}, {"cell": 3}, {"cell": 3, "raised": {"kind": "E"}}, LOADED, {"result": 7}]) as notebook:
        notebook.load()
        assert notebook.kinds == {"f": "function"} and notebook.raised == {3: {"kind": "E"}}
        assert notebook.ask("call", name="f") == {"result": 7}
        assert notebook.sandbox.open == 1
    assert notebook.sandbox.open == 0


def test_the_cell_that_ended_it_is_left_out():
    with remote([{"cell": 1}, {"cell": 3}, NotebookEnded("it ended Python")], [{"cell": 1}, LOADED]) as notebook:
        notebook.load()
        assert notebook.ended == {3: "it ended Python"}
        assert [asked["cells"] for _, asked in notebook.sandbox.asked] == [CELLS, CELLS[:1]]


NONSENSE = [
    {"cell": 2}, {"cell": "1"}, {"cell": [1]}, {"cell": {}}, {"cell": True}, {"cell": torch.zeros(2)}, {"cell": 1.0},
    {}, {"loaded": 3}, {"loaded": [1]}, {"raised": {"kind": "E"}},
]  # fmt: skip


@pytest.mark.parametrize("said", NONSENSE, ids=str)
def test_nonsense_instead_of_a_cell(said):
    with remote([said, LOADED]) as notebook, pytest.raises(OutOfTime) as stopped:
        notebook.load()
    assert stopped.value.sentence == "Your notebook could not be run: what it sent back was not a valid answer."


def test_a_cell_that_was_past_cannot_be_blamed():
    """Cell 3 says that cell 1 runs and ends Python: it is cell 3 that is left out."""
    with remote([{"cell": 1}, {"cell": 3}, {"cell": 1}, NotebookEnded("x")], [LOADED]) as notebook:
        notebook.load()
        assert notebook.ended == {3: "what it sent back was not a valid answer"}


def test_it_ends_again_and_again():
    sessions = [[{"cell": 1}, LOADED, NotebookEnded("it ended Python")] for _ in range(EXTRA_STARTS + 1)]  # one name
    with remote(*sessions) as notebook:
        for _ in range(EXTRA_STARTS + 1):
            with pytest.raises(LearnerError) as stopped:
                notebook.ask("call", name="f")
            assert stopped.value.sentence == "Your code stopped with this: it ended Python."
        with pytest.raises(OutOfTime, match="again and again; the rest was not run"):
            notebook.ask("call", name="f")


@pytest.mark.parametrize("script", [[SandboxLost("away")], [LOADED, SandboxLost("away")]], ids=["loading", "asking"])
def test_a_lost_sandbox_is_no_verdict(script):
    """The judge sees the code stop; whoever opened the notebook gets SandboxLost, so that nothing of it counts."""
    with pytest.raises(SandboxLost, match="away"), remote(script) as notebook:
        with pytest.raises(LearnerError):
            notebook.ask("call", name="f")
        assert notebook.sandbox.open == 0


def test_an_error_of_ours_is_not_hidden_by_a_lost_sandbox():
    with pytest.raises(ZeroDivisionError), remote([SandboxLost("away")]) as notebook:
        with contextlib.suppress(LearnerError):
            notebook.load()
        raise ZeroDivisionError


def answer_of(notebook):
    notebook.load()
    return RemoteAnswer(notebook, "f", lambda *_: [])


def test_what_a_function_changed_is_known_by_its_index():
    with remote([LOADED, {"result": 7, "changed": [1]}]) as notebook:
        assert answer_of(notebook).call((torch.zeros(2), torch.zeros(3)), seed=0) == (7, [1])


@pytest.mark.parametrize("changed", [None, 3, ["x"], [True], {0: "x"}, [-1], [10**9]], ids=str)
def test_nonsense_instead_of_changes(changed):
    with (
        remote([LOADED, {"result": 1, "changed": changed}]) as notebook,
        pytest.raises(LearnerError, match="not a valid"),
    ):
        answer_of(notebook).call((torch.zeros(2),), seed=0)


SHAPES = [{"w": 3}, {"w": (1.5,)}, {"w": (True,)}, {"w": None}, [1], None, {"w": torch.zeros(2)}, {"w": "12"}]


@pytest.mark.parametrize("parameters", SHAPES, ids=str)
def test_nonsense_instead_of_parameters(parameters):
    with remote([LOADED, {"built": 0, "parameters": parameters}]) as notebook, pytest.raises(LearnerError) as stopped:
        answer_of(notebook).build((2, 3), 0)
    assert stopped.value.sentence == "Your code stopped with this: what it reported was not a valid answer."


RAN = {"result": 1, "changed": [], "gradients": {"w": None, 3: torch.ones(1), "v": "x"}, "kept": "x", "moved": 3}


def test_a_class():
    script = [LOADED, {"built": 0, "parameters": {"w": (2, 3)}, "plain_modules": ["a\u202e", 3], "forward": False}, RAN]
    with remote(script, [LOADED]) as notebook:
        module = answer_of(notebook).build((2, 3), 0)
        assert module.parameters == {"w": (2, 3)} and module.plain_modules == ["a\\u202e"] and not module.forward
        assert module.run({}, (torch.zeros(1),)) == Ran(1, [], {"w": None, "v": None}, [], None, None, [], 0, [])
        notebook.forget()
        with pytest.raises(LearnerError, match="its process ended before"):
            module.run({}, (torch.zeros(1),))


@pytest.mark.parametrize(
    "ran", [{}, {"result": 1, "changed": []}, {"result": 1, "changed": [], "gradients": [1]}], ids=str
)
def test_nonsense_instead_of_a_run(ran):
    with (
        remote([LOADED, {"built": 0, "parameters": {}}, ran]) as notebook,
        pytest.raises(LearnerError, match="not a valid"),
    ):
        answer_of(notebook).build((2, 3), 0).run({}, (torch.zeros(1),))


def test_a_class_that_is_none():
    with remote([LOADED, {"no_module": "int"}]) as notebook, pytest.raises(LearnerError) as stopped:
        answer_of(notebook).build((2,), 0)
    assert "it gives a int, no `nn.Module`: write `class f(nn.Module)`" in stopped.value.sentence


def test_what_is_no_plain_data():
    assert type(plain_result(OpaqueValue("Equal"))).__name__ == "Equal"
    assert type(plain_result([OpaqueValue("a\0b\u202e" + "x" * 500)])[0]).__name__.startswith("a\\u0000b\\u202ex")
    assert type(plain_result(OpaqueValue(""))).__name__ == "thing"
    assert plain_result(("<b>\u202e", {1: [2]})) == ("<b>\\u202e", {1: [2]})


@pytest.mark.parametrize(
    "error",
    [
        {},
        {"kind": 3, "message": [1], "file": {}, "line": None, "text": None},
        {"message": "x" * 999, "file": "cell 3", "line": "2"},
        {
            "tensors": [["x", [1, "y"], 2], ["x" * 999, [3], 1, True], ["x", [3], 1, 2], 7, ["x"]],
            "function": 3,
            "unwritten": {},
        },
    ],
    ids=str,
)
def test_an_error_that_is_described_badly(error):
    with remote([LOADED, {"raised": error}]) as notebook, pytest.raises(LearnerError) as stopped:
        notebook.ask("call", name="f")
    assert stopped.value.sentence.startswith("Your code stopped") and len(stopped.value.sentence) < 400


THREE = [("call", {"name": "f", "seed": seed}) for seed in range(3)]
ERROR = {"raised": {"kind": "E", "message": "no"}}


def test_requests_that_are_made_together():
    with remote([LOADED, {"result": 0}, {"result": 1}, {"result": 2}]) as notebook:
        assert [said["result"] for said in notebook.ask_all(THREE)] == [0, 1, 2]
        assert [arguments["seed"] for request, arguments in notebook.sandbox.asked if request == "call"] == [0, 1, 2]


def test_answers_that_nobody_waited_for_are_not_taken_for_others():
    """A judge stops at the first wrong answer; the next request gets its own answer."""
    with remote([LOADED, {"result": 0}, {"result": 1}, {"result": 2}, {"result": "next"}]) as notebook:
        assert next(notebook.ask_all(THREE)) == {"result": 0}
        assert notebook.ask("call", name="g") == {"result": "next"}


def test_what_comes_after_an_error_is_not_taken_for_another_answer():
    with remote([LOADED, {"result": 0}, ERROR, {"result": 2}, {"result": "next"}]) as notebook:
        got = notebook.ask_all(THREE)
        assert next(got) == {"result": 0}
        with pytest.raises(LearnerError, match="no"):
            next(got)
        assert notebook.ask("call", name="g") == {"result": "next"}


def test_the_process_ends_in_a_call_that_nobody_waited_for():
    """The answers before it count, and the next request starts a new process."""
    ends = [LOADED, {"result": 0}, NotebookEnded("it ended Python")]
    with remote(ends, [LOADED, {"result": "next"}]) as notebook:
        assert next(notebook.ask_all(THREE)) == {"result": 0}
        assert notebook.ask("call", name="g") == {"result": "next"} and notebook.sandbox.open == 1
