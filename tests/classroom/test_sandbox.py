"""A notebook that attacks its walls finds nothing to hold on to: in the warm kind and in the slow one."""

import os
import platform
import threading
from pathlib import Path

import pytest

from course_lib.classroom.sandbox.inside import confine

from .behind import call, load
from .conftest import SECRET

pytestmark = pytest.mark.xdist_group("sandbox")

CODE = """
import ctypes, os, resource, stat
libc = ctypes.CDLL(None, use_errno=True)

def open_files():
    found = {}
    for number in range(1024):
        try: found[number] = stat.filemode(os.fstat(number).st_mode)[0]
        except OSError: pass
    return found

def identity():
    return [os.getpid(), os.getppid(), os.getuid() == 0, os.getgroups(), os.getpgid(0), os.getsid(0)]

def refused(calls):
    told = {}
    for name, number in calls.items():
        ctypes.set_errno(0)
        told[name] = (libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())
    return told

def clone(flags):
    ctypes.set_errno(0)
    return [libc.syscall(CLONE, flags | 17, 0, 0, 0, 0), ctypes.get_errno()]

def powers():
    sets = (ctypes.c_uint32 * 6)()
    libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), sets)
    return list(sets)

def writable():
    found = []
    for folder, inner, files in os.walk("/"):
        if folder.startswith("/proc/") or folder.count("/") > 4: inner.clear()
        paths = (folder, *(os.path.join(folder, one) for one in files))
        found += [path for path in paths if not os.path.islink(path) and os.access(path, os.W_OK)]
    return sorted(found)

def opened_for_writing(paths):
    found = []
    for path in paths:
        try: os.close(os.open(path, os.O_WRONLY)); found.append(path)
        except OSError: pass
    return found

def read(path):
    try: return open(path, errors="replace").read(100_000)
    except OSError as error: return type(error).__name__

def there(paths):
    return [path for path in paths if os.path.exists(path)]

def listed(path):
    return sorted(os.listdir(path)) if os.path.isdir(path) else None

def shared():
    try: return libc.shm_open(b"/left", 66, 0o600)
    except AttributeError: return -1

def leave():
    open("/scratch/left", "w").write("was here")
    return [libc.syscall(MQ_OPEN, b"left", 66, 0o600, None) >= 0, listed("/scratch")]

def take():
    return [libc.syscall(MQ_OPEN, b"left", 2, 0, None) >= 0, listed("/scratch")]

def signals():
    told = []
    for pid in (0, -1, 1, *range(2, 40)):
        try: os.kill(pid, 0); told.append(pid)
        except OSError: pass
    return told

def limits():
    return {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}

def terminal():
    try: os.openpty(); return "opened"
    except OSError as error: return type(error).__name__
"""
# By name and number, written down a second time: a number that is lost from the filter must be missed here.
X86_64 = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101, "process_vm_readv": 310,
    "process_vm_writev": 311, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "keyctl": 250,
    "add_key": 248, "request_key": 249, "socket": 41, "shutdown": 48, "memfd_create": 319, "memfd_secret": 447,
    "shmget": 29, "msgget": 68, "semget": 64, "kexec_load": 246, "io_setup": 206, "open_by_handle_at": 304,
    "pidfd_getfd": 438, "process_madvise": 440,
}  # fmt: skip
CLONE, MQ_OPEN = {"x86_64": (56, 240), "aarch64": (220, 180)}.get(platform.machine(), (0, 0))
NEW_NAMESPACES = {"users": 0x10000000, "mounts": 0x20000, "processes": 0x20000000, "network": 0x40000000, "none": 0}


def opened(session):
    stopped = load(session, f"CLONE, MQ_OPEN = {CLONE}, {MQ_OPEN}\n{CODE}")
    assert stopped is None, stopped
    return session


@pytest.fixture(scope="module", params=["warm", "single"])
def session(request, walls):
    if request.param == "single":
        yield opened(request.getfixturevalue("single"))
        return
    with request.getfixturevalue("box").session() as one:
        yield opened(one)


