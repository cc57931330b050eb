"""A notebook that attacks the sandbox finds nothing to hold on to: in a fork and in a process of its own."""

import os
import platform
import re
import threading
from pathlib import Path

import pytest

from course_grader.sandbox.guest.system_calls import MACHINES
from tests.grader.conftest import SECRET
from tests.grader.sandbox.session_requests import call, load

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
    results = {}
    for name, number in calls.items():
        ctypes.set_errno(0)
        results[name] = (libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())
    return results

def refused_functions(names):
    results = {}
    for name in names:
        if hasattr(libc, name):
            ctypes.set_errno(0)
            results[name] = (getattr(libc, name)(0, 0, 0, 0, 0, 0), ctypes.get_errno())
    return results

def clone(flags):
    ctypes.set_errno(0)
    return [libc.syscall(CLONE, flags | 17, 0, 0, 0, 0), ctypes.get_errno()]

def capabilities():
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
    reached = []
    for pid in (0, -1, 1, *range(2, 40)):
        try: os.kill(pid, 0); reached.append(pid)
        except OSError: pass
    return reached

def limits():
    return {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}

def terminal():
    try: os.openpty(); return "opened"
    except OSError as error: return type(error).__name__
"""
# By name, written down a second time: a call that is lost from the table must be missed here.
REFUSED = {
    *("fork", "vfork", "execve", "execveat"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "open_by_handle_at"),
    *("unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "open_tree", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick"),
    *("bpf", "perf_event_open", "userfaultfd", "io_setup", "io_uring_setup", "kexec_load"),
    *("add_key", "request_key", "keyctl"),
    *("socket", "shutdown", "socketpair", "setsockopt"),
    *("memfd_create", "memfd_secret", "shmget", "msgget", "semget"),
}
EPERM = 1
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
CLONE, MQ_OPEN = {"x86_64": (56, 240), "aarch64": (220, 180)}.get(platform.machine(), (0, 0))
NEW_NAMESPACES = {"users": 0x10000000, "mounts": 0x20000, "processes": 0x20000000, "network": 0x40000000, "none": 0}


def opened(session):
    stopped = load(session, f"CLONE, MQ_OPEN = {CLONE}, {MQ_OPEN}\n{CODE}")
    assert stopped is None, stopped
    return session


@pytest.fixture(scope="module", params=["fork", "single"])
def session(request, isolation):
    if request.param == "single":
        yield opened(request.getfixturevalue("single"))
        return
    with request.getfixturevalue("sandbox").session() as guest:
        yield opened(guest)


@pytest.mark.one_in(2)
def test_only_its_own_files_are_open(session, request):
    """Three times /dev/null, and its socket or its two pipes: nothing that leads to the others."""
    kinds = "".join(call(session, "open_files").values())
    assert kinds == ("cccpp" if "single" in request.node.name else "cccs")


def test_it_is_alone(session):
    """Process 1 without a parent, in a group and a session of its own; no other to send a signal to."""
    assert call(session, "identity") == [1, 0, False, [], 1, 1]
    assert set(call(session, "signals")) <= {0, 1}


def test_the_table_has_every_call_that_no_exercise_needs():
    assert set(MACHINES["x86_64"].refused) == REFUSED
    assert set(MACHINES["aarch64"].refused) == REFUSED - {"fork", "vfork"}  # which that machine has as clone


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine):
    header = Path(HEADERS[machine])
    if not header.is_file():
        pytest.skip("needs the kernel's headers (Debian, Ubuntu: apt install linux-libc-dev)")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    numbers = {name: int(number) for name, number in found}
    table = MACHINES[machine]
    ours = {"clone": table.clone, "clone3": table.clone3, **table.refused}
    assert ours == {name: numbers[name] for name in ours}


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no list of system calls for this machine")
def test_each_call_of_the_table_is_refused(session):
    table = MACHINES[platform.machine()].refused
    assert call(session, "refused", table) == dict.fromkeys(table, (-1, EPERM))


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no list of system calls for this machine")
def test_the_c_librarys_functions_of_these_names_are_refused(session):
    """The numbers are the library's own here, so that a wrong one in the table would let its call through."""
    functions = call(session, "refused_functions", sorted(REFUSED))
    assert len(functions) > 15 and functions == dict.fromkeys(functions, (-1, EPERM))


@pytest.mark.skipif(CLONE == 0, reason="no list of system calls for this machine")
@pytest.mark.parametrize("which", NEW_NAMESPACES)
def test_no_process_and_no_namespace_can_be_made(session, which):
    assert call(session, "clone", NEW_NAMESPACES[which]) == [-1, 1]


def test_it_has_no_capabilities(session):
    assert call(session, "capabilities") == [0] * 6


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
    root, prefix = Path(__file__).parents[3], Path(os.__file__).parents[2]
    assert (root / "course_grader").is_dir()
    names = ("pyproject.toml", "notebooks", "course_lib", "course_grader", "tools", "tests", "book", ".git")
    paths = [*(root / name for name in names), Path.home() / ".ssh"]
    paths += ["/etc", "/var", "/srv", "/usr/share", "/usr/local/share", "/sys", "/sandbox/course", prefix / "share"]
    assert call(session, "there", [str(path) for path in paths]) == []
    assert os.environ[SECRET] == "hunter2"
    for path in ("/proc/self/environ", "/proc/1/environ"):
        assert "hunter2" not in call(session, "read", path)


def test_a_process_of_its_own_has_no_network(single):
    opened(single)
    devices = [line.split(":")[0].strip() for line in call(single, "read", "/proc/net/dev").splitlines()[2:]]
    assert devices == ["lo"]


def test_limits_are_set(session):
    limits = call(session, "limits")
    assert limits["RLIMIT_NOFILE"] == (64, 64) and limits["RLIMIT_CORE"] == (0, 0) and limits["RLIMIT_CPU"] == (70, 70)
    assert limits["RLIMIT_NPROC"] == (256, 256) and limits["RLIMIT_FSIZE"] == (16 << 20, 16 << 20)
    assert 2 << 30 < limits["RLIMIT_AS"][0] < 8 << 30


def test_nothing_is_left_for_the_next_and_nothing_is_seen_by_the_one_beside(sandbox):
    """Files and message queues are of one notebook's world; there is no terminal, and no process, to be found."""
    with sandbox.session() as guest, sandbox.session() as beside:
        opened(guest), opened(beside)
        assert call(guest, "leave") == [True, ["left"]]
        assert call(guest, "take") == [True, ["left"]]  # so the next line can fail
        assert call(beside, "take") == [False, []]
        assert call(guest, "terminal") == call(beside, "terminal") == "FileNotFoundError"
        assert call(guest, "listed", "/proc") == [] and call(guest, "listed", "/dev/pts") == []
    with sandbox.session() as after:
        opened(after)
        assert call(after, "take") == [False, []]


def test_two_threads_at_once(sandbox):
    found, failed = [], []

    def ask(number):
        try:
            for again in range(3):
                with sandbox.session() as session:
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
