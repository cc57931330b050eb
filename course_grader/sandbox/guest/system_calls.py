"""The system calls that no exercise needs, by name, with their numbers on the supported machines.

The kernel's filter compares numbers. libseccomp, by the package pyseccomp, knows the number of each name. But the
filter is made within the guest, whose Python is the teacher's or a container's: each would need both, and the version
of libseccomp would decide what is refused (the tables of 2.5.0 end with Linux 5.8, and `memfd_secret` came with 5.14).
Hence this table. The names are libseccomp's; the numbers are those of the kernel's headers, `asm/unistd_64.h` and
`asm-generic/unistd.h`.
"""

from __future__ import annotations

from dataclasses import dataclass

# Each line: name, number on x86_64 and number on aarch64, "-" if that machine has no such call.
_TABLE = """
# new processes and programs; `clone` and `clone3` make threads too and are filtered by themselves
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281
# other processes' memory and files
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, pidfd_getfd 438 438,
open_by_handle_at 304 265
# namespaces and mounts
unshare 272 97, setns 308 268, chroot 161 51, pivot_root 155 41, mount 165 40, umount2 166 39, open_tree 428 428,
move_mount 429 429, mount_setattr 442 442, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433
# parts of the kernel with a history of bugs
bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, io_setup 206 0, io_uring_setup 425 425,
kexec_load 246 104, add_key 248 217, request_key 249 218, keyctl 250 219
# sockets, whose buffers no limit counts, and shutting one down: what is sent after that would be lost
socket 41 198, socketpair 53 199, setsockopt 54 208, shutdown 48 210
# memory that no limit counts
memfd_create 319 279, memfd_secret 447 447, shmget 29 194, msgget 68 186, semget 64 190
"""
_LINES = [line.rstrip(",") for line in _TABLE.strip().splitlines() if not line.startswith("#")]
_ROWS = [row.split() for line in _LINES for row in line.split(",")]
_NUMBERS = {name: (int(intel), None if arm == "-" else int(arm)) for name, intel, arm in _ROWS}


@dataclass(frozen=True)
class Machine:
    """The numbers of one machine architecture.

    Attributes:
        audit_arch: What the kernel calls the architecture, AUDIT_ARCH_...
        clone, clone3: The numbers of these calls.
        refused: Name -> number of each call that is refused.
    """

    audit_arch: int
    clone: int
    clone3: int
    refused: dict[str, int]


# By `platform.machine()`.
MACHINES = {
    "x86_64": Machine(0xC000003E, 56, 435, {name: number for name, (number, _) in _NUMBERS.items()}),
    "aarch64": Machine(
        0xC00000B7, 220, 435, {name: number for name, (_, number) in _NUMBERS.items() if number is not None}
    ),
}
