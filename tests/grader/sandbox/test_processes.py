"""Something is killed, stalls or never ends: nothing is left behind, and nobody else suffers."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch

from course_grader.sandbox import (
    Isolation,
    NoSandbox,
    NotebookEnded,
    ResourceLimits,
    Sandbox,
    SandboxLost,
    Session,
)
from course_grader.sandbox.guest.messages import HEADER, MAX_FRAME, ProtocolError, pack
from course_grader.sandbox.guest.wire import Channel, Timeout
from tests.grader.sandbox.session_requests import call, family, load, status

pytestmark = pytest.mark.xdist_group("sandbox")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def everybody():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def wait_until(true, seconds=5):
    until = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def pythons(sandbox):
    """The processes in the sandbox that run Python, the fork server first."""
    return [pid for pid in family(sandbox._server.pid, everybody()) if "python" in (status(pid) or "?")[0]]


@linux
def test_sessions_leave_nothing(sandbox):
    """Neither files nor processes, here or in the fork server, which must have one thread because it forks."""
    with sandbox.session() as session:
        load(session, "pass")
    server = pythons(sandbox)[-1]

    def there():
        return len(os.listdir("/proc/self/fd")), os.listdir(f"/proc/{server}/fd"), family(os.getpid(), everybody())

    before = there()
    for _ in range(15):
        with sandbox.session() as session:
            load(session, "import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()")
    assert there() == before
    assert len(os.listdir(f"/proc/{server}/task")) == 1
    assert before[1] == ["0", "1", "2"]


@linux
def test_the_fork_server_is_killed(sandbox):
    """What was going on is lost, which is no fault of the notebook; the next session is a good one."""
    with pytest.raises(SandboxLost, match=r"The sandbox was ended from outside\."), sandbox.session() as session:
        load(session, "def wait():\n    while True: pass")
        os.kill(pythons(sandbox)[0], signal.SIGKILL)
        call(session, "wait")
    with sandbox.session() as session:
        load(session, "def two(): return 2")
        assert call(session, "two") == 2


@linux
def test_a_guard_is_killed(sandbox):
    """Its notebook goes with it; the others don't notice."""
    with (
        sandbox.session() as other,
        pytest.raises(NotebookEnded, match="it ended Python"),
        sandbox.session() as session,
    ):
        load(other, "def two(): return 2")
        first = pythons(sandbox)
        load(session, "def wait():\n    while True: pass")
        server, *_ = first
        guards = [pid for pid in pythons(sandbox) if status(pid)[2] == server]
        assert len(guards) == 2
        guarded = family(guards[-1], everybody())
        assert len(guarded) == 2
        os.kill(guards[-1], signal.SIGKILL)
        assert wait_until(lambda: not any(map(status, guarded)))
        assert call(other, "two") == 2
        call(session, "wait")


def test_a_notebook_that_never_ends_is_ended_in_time(sandbox):
    with pytest.raises(NotebookEnded, match=r"it had not finished after 0\.2 seconds"), sandbox.session() as session:
        load(session, "def wait():\n    while True: pass")
        began = time.monotonic()
        call(session, "wait", seconds=0.2)
    assert time.monotonic() - began < 2


def test_an_interrupt_ends_the_session(sandbox):
    """Ctrl-C comes out, and the sandbox goes on."""
    with pytest.raises(KeyboardInterrupt), sandbox.session() as session:
        load(session, "def wait():\n    while True: pass")
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        call(session, "wait")
    with sandbox.session() as session:
        load(session, "def two(): return 2")
        assert call(session, "two") == 2
    assert os.getpgid(sandbox._server.pid) != os.getpgid(0)  # the terminal's signal doesn't reach it


