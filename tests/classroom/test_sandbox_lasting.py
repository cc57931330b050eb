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

from course_lib.classroom.sandbox import Ended, Limits, Lost, NoSandbox, Sandbox, Walls
from course_lib.classroom.sandbox.inside.wire import HEAD, LARGEST, Broken, Channel, Late, pack
from course_lib.classroom.sandbox.session import Session

from .behind import call, family, load, status

pytestmark = pytest.mark.xdist_group("sandbox")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def everybody():
    return [int(one) for one in os.listdir("/proc") if one.isdigit()]


def wait_until(true, seconds=5):
    until = time.monotonic() + seconds
    while not (told := true()) and time.monotonic() < until:
        time.sleep(0.02)
    return told


def pythons(box):
    """The processes behind the walls that run Python, the warm one first."""
    return [pid for pid in family(box._process.process.pid, everybody()) if "python" in (status(pid) or "?")[0]]


@linux
def test_sessions_leave_nothing(box):
    """Neither files nor processes, here or in the warm process, which must have one thread: it forks."""
    with box.session() as session:
        load(session, "pass")
    warm = pythons(box)[-1]

    def there():
        return len(os.listdir("/proc/self/fd")), os.listdir(f"/proc/{warm}/fd"), family(os.getpid(), everybody())

    before = there()
    for _ in range(15):
        with box.session() as session:
            load(session, "import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()")
    assert there() == before
    assert len(os.listdir(f"/proc/{warm}/task")) == 1
    assert before[1] == ["0", "1", "2"]


@linux
def test_the_warm_process_is_killed(box):
    """What was going on is lost, which is no fault of the notebook; the next session is a good one."""
    with pytest.raises(Lost, match=r"The sandbox was ended from outside\."), box.session() as session:
        load(session, "def wait():\n    while True: pass")
        os.kill(pythons(box)[0], signal.SIGKILL)
        call(session, "wait")
    with box.session() as session:
        load(session, "def two(): return 2")
        assert call(session, "two") == 2


@linux
def test_a_guard_is_killed(box):
    """Its notebook goes with it; the others don't notice."""
    with box.session() as other, pytest.raises(Ended, match="it ended Python"), box.session() as session:
        load(other, "def two(): return 2")
        first = pythons(box)
        load(session, "def wait():\n    while True: pass")
        warm, *_ = first
        guards = [pid for pid in pythons(box) if status(pid)[2] == warm]
        assert len(guards) == 2
        guarded = family(guards[-1], everybody())
        assert len(guarded) == 2
        os.kill(guards[-1], signal.SIGKILL)
        assert wait_until(lambda: not any(map(status, guarded)))
        assert call(other, "two") == 2
        call(session, "wait")


def test_a_notebook_that_never_ends_is_ended_in_time(box):
    with pytest.raises(Ended, match=r"it was not done after 0\.2 seconds"), box.session() as session:
        load(session, "def wait():\n    while True: pass")
        began = time.monotonic()
        call(session, "wait", seconds=0.2)
    assert time.monotonic() - began < 2


def test_an_interrupt_ends_the_session(box):
    """Ctrl-C comes out, and the sandbox goes on."""
    with pytest.raises(KeyboardInterrupt), box.session() as session:
        load(session, "def wait():\n    while True: pass")
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        call(session, "wait")
    with box.session() as session:
        load(session, "def two(): return 2")
        assert call(session, "two") == 2
    assert os.getpgid(box._process.process.pid) != os.getpgid(0)  # the terminal's signal doesn't reach it


OWNER = """
import os, sys, time
from course_lib.classroom.sandbox import Limits, Sandbox, Walls, choose
walls = choose() if sys.argv[1] == "bubblewrap" else Walls("nothing", alone=False)
session = Sandbox(walls, Limits()).session()
inner = session.__enter__()
code = "import os, time\\nif os.getpid() > 9 and os.fork() == 0:\\n    time.sleep(60)"
for said in inner.follow("load", 10, cells=[(0, code)], names=[], given={}):
    if "loaded" in said:
        break
print("ready", flush=True)
inner.ask("call", 60, name="time", arguments=[], seed=0)
inner.channel.send({"do": "load", "with": {"cells": [(0, "while True: pass")], "names": [], "given": {}}})
print("busy", flush=True)
time.sleep(60)
"""


@linux
def test_the_owner_is_killed(walls):
    """Nothing outlives the process that owns a sandbox, with walls or without, whatever a notebook does then."""
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


def test_without_walls():
    """`--unsafe` runs notebooks too; what they started ends with them."""
    unsafe = Walls("nothing", alone=False)
    with Sandbox(unsafe, Limits()) as box:
        with box.session() as session:
            code = "import os, time\nchild = os.fork()\nif child == 0: time.sleep(60)\ndef which(): return child"
            assert load(session, code) is None
            child = call(session, "which")
            assert status(child) if sys.platform == "linux" else child
        if sys.platform == "linux":
            assert wait_until(lambda: not status(child))
        with pytest.raises(Ended, match=r"it crashed Python \(SIGKILL\)"), box.session() as session:
            load(session, f"{code}\ndef die(): os.kill(os.getpid(), 9)")
            child = call(session, "which")
            call(session, "die")
        if sys.platform == "linux":
            assert wait_until(lambda: not status(child))


