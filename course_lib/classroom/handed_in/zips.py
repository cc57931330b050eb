"""Notebooks in a zip that nobody trusts: read from memory, never unpacked to a disk, and no more than a limit."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from typing import BinaryIO

from course_lib.classroom.handed_in.unreadable import Unreadable

TOTAL = 200_000_000
CONTENTS = 1_000_000  # bytes of a table of contents: some ten thousand files

_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, ValueError, RuntimeError, LookupError)
_PACKED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # the others unpack a piece without a limit


class _Bounded:
    """A file that refuses to be read in huge pieces: a zip's table of contents is read in one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.seek, self.tell, self.seekable = file, file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > CONTENTS:
            raise zipfile.BadZipFile("its table of contents is too long")
        return self._file.read(size)


def members(file: BinaryIO) -> list[zipfile.ZipInfo]:
    """The files in a zip, by their names; of two with one name the last.

    Raises:
        Unreadable: it is no zip, or broken.
    """
    try:
        with zipfile.ZipFile(_Bounded(file)) as archive:
            return sorted(archive.NameToInfo.values(), key=lambda one: one.filename)
    except _BROKEN:
        raise Unreadable("It is a broken zip: hand in the notebook itself.") from None


def problem(info: zipfile.ZipInfo, limit: int) -> str | None:
    """Why a file in a zip can't be read, as far as the zip says so itself; None where it can."""
    if stat.S_ISLNK(info.external_attr >> 16):
        return "It is a link; hand in the file itself."
    if info.flag_bits & 0x1:
        return "It is locked with a password: hand in the notebook itself."
    if info.compress_type not in _PACKED:
        return f"It is packed by a method that is not read here ({info.compress_type}): hand in the notebook itself."
    return too_large(info.file_size) if info.file_size > limit else None


def read_member(file: BinaryIO, name: str, limit: int) -> bytes:
    """Read one file of a zip.

    Args:
        file: the zip.
        name: of the file in it; only a name, whatever path it looks like.
        limit: bytes that are read at most, whatever the zip says.

    Raises:
        Unreadable: the file is broken, locked or larger than the limit.
    """
    try:
        with zipfile.ZipFile(_Bounded(file)) as archive:
            info = archive.NameToInfo[name]
            if reason := problem(info, limit):
                raise Unreadable(reason)
            with archive.open(info) as member:
                return read_at_most(member, limit)
    except _BROKEN:
        raise Unreadable("It is in a broken zip: hand in the notebook itself.") from None


def read_at_most(file: BinaryIO, limit: int) -> bytes:
    """Read a whole file, in small pieces.

    Raises:
        Unreadable: it is longer than the limit.
    """
    content = io.BytesIO()
    while piece := file.read(min(CONTENTS, limit + 1 - content.tell())):
        content.write(piece)
        if content.tell() > limit:
            raise Unreadable(too_large(content.tell()))
    return content.getvalue()


def too_large(size: int) -> str:
    """The sentence for a file over the limit."""
    return f"It is too large ({size / 1e6:,.0f} MB): clear the outputs and hand it in again."