OWNER = """
import os, sys, time
from course_grader.sandbox import Isolation, ResourceLimits, Sandbox, choose_isolation
isolation = choose_isolation() if sys.argv[1] == "bubblewrap" else Isolation("nothing")
session = Sandbox(isolation, ResourceLimits()).session()
inner = session.__enter__()
code = "import os, time\\nif os.getpid() > 9 and os.fork() == 0:\\n    time.sleep(60)"
for said in inner.follow("load", 10, cells=[(0, code)], names=[], provided={}):
    if "loaded" in said:
        break
print("ready", flush=True)
inner.ask("call", 60, name="time", arguments=[], seed=0)
inner.channel.send({"do": "load", "with": {"cells": [(0, "while True: pass")], "names": [], "provided": {}}})
print("busy", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@linux
def test_the_owner_is_killed(isolation):
    """Nothing outlives the process that owns a sandbox, with isolation or without, whatever a notebook does then."""
    owners = [
        subprocess.Popen([sys.executable, "-c", OWNER, kind], stdout=subprocess.PIPE, text=True)
        for kind in ("bubblewrap", "nothing")
    ]
    for owner in owners:
        with owner:
            assert [owner.stdout.readline(), owner.stdout.readline()] == ["ready\n", "busy\n"]
            others = family(owner.pid, everybody())[1:]
            assert len(others) >= 3
            owner.kill()
            owner.wait()
            assert wait_until(lambda others=others: not any(map(status, others)))


@pytest.mark.slow
def test_without_isolation():
    """`--unsafe` runs notebooks too; what they started ends with them."""
    unsafe = Isolation("nothing")
    with Sandbox(unsafe, ResourceLimits()) as sandbox:
        with sandbox.session() as session:
            code = "import os, time\nchild = os.fork()\nif child == 0: time.sleep(60)\ndef which(): return child"
            assert load(session, code) is None
            child = call(session, "which")
            assert status(child) if sys.platform == "linux" else child
        if sys.platform == "linux":
            assert wait_until(lambda: not status(child))
        with pytest.raises(NotebookEnded, match=r"it crashed Python \(SIGKILL\)"), sandbox.session() as session:
            load(session, f"{code}\ndef die(): os.kill(os.getpid(), 9)")
            child = call(session, "which")
            call(session, "die")
        if sys.platform == "linux":
            assert wait_until(lambda: not status(child))


class Failing(Isolation):
    """Isolation in which Python does what a test wants."""

    def command(self, module, settings):
        return [sys.executable, "-I", "-c", self.name]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_torch", "ModuleNotFoundError: No module named 'no_such_torch'"),
        ("raise SystemExit", "it ended"),
        ("import os; os.write(0, b'nonsense\\n')", "Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_fork_server_that_cannot_start(code, words):
    """The sentence carries the reason, and no file stays open."""
    with Sandbox(Failing(code), ResourceLimits()) as sandbox, pytest.raises(NoSandbox) as error, sandbox.session():
        pass
    assert str(error.value) == f"A sandbox could not be started: {words}."
    with (
        Sandbox(Failing(code, forks=False), ResourceLimits()) as sandbox,
        pytest.raises(NoSandbox) as error,
        sandbox.session(),
    ):
        pass
    if "nonsense" not in code:
        assert (
            str(error.value)
            == f"A sandbox could not be started: {words.replace('it ended', 'the other side is gone')}."
        )


def test_a_program_that_is_not_there():
    class Away(Isolation):
        def command(self, module, settings):
            return ["/no/such/program"]

    for forks in (True, False):
        with (
            Sandbox(Away("away", forks=forks), ResourceLimits()) as sandbox,
            pytest.raises(NoSandbox, match="No such file"),
        ):
            sandbox.session().__enter__()


@pytest.fixture
def line():
    """A session, and the other end of its line, where the test plays the notebook."""
    ours, theirs = socket.socketpair()
    end = ours.detach()
    session = Session(Channel(end, end), ResourceLimits(cell=0.2, answer=0.2, notebook=0.6))
    with theirs:
        yield session, theirs
    session.channel.close()


def behave(sending, pause=0.01):
    """Do something in the background, as long as it can be done."""

    def go():
        try:
            while True:
                sending()
                time.sleep(pause)
        except OSError:
            return

    threading.Thread(target=go, daemon=True).start()


SECONDS = r"it had not finished after 0\.2 seconds"


def test_half_a_frame_and_silence(line):
    session, theirs = line
    theirs.sendall(HEADER.pack(100, 0) + b"half")
    with pytest.raises(NotebookEnded, match=SECONDS):
        session.ask("call", 0.2)


def test_a_byte_at_a_time_for_ever(line):
    """The time is of the whole message, not of a byte."""
    session, theirs = line
    theirs.sendall(HEADER.pack(1 << 20, 0))
    behave(lambda: theirs.sendall(b" "))
    began = time.monotonic()
    with pytest.raises(NotebookEnded, match=SECONDS):
        session.ask("call", 0.2)
    assert time.monotonic() - began < 0.5


def test_messages_without_end(line):
    """Each is in time, so the notebook's own time ends it."""
    session, theirs = line
    behave(lambda: theirs.sendall(pack({"cell": 1})))
    with pytest.raises(NotebookEnded, match=r"the 0\.6 seconds for the whole notebook were used up"):
        for message in session.follow("load", 0.2):
            assert message == {"cell": 1}


def test_one_who_does_not_read(line):
    """What is sent doesn't wait for ever either, though the line takes a part of it."""
    session, _ = line
    began = time.monotonic()
    with pytest.raises(NotebookEnded, match=SECONDS):
        session.ask("call", 0.2, text="x" * 1_000_000)
    assert time.monotonic() - began < 0.5