def test_only_its_own_files_are_open(session, request):
    """Three times /dev/null, and its socket or its two pipes: nothing that leads to the others."""
    kinds = "".join(call(session, "open_files").values())
    assert kinds == ("cccpp" if "single" in request.node.name else "cccs")


def test_it_is_alone(session):
    """Process 1 without a parent, in a group and a session of its own; no other to send a signal to."""
    assert call(session, "identity") == [1, 0, False, [], 1, 1]
    assert set(call(session, "signals")) <= {0, 1}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
def test_system_calls_that_no_exercise_needs_are_refused(session):
    assert set(X86_64.values()) == set(confine.CALLS["x86_64"][3])
    assert call(session, "refused", X86_64) == dict.fromkeys(X86_64, (-1, 1))


@pytest.mark.skipif(CLONE == 0, reason="no list of system calls for this machine")
@pytest.mark.parametrize("which", NEW_NAMESPACES)
def test_no_process_and_no_namespace_can_be_made(session, which):
    assert call(session, "clone", NEW_NAMESPACES[which]) == [-1, 1]


def test_it_has_no_powers(session):
    assert call(session, "powers") == [0] * 6


def test_only_its_disk_can_be_written(session):
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx")}
    found = {path for path in call(session, "writable") if not path.startswith("/proc/")}
    assert "/scratch" in found and found <= {"/scratch", "/tmp", "/dev/pts", "/dev/pts/ptmx", *devices}
    assert call(session, "shared") == -1
    # Who grades as root would have opened these for the whole machine.
    paths = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/pid_max",
        "/proc/sysrq-trigger",
        "/proc/1/mem",
        "/proc/1/comm",
    ]
    assert call(session, "opened_for_writing", paths) == []


def test_nothing_of_the_teacher_is_seen(session):
    """Neither the repository and the home, nor the system's settings, nor a variable of the environment."""
    root, prefix = Path(__file__).parents[2], Path(os.__file__).parents[2]
    paths = [root / "pyproject.toml", root / "notebooks", root / "course_lib", root / ".git", Path.home() / ".ssh"]
    paths += ["/etc", "/var", "/srv", "/usr/share", "/usr/local/share", "/sys", "/sandbox/course", prefix / "share"]
    assert call(session, "there", [str(path) for path in paths]) == []
    assert os.environ[SECRET] == "hunter2"
    for path in ("/proc/self/environ", "/proc/1/environ"):
        assert "hunter2" not in call(session, "read", path)


def test_the_slow_kind_has_no_network(single):
    opened(single)
    devices = [line.split(":")[0].strip() for line in call(single, "read", "/proc/net/dev").splitlines()[2:]]
    assert devices == ["lo"]


def test_limits_are_set(session):
    limits = call(session, "limits")
    assert limits["RLIMIT_NOFILE"] == (64, 64) and limits["RLIMIT_CORE"] == (0, 0) and limits["RLIMIT_CPU"] == (70, 70)
    assert limits["RLIMIT_NPROC"] == (256, 256) and limits["RLIMIT_FSIZE"] == (16 << 20, 16 << 20)
    assert 2 << 30 < limits["RLIMIT_AS"][0] < 8 << 30


def test_nothing_is_left_for_the_next_and_nothing_is_seen_by_the_one_beside(box):
    """Files and message queues are of one notebook's world; there is no terminal, and no process, to be found."""
    with box.session() as one, box.session() as beside:
        opened(one), opened(beside)
        assert call(one, "leave") == [True, ["left"]]
        assert call(one, "take") == [True, ["left"]]  # so the next line can fail
        assert call(beside, "take") == [False, []]
        assert call(one, "terminal") == call(beside, "terminal") == "FileNotFoundError"
        assert call(one, "listed", "/proc") == [] and call(one, "listed", "/dev/pts") == []
    with box.session() as after:
        opened(after)
        assert call(after, "take") == [False, []]


def test_two_threads_at_once(box):
    found, failed = [], []

    def ask(number):
        try:
            for again in range(3):
                with box.session() as session:
                    load(session, f"def give(x): return [{number}, x]")
                    found.append(call(session, "give", again))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and sorted(found) == [[number, again] for number in range(3) for again in range(3)]
