"""Practice and grading say the same of every answer that the tests of the exercises know."""

import contextlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_grader.judging.remote_answers import RemoteAnswer
from course_grader.judging.remote_notebook import RemoteNotebook
from course_grader.sandbox import ResourceLimits
from course_grader.sandbox.bubblewrap import ANSWERING
from course_grader.sandbox.guest.messages import pack, unpack
from course_grader.sandbox.guest.wire import HEADER
from course_lib.exercises import ALL, InputGenerator, LocalAnswer, NameExercise

ANSWERS = Path(__file__).resolve().parents[2] / "exercises"


def answers():
    found = []
    for path in sorted(ANSWERS.glob("answers_*.py")):
        spec = importlib.util.spec_from_file_location(f"agreeing_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, right in module.RIGHT.items():
            found += [(name, f"right {at}", one) for at, one in enumerate(right)]
        for name, wrong in module.WRONG.items():
            found += [(name, f"wrong {at}", one) for at, (one, *_) in enumerate(wrong)]
    return [pytest.param(name, code, id=f"{name}-{label}") for name, label, code in found]


def through(message):
    """What arrives of a message at the other end."""
    packed = bytes(pack(message))
    text, blob = HEADER.unpack(packed[: HEADER.size])
    content = packed[HEADER.size :]
    assert len(content) == text + blob
    return unpack(content[:text], content[text:])


@pytest.fixture(scope="module")
def guest():
    """The module that runs in the sandbox, here; only `answering` has to be found as it is there."""
    sys.path.insert(0, str(ANSWERING.parent))
    try:
        yield importlib.import_module("course_grader.sandbox.guest.student")
    finally:
        sys.path.remove(str(ANSWERING.parent))


class Here:
    """A sandbox whose notebook runs in this process; every message is packed and unpacked as between processes."""

    def __init__(self, guest, name, code):
        self.limits, self.guest, self.name, self.code = ResourceLimits(), guest, name, code

    @contextlib.contextmanager
    def session(self):
        notebook = self.guest.RunningNotebook(SimpleNamespace(send=lambda message: None), False)
        notebook.main.__dict__[self.name] = self.code

        def follow(request, seconds, **arguments):
            yield {"loaded": {self.name: self.guest._kind(self.code)}}

        def ask(request, seconds, **arguments):
            sent = through(arguments)
            try:
                return through(getattr(notebook, f"do_{request}")(**sent))
            except Exception as error:
                own = str(ANSWERS)
                report = self.guest.describe_error(error, lambda file: file.startswith((own, "<filled>")))
                return {"raised": through(report)}

        def ask_all(requests, seconds):
            return (ask(request, seconds, **arguments) for request, arguments in requests)

        yield SimpleNamespace(follow=follow, ask_all=ask_all, until=1e18)


@pytest.mark.parametrize(("name", "code"), answers())
def test_both_say_the_same(name, code, guest):
    exercise = ALL[name]
    local = LocalAnswer(code)
    diagnosed = local.diagnose if hasattr(local, "diagnose") else None
    with RemoteNotebook(Here(guest, name, code), [(1, "")], [name], {}) as remote:
        remote.load()
        graded = exercise.judge(RemoteAnswer(remote, name, diagnosed), InputGenerator(5))
    practised = exercise.judge(local, InputGenerator(5))
    assert (graded.state, graded.mistake, graded.hint) == (practised.state, practised.mistake, practised.hint)
    if not isinstance(exercise, NameExercise) and "stopped" not in practised.message:
        assert graded.message == practised.message and graded.evidence == practised.evidence
