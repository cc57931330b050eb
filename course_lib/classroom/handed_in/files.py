"""A notebook that was handed in, as a file or in a zip, and how to read it without being led elsewhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from course_lib.classroom.handed_in.unreadable import Unreadable
from course_lib.classroom.handed_in.zips import read_at_most, read_member

LIMIT = 100_000_000  # bytes of one file

# Not every system has each of them: links are not followed, and a pipe doesn't wait for who writes into it.
_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOCTTY"):
    _FLAGS |= getattr(os, _flag, 0)


@dataclass(frozen=True)
class File:
    """One notebook that was handed in.

    Attributes:
        name: as a sentence may show it, with its folders.
        at: when it was handed in, in seconds since 1970.
        marked_late: whether Canvas says that it came late.
        path: of the file, or of the zip that it is in.
        member: its name in the zip, or None.
    """

    name: str
    at: float
    marked_late: bool
    path: Path
    member: str | None = None

    def read(self) -> bytes:
        """The content, if it isn't larger than LIMIT.

        Raises:
            Unreadable: it is too large, broken, gone, or no ordinary file.
        """
        with open_ordinary(self.path) as file:
            return read_at_most(file, LIMIT) if self.member is None else read_member(file, self.member, LIMIT)


def open_ordinary(path: Path) -> BinaryIO:
    """Open a file that is a file: no link, folder, pipe or device.

    Raises:
        Unreadable: it is something else, or can't be opened.
    """
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Unreadable("It is no ordinary file; hand in the file itself.")
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise Unreadable(f"It can't be opened ({error.strerror}): hand it in again.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was exchanged in between
        os.close(descriptor)
        raise Unreadable("It is no ordinary file; hand in the file itself.")
    return os.fdopen(descriptor, "rb")
