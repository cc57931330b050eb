"""A notebook's answers from behind walls: nonsense and sudden ends become reasons, never errors of the grader."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from course_lib.classroom.judging.remote import TRIES, OutOfTime, Remote, RemoteClass, RemoteFunction, plain
from course_lib.classroom.sandbox import Ended, Limits, Lost
from course_lib.classroom.sandbox.inside.wire import Other
from course_lib.exercises.running import Stopped

LOADED = {"loaded": {"f": "function"}}
CELLS = [(1, "a"), (3, "b")]


class Scripted:
    """A sandbox whose sessions say what a test wants: for each session a list, an exception is raised."""

    def __init__(self, *sessions):
        self.limits, self.sessions, self.asked, self.open = Limits(), iter(sessions), [], 0

    @contextlib.contextmanager
    def session(self):
        script = iter(next(self.sessions))
        self.open += 1

        def follow(do, seconds, **with_):
            self.asked.append((do, with_))
            for said in script:
                if isinstance(said, Exception):
                    raise said
                yield said

        def ask(do, seconds, **with_):
            return next(follow(do, seconds, **with_))

        yield SimpleNamespace(follow=follow, ask=ask, until=1e18)
        self.open -= 1


def remote(*sessions):
    return Remote(Scripted(*sessions), CELLS, ["f"], {})


def test_a_function():
    with remote([{"cell": 1}, {"cell": 3}, {"cell": 3, "raised": {"kind": "E"}}, LOADED, {"result": 7}]) as one:
        one.load()
        assert one.kinds == {"f": "function"} and one.raised == {3: {"kind": "E"}}
        assert one.ask("call", name="f") == {"result": 7}
        assert one.sandbox.open == 1
    assert one.sandbox.open == 0


def test_the_cell_that_ended_it_is_left_out():
    with remote([{"cell": 1}, {"cell": 3}, Ended("it ended Python")], [{"cell": 1}, LOADED]) as one:
        one.load()
        assert one.ended == {3: "it ended Python"}
        assert [asked["cells"] for _, asked in one.sandbox.asked] == [CELLS, CELLS[:1]]


NONSENSE = [
    {"cell": 2}, {"cell": "1"}, {"cell": [1]}, {"cell": {}}, {"cell": True}, {"cell": torch.zeros(2)}, {"cell": 1.0},
    {}, {"loaded": 3}, {"loaded": [1]}, {"raised": {"kind": "E"}},
]  # fmt: skip


@pytest.mark.parametrize("said", NONSENSE, ids=str)
def test_nonsense_instead_of_a_cell(said):
    with remote([said, LOADED]) as one, pytest.raises(OutOfTime) as stopped:
        one.load()
    assert stopped.value.says == "Your notebook could not be run: what it gave back was no answer."


def test_a_cell_that_was_past_cannot_be_blamed():
    """Cell 3 says that cell 1 runs and ends Python: it is cell 3 that is left out."""
    with remote([{"cell": 1}, {"cell": 3}, {"cell": 1}, Ended("x")], [LOADED]) as one:
        one.load()
        assert one.ended == {3: "what it gave back was no answer"}


def test_it_ends_again_and_again():
    sessions = [[{"cell": 1}, LOADED, Ended("it ended Python")] for _ in range(TRIES + 1)]  # one name
    with remote(*sessions) as one:
        for _ in range(TRIES + 1):
            with pytest.raises(Stopped) as stopped:
                one.ask("call", name="f")
            assert stopped.value.says == "Your code stopped with this: it ended Python."
        with pytest.raises(OutOfTime, match="again and again; the rest was not run"):
            one.ask("call", name="f")


@pytest.mark.parametrize("script", [[Lost("away")], [LOADED, Lost("away")]], ids=["loading", "asking"])
def test_a_lost_sandbox_is_no_verdict(script):
    """The judge sees the code stop; whoever opened the notebook gets Lost, so that nothing of it counts."""
    with pytest.raises(Lost, match="away"), remote(script) as one:
        with pytest.raises(Stopped):
            one.ask("call", name="f")
        assert one.sandbox.open == 0


def test_an_error_of_ours_is_not_hidden_by_a_lost_sandbox():
    with pytest.raises(ZeroDivisionError), remote([Lost("away")]) as one:
        with contextlib.suppress(Stopped):
            one.load()
        raise ZeroDivisionError


def test_what_a_function_changes_is_changed_here():
    x, other = torch.zeros(2), torch.zeros(3)
    with remote([LOADED, {"result": None, "changed": {0: torch.ones(2), 7: 1, "x": 2, -1: torch.ones(3)}}]) as one:
        assert RemoteFunction(one, "f", [(x, other)])(x, other) is None
    assert torch.equal(x, torch.ones(2)) and torch.equal(other, torch.zeros(3))


@pytest.mark.parametrize("changed", [None, 3, [1], {0: "x"}, {(0,): 1}], ids=str)
def test_nonsense_instead_of_changes(changed):
    x = torch.zeros(2)
    with remote([LOADED, {"result": 1, "changed": changed}]) as one:
        assert RemoteFunction(one, "f", [(x,)])(x) == 1
    assert torch.equal(x, torch.zeros(2))


SHAPES = [{"w": 3}, {"w": (1.5,)}, {"w": (True,)}, {"w": None}, [1], None, {"w": torch.zeros(2)}, {"w": "12"}]


@pytest.mark.parametrize("parameters", SHAPES, ids=str)
def test_nonsense_instead_of_parameters(parameters):
    with remote([LOADED, {"built": 0, "parameters": parameters}]) as one, pytest.raises(Stopped) as stopped:
        RemoteClass(one, "f").build((2, 3), 0)
    assert stopped.value.says == "Your code stopped with this: what it said of its parameters was no answer."


def test_a_class():
    script = [LOADED, {"built": 0, "parameters": {"w": (2, 3)}}, {"result": 1, "x": 2}]
    with remote(script, [LOADED]) as one:
        module = RemoteClass(one, "f").build((2, 3), 0)
        assert module.parameters == {"w": (2, 3)} and module.run({}, torch.zeros(1)) == (1, 2)
        one.forget()
        with pytest.raises(Stopped, match="its process ended before"):
            module.run({}, torch.zeros(1))


def test_a_class_that_is_none():
    with remote([LOADED, {"no_module": "int"}]) as one, pytest.raises(Stopped) as stopped:
        RemoteClass(one, "f").build((2,), 0)
    assert "it gives a int, no `nn.Module`: write `class f(nn.Module)`" in stopped.value.says


def test_what_is_no_plain_data():
    assert type(plain(Other("Equal"))).__name__ == "Equal"
    assert type(plain([Other("a\0b\u202e" + "x" * 500)])[0]).__name__.startswith("a\\u0000b\\u202ex")
    assert type(plain(Other(""))).__name__ == "thing"
    assert plain(("<b>\u202e", {1: [2]})) == ("<b>\\u202e", {1: [2]})


@pytest.mark.parametrize(
    "told", [{}, {"kind": 3, "words": [1], "where": {}, "text": None}, {"words": "x" * 999}], ids=str
)
def test_an_error_that_is_told_badly(told):
    with remote([LOADED, {"raised": told}]) as one, pytest.raises(Stopped) as stopped:
        one.ask("call", name="f")
    assert stopped.value.says.startswith("Your code stopped") and len(stopped.value.says) < 400