class Failing(Walls):
    """Walls behind which Python does what a test wants."""

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
def test_a_warm_process_that_cannot_start(code, words):
    """The sentence carries the reason, and no file stays open."""
    with Sandbox(Failing(code), Limits()) as box, pytest.raises(NoSandbox) as error, box.session():
        pass
    assert str(error.value) == f"A sandbox could not be started: {words}."
    with Sandbox(Failing(code, warm=False), Limits()) as box, pytest.raises(NoSandbox) as error, box.session():
        pass
    if "nonsense" not in code:
        assert (
            str(error.value)
            == f"A sandbox could not be started: {words.replace('it ended', 'the other side is gone')}."
        )


def test_a_program_that_is_not_there():
    class Away(Walls):
        def command(self, module, settings):
            return ["/no/such/program"]

    for warm in (True, False):
        with Sandbox(Away("away", warm=warm), Limits()) as box, pytest.raises(NoSandbox, match="No such file"):
            box.session().__enter__()


@pytest.fixture
def line():
    """A session, and the other end of its line, where the test plays the notebook."""
    ours, theirs = socket.socketpair()
    end = ours.detach()
    session = Session(Channel(end, end), Limits(cell=0.2, answer=0.2, notebook=0.6))
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


SECONDS = r"it was not done after 0\.2 seconds"


def test_half_a_frame_and_silence(line):
    session, theirs = line
    theirs.sendall(HEAD.pack(100, 0) + b"half")
    with pytest.raises(Ended, match=SECONDS):
        session.ask("call", 0.2)


def test_a_byte_at_a_time_for_ever(line):
    """The time is of the whole message, not of a byte."""
    session, theirs = line
    theirs.sendall(HEAD.pack(1 << 20, 0))
    behave(lambda: theirs.sendall(b" "))
    began = time.monotonic()
    with pytest.raises(Ended, match=SECONDS):
        session.ask("call", 0.2)
    assert time.monotonic() - began < 0.5


def test_messages_without_end(line):
    """Each is in time, so the notebook's own time ends it."""
    session, theirs = line
    behave(lambda: theirs.sendall(pack({"cell": 1})))
    with pytest.raises(Ended, match=r"the 0\.6 seconds for the whole notebook were used up"):
        for message in session.follow("load", 0.2):
            assert message == {"cell": 1}


def test_one_who_does_not_read(line):
    """What is sent doesn't wait for ever either, though the line takes a part of it."""
    session, _ = line
    began = time.monotonic()
    with pytest.raises(Ended, match=SECONDS):
        session.ask("call", 0.2, words="x" * 1_000_000)
    assert time.monotonic() - began < 0.5


def test_one_who_reads_a_little_of_a_pipe():
    """There is room for a page, so a write of more would wait for ever."""
    (reading, theirs), (taking, writing) = os.pipe(), os.pipe()
    channel = Channel(reading, writing)
    threading.Timer(0.05, os.read, [taking, 4096]).start()
    with pytest.raises(Late):
        channel.send("x" * 1_000_000, time.monotonic() + 0.2)
    channel.close()
    os.close(theirs), os.close(taking)


def test_a_notebook_that_is_gone(line):
    session, theirs = line
    theirs.close()
    words = r"it ended Python or gave back what is no answer \(the other side is gone\)"
    for _ in range(2):
        with pytest.raises(Ended, match=words):
            session.ask("call", 0.2)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"ended": 3}, "it ended Python"),
        ({"ended": -11}, r"it crashed Python \(SIGSEGV\)"),
        ({"ended": -(10**15)}, r"it crashed Python \(10"),
        ({"ended": ["x"]}, "it ended Python"),
        (["no answer"], "what it gave back was no answer"),
    ],
)
def test_what_it_says_of_its_end(line, said, words):
    session, theirs = line
    theirs.sendall(pack(said))
    with pytest.raises(Ended, match=words):
        session.ask("call", 0.2)


def test_a_connection_that_broke_with_its_sandbox(line):
    session, theirs = line
    theirs.close()
    session.is_lost = lambda: True
    with pytest.raises(Lost, match="ended from outside"):
        session.ask("call", 0.2)


@pytest.mark.parametrize(("said", "words"), [({"failed": "unshare: no"}, "unshare: no"), ([1], r"\[1\]")])
def test_walls_that_do_not_stand(line, said, words):
    session, theirs = line
    theirs.sendall(pack(said))
    with pytest.raises(NoSandbox, match=rf"A sandbox could not be started: {words}\."):
        session.ready()


def test_a_closed_channel(line):
    """Closed twice is closed; what is asked afterwards doesn't reach a file that got the same number."""
    session, _ = line
    session.channel.close()
    reused = os.dup(0)
    session.channel.close()
    for asking in (lambda: session.channel.send(1, 0.0), lambda: session.channel.receive(0.0)):
        with pytest.raises(Broken, match="the other side is gone"):
            asking()
    os.close(reused)


def test_frames_of_exactly_the_limit(line):
    session, theirs = line
    theirs.sendall(HEAD.pack(2, LARGEST - 1))
    with pytest.raises(Broken, match="a message that is larger than it may be"):
        session.channel.receive(time.monotonic() + 1)
    theirs.sendall(struct.pack(">II", 2, LARGEST - 2) + b"{}")
    with pytest.raises(Late):  # it may be as large as that, so the rest is waited for
        session.channel.receive(time.monotonic() + 0.05)


@pytest.mark.parametrize("name", ["cell", "answer", "notebook", "memory", "disk"])
def test_limits(name):
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"^{name} is {wrong}: a limit must be more than 0, and finite\.$"):
            replace(Limits(), **{name: wrong})
    with pytest.raises(TypeError, match=rf"^{name} is '3': give a number\.$"):
        replace(Limits(), **{name: "3"})
