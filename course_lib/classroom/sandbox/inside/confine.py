"""One process, alone: namespaces, a disk and limits of its own. Linux only; each function says what it needs."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys

from . import DISK

USER, MOUNT, PROCESS, IPC = 0x10000000, 0x00020000, 0x20000000, 0x08000000  # CLONE_NEW…
READ_ONLY, NO_SUID, NO_DEVICES = 1, 2, 4  # MS_…
DEATH_SIGNAL, NO_NEW_PRIVILEGES, SECCOMP = 1, 38, 22  # PR_…
EPERM, ENOSYS = 1, 38
THREADS = 256

# System calls that no exercise needs, by machine: (number of the architecture, of clone, of clone3, the others).
# New processes and programs, other processes' memory and files, mounts and namespaces, sockets and their ends (what is
# said after an end would be missed), memory that no limit counts.
CALLS = {
    "x86_64": (
        0xC000003E, 56, 435,
        (57, 58, 59, 322, 101, 310, 311, 272, 308, 165, 166, 155, 428, 429, 430, 432, 442, 321, 298, 323, 425, 250,
         248, 249, 41, 319, 29, 68, 64, 246, 161, 48, 206, 304, 431, 433, 438, 440, 447),
    ),
    "aarch64": (
        0xC00000B7, 220, 435,
        (221, 281, 117, 270, 271, 97, 268, 40, 39, 41, 428, 429, 430, 432, 442, 280, 241, 282, 425, 219,
         217, 218, 198, 279, 194, 186, 190, 104, 51, 210, 0, 265, 431, 433, 438, 440, 447),
    ),
}  # fmt: skip


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def own_namespaces() -> None:
    """Leave the users, mounts, processes and messages of the others; the next child is process 1 of its own world.

    Raises:
        OSError: the system doesn't let an ordinary user do that.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", USER | MOUNT | PROCESS | IPC)
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{file}", "w") as out:
            out.write(text)


def own_disk(megabytes: int) -> None:
    """An empty folder in memory, the only place that can be written; no view of any process."""
    flags = NO_SUID | NO_DEVICES
    _call("mount", b"tmpfs", DISK.encode(), b"tmpfs", flags, f"size={megabytes}m,nr_inodes=2000".encode())
    _call("mount", b"tmpfs", b"/proc", b"tmpfs", flags | READ_ONLY, b"size=4k")
    _call("mount", b"tmpfs", b"/dev/pts", b"tmpfs", flags | READ_ONLY, b"size=4k")  # a terminal has two ends
    os.chdir(DISK)


def die_with_parent(number: int) -> None:
    """Have a signal sent to this process when the one that made it ends, where the system can do that."""
    if sys.platform == "linux":
        _call("prctl", DEATH_SIGNAL, number, 0, 0, 0)


def no_powers() -> None:
    """Give back what a process may do in a world of its own, as to mount."""
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)  # version 3 of the capability sets
    _call("capset", header, nothing)


def limits(memory: int, seconds: int, file: int) -> None:
    """Bound memory beyond what there is (bytes), processor time (seconds) and files (bytes)."""
    bounds = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: file,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        with open("/proc/self/statm") as there:
            bounds[resource.RLIMIT_AS] = int(there.read().split()[0]) * resource.getpagesize() + memory
        # Of threads. Linux counts them in each world of users since 5.14, before that all of the teacher's together;
        # it never counts those of root.
        bounds[resource.RLIMIT_NPROC] = THREADS
    for which, bound in bounds.items():
        hard = resource.getrlimit(which)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(which, (bound, bound))


def few_calls() -> None:
    """Refuse the system calls that no exercise needs; threads stay allowed, new processes don't.

    Raises:
        OSError: the kernel has no filters, or the machine is neither x86_64 nor aarch64.
    """
    if platform.machine() not in CALLS:
        raise OSError(ENOSYS, f"no list of system calls for {platform.machine()}")
    program = _program(*CALLS[platform.machine()])
    code = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("prctl", SECCOMP, 2, filter_, 0, 0)


def _program(architecture: int, clone: int, clone3: int, refused: tuple[int, ...]) -> bytes:
    """The filter in the kernel's own small language: instructions of (code, jump if true, jump if false, value)."""
    load, equal, above, bits, give = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, allow, error = 0x80000000, 0x7FFF0000, 0x00050000
    lines = [
        (load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill),  # another machine's calls
        (load, 0, 0, 0), (above, 0, 1, 0x40000000), (give, 0, 0, error | ENOSYS),  # the x32 calls of x86_64
        (equal, 0, 1, clone3), (give, 0, 0, error | ENOSYS),  # its flags can't be read: the caller falls back to clone
        (equal, 0, 4, clone), (load, 0, 0, 16), (bits, 1, 0, 0x10000), (give, 0, 0, error | EPERM), (give, 0, 0, allow),
    ]  # fmt: skip
    for number in refused:
        lines += [(equal, 0, 1, number), (give, 0, 0, error | EPERM)]
    return b"".join(struct.pack("HBBI", *line) for line in [*lines, (give, 0, 0, allow)])
