"""Grading in this process: what a teacher's machine says of an answer, without the walls of the sandbox."""

import contextlib
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

from course_grader.judging.remote_answers import RemoteAnswer
from course_grader.judging.remote_notebook import RemoteNotebook
from course_grader.sandbox import ResourceLimits
from course_grader.sandbox.bubblewrap import ANSWERING
from course_grader.sandbox.guest.messages import pack, unpack
from course_grader.sandbox.guest.wire import HEADER
from course_lib.exercises import ALL, InputGenerator, LocalAnswer

ANSWERS = Path(__file__).resolve().parent


def through(message):
    """What arrives of a message at the other end."""
    packed = bytes(pack(message))
    text, blob = HEADER.unpack(packed[: HEADER.size])
    content = packed[HEADER.size :]
    assert len(content) == text + blob
    return unpack(content[:text], content[text:])


@contextlib.contextmanager
def guest_module():
    """The module that runs in the sandbox, here; only `answering` has to be found as it is there."""
    sys.path.insert(0, str(ANSWERING.parent))
    try:
        yield importlib.import_module("course_grader.sandbox.guest.student")
    finally:
        sys.path.remove(str(ANSWERING.parent))


def is_an_answers(file):
    """Whether a line of this file is a learner's."""
    return file.startswith((str(ANSWERS), "<filled>")) and file != __file__


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
                report = self.guest.describe_error(error, is_an_answers)
                return {"raised": through(report)}

        def ask_all(requests, seconds):
            return (ask(request, seconds, **arguments) for request, arguments in requests)

        yield SimpleNamespace(follow=follow, ask_all=ask_all, until=1e18)


def graded(guest, name, code, seed):
    """The verdict of grading, whose requests go to a notebook in this process."""
    local = LocalAnswer(code)
    diagnosed = local.diagnose if hasattr(local, "diagnose") else None
    with RemoteNotebook(Here(guest, name, code), [(1, "")], [name], {}) as remote:
        remote.load()
        return ALL[name].judge(RemoteAnswer(remote, name, diagnosed), InputGenerator(seed))