def test_one_who_reads_a_little_of_a_pipe():
    """There is room for a page, so a write of more would wait for ever."""
    (reading, theirs), (taking, writing) = os.pipe(), os.pipe()
    channel = Channel(reading, writing)
    threading.Timer(0.05, os.read, [taking, 4096]).start()
    with pytest.raises(Timeout):
        channel.send("x" * 1_000_000, time.monotonic() + 0.2)
    channel.close()
    os.close(theirs), os.close(taking)


def test_a_notebook_that_is_gone(line):
    session, theirs = line
    theirs.close()
    words = r"it ended Python or sent back no valid answer \(the other side is gone\)"
    for _ in range(2):
        with pytest.raises(NotebookEnded, match=words):
            session.ask("call", 0.2)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"ended": 3}, "it ended Python"),
        ({"ended": -11}, r"it crashed Python \(SIGSEGV\)"),
        ({"ended": -(10**15)}, r"it crashed Python \(10"),
        ({"ended": ["x"]}, "it ended Python"),
        (["no answer"], "what it sent back was not a valid answer"),
    ],
)
def test_what_it_says_of_its_end(line, said, words):
    session, theirs = line
    theirs.sendall(pack(said))
    with pytest.raises(NotebookEnded, match=words):
        session.ask("call", 0.2)


def test_a_connection_that_broke_with_its_sandbox(line):
    session, theirs = line
    theirs.close()
    session.is_lost = lambda: True
    with pytest.raises(SandboxLost, match="ended from outside"):
        session.ask("call", 0.2)


@pytest.mark.parametrize(("said", "words"), [({"failed": "unshare: no"}, "unshare: no"), ([1], r"\[1\]")])
def test_a_guest_that_cannot_restrict_itself(line, said, words):
    session, theirs = line
    theirs.sendall(pack(said))
    with pytest.raises(NoSandbox, match=rf"A sandbox could not be started: {words}\."):
        session.wait_until_ready()


def test_a_closed_channel(line):
    """Closed twice is closed; what is asked afterwards doesn't reach a file that got the same number."""
    session, _ = line
    session.channel.close()
    reused = os.dup(0)
    session.channel.close()
    for asking in (lambda: session.channel.send(1, 0.0), lambda: session.channel.receive(0.0)):
        with pytest.raises(ProtocolError, match="the other side is gone"):
            asking()
    os.close(reused)


def test_frames_of_exactly_the_limit(line):
    session, theirs = line
    theirs.sendall(HEADER.pack(2, MAX_FRAME - 1))
    with pytest.raises(ProtocolError, match="a message that is larger than it may be"):
        session.channel.receive(time.monotonic() + 1)
    theirs.sendall(struct.pack(">II", 2, MAX_FRAME - 2) + b"{}")
    with pytest.raises(Timeout):  # it may be as large as that, so the rest is waited for
        session.channel.receive(time.monotonic() + 0.05)


@pytest.mark.parametrize("name", ["cell", "answer", "notebook", "memory", "disk"])
def test_limits(name):
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"^{name} is {wrong}: a limit must be more than 0, and finite\.$"):
            replace(ResourceLimits(), **{name: wrong})
    with pytest.raises(TypeError, match=rf"^{name} is '3': give a number\.$"):
        replace(ResourceLimits(), **{name: "3"})


SLOW = """
import torch, time
def same(x): return x
def slow(x):
    if x == 1:
        while True: pass
    return x
def ends(x):
    if x == 2:
        import os
        os._exit(3)
    return x
"""


def asked(name, *arguments):
    return [("call", {"name": name, "arguments": [argument], "seed": 0}) for argument in arguments]


def test_more_than_the_line_takes_both_ways_at_once(sandbox):
    """Requests of 20 MB and as much in answers: neither end waits for the other."""
    with sandbox.session() as session:
        load(session, SLOW, "same")
        sent = [torch.full((256, 1024), float(number), dtype=torch.float64) for number in range(10)]
        got = [said["result"] for said in session.ask_all(asked("same", *sent), 10)]
        assert all(torch.equal(tensor, other) for tensor, other in zip(got, sent, strict=True))


def test_a_limit_is_of_each_answer(sandbox):
    """The second of three never ends: the first has come, and the time is that of one call."""
    with sandbox.session() as session:
        load(session, SLOW, "slow")
        answers, began = session.ask_all(asked("slow", 0, 1, 2), 0.5), time.monotonic()
        assert next(answers)["result"] == 0
        with pytest.raises(NotebookEnded, match=r"it had not finished after 0\.5 seconds"):
            next(answers)
        assert 0.5 <= time.monotonic() - began < 5


def test_an_end_is_that_of_its_own_call(sandbox):
    with sandbox.session() as session:
        load(session, SLOW, "ends")
        answers = session.ask_all(asked("ends", 0, 1, 2, 3), 10)
        assert [next(answers)["result"] for _ in range(2)] == [0, 1]
        with pytest.raises(NotebookEnded, match="it ended Python"):
            next(answers)
