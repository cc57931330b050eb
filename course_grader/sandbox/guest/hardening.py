"""Restrict a guest process from within: namespaces, a private disk, resource limits, capabilities, system calls.

Namespaces, mounts, capabilities and the filter are for Linux only; the rest does what the system allows.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys

from . import SCRATCH
from .system_calls import MACHINES, Machine

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
CLONE_THREAD = 0x00010000
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
EPERM, ENOSYS = 1, 38
MAX_THREADS = 256

# Instructions of the kernel's filter language, and what a filter may return.
BPF_LOAD_WORD, BPF_JUMP_IF_EQUAL, BPF_JUMP_IF_AT_LEAST, BPF_JUMP_IF_BIT_SET, BPF_RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
# Offsets into `struct seccomp_data`, which a filter reads: the call's number, the architecture, the first argument.
NUMBER_OFFSET, ARCHITECTURE_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 4, 16
X32_SYSCALL_BIT = 0x40000000

Instruction = tuple[int, int, int, int]  # operation, jump if true, jump if false, operand


def unshare_namespaces() -> None:
    """Leave the namespaces of users, mounts, processes and messages; the next child is process 1 of its own.

    Raises:
        OSError: The system does not let an ordinary user do that.
    """
    user, group = os.getuid(), os.getgid()
    _libc("unshare", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{file}", "w") as out:
            out.write(text)


def private_tmpfs(megabytes: int) -> None:
    """Mount an empty folder in memory, the only one that can be written, and cover what shows other processes."""
    flags = MS_NOSUID | MS_NODEV
    _libc("mount", b"tmpfs", SCRATCH.encode(), b"tmpfs", flags, f"size={megabytes}m,nr_inodes=2000".encode())
    for folder in (b"/proc", b"/dev/pts"):  # a terminal has two ends
        _libc("mount", b"tmpfs", folder, b"tmpfs", flags | MS_RDONLY, b"size=4k")
    os.chdir(SCRATCH)


def silence_standard_streams() -> None:
    """Replace standard input, output and error by the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    if null > 2:  # otherwise it has the number of a stream that was closed
        os.close(null)


def die_with_parent(number: int) -> None:
    """Have this process receive a signal when its parent ends, if the system supports that."""
    if sys.platform == "linux":
        _libc("prctl", PR_SET_PDEATHSIG, number, 0, 0, 0)


def drop_capabilities() -> None:
    """Drop all capabilities: in its own user namespace a process may mount, for example."""
    header, none = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24)
    _libc("capset", header, none)


def set_limits(memory: int, cpu_seconds: int, file_size: int) -> None:
    """Limit memory beyond what is in use (bytes), processor time (seconds) and the size of a file (bytes)."""
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:
            limits[resource.RLIMIT_AS] = int(statm.read().split()[0]) * resource.getpagesize() + memory
        # Threads. Since 5.14 Linux counts them per user namespace, before that all of the teacher's together; it never
        # counts root's.
        limits[resource.RLIMIT_NPROC] = MAX_THREADS
    for which, limit in limits.items():
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (limit, limit))


def seccomp_filter() -> None:
    """Refuse the system calls that no exercise needs; threads stay allowed, new processes do not.

    Raises:
        OSError: The kernel has no seccomp filters, or the machine is neither x86_64 nor aarch64.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(ENOSYS, f"no list of system calls for {platform.machine()}")
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in _filter_program(machine))
    code = ctypes.create_string_buffer(program, len(program))
    sock_fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, sock_fprog, 0, 0)


def _filter_program(machine: Machine) -> list[Instruction]:
    allow = (BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW)
    not_permitted = (BPF_RETURN, 0, 0, SECCOMP_RET_ERRNO | EPERM)
    not_implemented = (BPF_RETURN, 0, 0, SECCOMP_RET_ERRNO | ENOSYS)
    program = [
        # Calls of a different architecture have different numbers.
        (BPF_LOAD_WORD, 0, 0, ARCHITECTURE_OFFSET),
        (BPF_JUMP_IF_EQUAL, 1, 0, machine.audit_arch),
        (BPF_RETURN, 0, 0, SECCOMP_RET_KILL_PROCESS),
        # The x32 calls of x86_64 have different numbers, too.
        (BPF_LOAD_WORD, 0, 0, NUMBER_OFFSET),
        (BPF_JUMP_IF_AT_LEAST, 0, 1, X32_SYSCALL_BIT),
        not_implemented,
        # The flags of clone3 lie in memory, which a filter cannot read; without it the caller falls back to clone.
        (BPF_JUMP_IF_EQUAL, 0, 1, machine.clone3),
        not_implemented,
        # clone makes threads and nothing else.
        (BPF_JUMP_IF_EQUAL, 0, 4, machine.clone),
        (BPF_LOAD_WORD, 0, 0, FIRST_ARGUMENT_OFFSET),
        (BPF_JUMP_IF_BIT_SET, 1, 0, CLONE_THREAD),
        not_permitted,
        allow,
    ]
    for number in machine.refused.values():
        program += [(BPF_JUMP_IF_EQUAL, 0, 1, number), not_permitted]
    return [*program, allow]


def _libc(name: str, *arguments: object) -> None:
    """Call a function of the C library; raise OSError if it reports an error."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
