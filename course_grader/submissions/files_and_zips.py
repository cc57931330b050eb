"""Read a submitted notebook file, on its own or in a zip: no link is followed, nothing is unpacked to disk."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

MAX_BYTES = 100_000_000  # of one file
MAX_DIRECTORY = 1_000_000  # bytes of a zip's central directory: about ten thousand files

# Not every system has each of these flags: links are not followed, and opening a pipe does not wait for a writer.
_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOCTTY"):
    _FLAGS |= getattr(os, _flag, 0)
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, ValueError, RuntimeError, LookupError)
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # the other methods decompress a chunk without a limit


class Unreadable(Exception):
    """A submitted file cannot be read; its text is a sentence for the student that begins with "It"."""


@dataclass(frozen=True)
class SubmittedFile:
    """A notebook that was submitted, not read yet.

    Attributes:
        name: The name as a sentence may show it, with its folders.
        submitted_at: When it was submitted, in seconds since 1970.
        marked_late: Whether Canvas marked it late.
        path: The file, or the zip that holds it.
        member: Its index in the zip's table of contents, or None; two may have one name.
    """

    name: str
    submitted_at: float
    marked_late: bool
    path: Path
    member: int | None = None

    def read(self) -> bytes:
        """Read the content, if it is no larger than `MAX_BYTES`, whatever a zip says of it.

        Raises:
            Unreadable: The file is too large, broken, locked, missing, or not a regular file.
        """
        with open_regular(self.path) as file:
            if self.member is None:
                return _read_all(file)
            with _open_zip(file, "It is in a broken zip") as archive:
                info = archive.filelist[self.member]
                if reason := why_refused(info):
                    raise Unreadable(reason)
                with archive.open(info) as member:
                    return _read_all(member)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file: no link, folder, pipe or device.

    Raises:
        Unreadable: The path is something else, or cannot be opened.
    """
    irregular = Unreadable("It is not a regular file; hand in the file itself.")
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise irregular
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise Unreadable(f"It can't be opened ({error.strerror}): hand it in again.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was replaced in the meantime
        os.close(descriptor)
        raise irregular
    return os.fdopen(descriptor, "rb")


def list_members(path: Path) -> list[tuple[int, zipfile.ZipInfo]]:
    """List the files in a zip by name, each with its index in the table of contents.

    Raises:
        Unreadable: The file is not a zip, or is broken.
    """
    with open_regular(path) as file, _open_zip(file, "It is a broken zip") as archive:
        return sorted(enumerate(archive.filelist), key=lambda member: member[1].filename)


def why_refused(info: zipfile.ZipInfo) -> str | None:
    """Explain, from what the zip says, why a file in it is not read; None if it is."""
    if stat.S_ISLNK(info.external_attr >> 16):
        return "It is a link; hand in the file itself."
    if info.flag_bits & 0x1:
        return "It is protected with a password: hand in the notebook itself."
    if info.compress_type not in _METHODS:
        return f"It is compressed by an unsupported method ({info.compress_type}): hand in the notebook itself."
    return too_large(info.file_size) if info.file_size > MAX_BYTES else None


def too_large(size: int) -> str:
    return f"It is too large ({size / 1e6:,.0f} MB): clear the outputs and hand it in again."


class _BoundedReads:
    """A file that refuses to be read in huge chunks, because `zipfile` reads the central directory at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.seek, self.tell, self.seekable = file, file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY:
            raise zipfile.BadZipFile("its table of contents is too long")
        return self._file.read(size)


@contextlib.contextmanager
def _open_zip(file: BinaryIO, problem: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(_BoundedReads(file)) as archive:
            yield archive
    except _ZIP_ERRORS:
        raise Unreadable(f"{problem}: hand in the notebook itself.") from None


def _read_all(file: IO[bytes]) -> bytes:
    """Read a file in small chunks, up to `MAX_BYTES`."""
    content = io.BytesIO()
    while chunk := file.read(min(MAX_DIRECTORY, MAX_BYTES + 1 - content.tell())):
        content.write(chunk)
        if content.tell() > MAX_BYTES:
            raise Unreadable(too_large(content.tell()))
    return content.getvalue()
