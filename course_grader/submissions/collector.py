"""Collect what one student submitted from folders, files and zips; no link is followed, nothing is run or unpacked."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from .files_and_zips import MAX_BYTES, SubmittedFile, Unreadable, list_members, open_regular, too_large, why_refused
from .student_names import NOTEBOOK_SUFFIX, ZIP_SUFFIX
from .visible_text import escape_hidden

MAX_NOTEBOOKS, MAX_DEPTH, MAX_ENTRIES, MAX_REMARKS = 50, 5, 2000, 20
CHECKPOINTS = ".ipynb_checkpoints"  # where Jupyter keeps a copy of each notebook as it was last saved
MAX_TOTAL = 200_000_000  # bytes of all notebooks in one zip
TIMESTAMP_FILE = "timestamp.txt"  # collecting tools write the time of submission to it


class OwnTimestamp(str):
    """The remark on a student's own timestamp.txt."""

    __slots__ = ()


OWN_TIMESTAMP = OwnTimestamp(
    f"{TIMESTAMP_FILE} was not read: only those that nbgrader writes count, so each file's own time does."
)
LATEST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()

_ZONED = re.compile(r"(.*\d) ([A-Za-z][\w/+-]*|[+-]\d\d:?\d\d)")


# What systems and tools add to a folder by themselves; the last ones are Classroom 50's.
ADDED = {"__MACOSX", ".DS_Store", ".git", CHECKPOINTS, ".classroom50.yml", ".github", ".gitignore"}
RESULTS = {"result.json", "results.json", "scores.csv"}  # what Classroom 50 says of a repository, and of a class


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is left out: those that begin with a dot, and what macOS adds to a zip."""
    return name == "__MACOSX" or (name.startswith(".") and name not in (".", ".."))


def is_noise(name: str) -> bool:
    """Return whether a hidden name is one that systems and tools add by themselves."""
    return name in ADDED or name.startswith("._")


@dataclass
class FileCollector:
    """The notebooks of one student so far.

    Attributes:
        assignments: The folders in which nbgrader wrote timestamp.txt; elsewhere the student could have written it.
        files: The notebooks that can be opened.
        remarks: Sentences about what cannot.
        other_names: The names of files that are not read, because they are neither notebooks nor zips.
        has_checkpoint: Whether there is a copy of a notebook that Jupyter made by itself.
        entries: The number of files and folders that were looked at, those in zips included.
    """

    assignments: Collection[str] = ()
    files: list[SubmittedFile] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    other_names: list[str] = field(default_factory=list)
    has_checkpoint: bool = False
    entries: int = 0

    def add(self, path: Path, name: str, marked_late: bool, submitted_at: float | None = None) -> None:
        """Collect a file or a folder; without a timestamp.txt, the time of submission is each file's own."""
        self.entries += 1
        try:
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                self._add_folder(path, name, marked_late, submitted_at)
            elif stat.S_ISREG(status.st_mode):
                time = clamp_to_calendar(status.st_mtime) if submitted_at is None else submitted_at
                self._add_file(SubmittedFile(name, time, marked_late, path), status.st_size)
            else:
                kind = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
                self.remarks.append(f"{escape_hidden(name)} is {kind}; hand in the file itself.")
        except OSError as error:
            self._refuse(name, f"It can't be opened ({error.strerror}): hand it in again.")
        except Unreadable as broken:
            self._refuse(name, str(broken))

    def _add_file(self, file: SubmittedFile, size: int) -> None:
        if not file.name.lower().endswith((NOTEBOOK_SUFFIX, ZIP_SUFFIX)):
            self.other_names += [] if file.name in RESULTS else [file.name]
        elif size > MAX_BYTES:
            raise Unreadable(too_large(size))
        elif file.name.lower().endswith(ZIP_SUFFIX):
            self._add_zip(file)
        else:
            self.files.append(replace(file, name=escape_hidden(file.name)))

    def _add_folder(self, path: Path, name: str, marked_late: bool, submitted_at: float | None) -> None:
        if name.count("/") >= MAX_DEPTH:
            self.remarks.append(
                f"{escape_hidden(name)} is nested too deeply ({MAX_DEPTH} folders): hand it in nearer to the top."
            )
            return
        everything = os.listdir(path)
        names = sorted(entry for entry in everything if not is_hidden(entry))
        self.has_checkpoint |= CHECKPOINTS in everything
        unread = [entry for entry in everything if is_hidden(entry) and not is_noise(entry)]
        self.other_names += [f"{name}/{entry}".removeprefix("/") for entry in unread]
        if TIMESTAMP_FILE in names and name in self.assignments:
            submitted_at = self._timestamp(path / TIMESTAMP_FILE)
        elif TIMESTAMP_FILE in names and submitted_at is None:
            self.remarks.append(OWN_TIMESTAMP)
        for entry in names:
            if self.entries >= MAX_ENTRIES:
                self.remarks.append(f"There are more than {MAX_ENTRIES} files: the rest was not looked at.")
                return
            if entry != TIMESTAMP_FILE:
                self.add(path / entry, f"{name}/{entry}".removeprefix("/"), marked_late, submitted_at)

    def _timestamp(self, path: Path) -> float | None:
        try:
            with open_regular(path) as file:
                seconds = parse_timestamp(file.read(200).decode("utf-8", "replace"))
        except Unreadable:
            seconds = None
        if seconds is None:
            self.remarks.append(f"{TIMESTAMP_FILE} contains no readable time: the time of each file counts.")
        return seconds

    def _add_zip(self, file: SubmittedFile) -> None:
        notebooks = []
        for member, info in list_members(file.path):
            if hidden := [part for part in re.split(r"[\\/]", info.filename) if is_hidden(part)]:
                self.has_checkpoint |= CHECKPOINTS in hidden
                self.other_names += [] if info.is_dir() or any(map(is_noise, hidden)) else [info.filename]
                continue
            self.entries += 1
            if info.is_dir():
                continue
            if info.filename.lower().endswith(NOTEBOOK_SUFFIX):
                notebooks.append((member, info))
            else:
                self.other_names.append(info.filename)
        total = sum(info.file_size for _, info in notebooks)
        if total > MAX_TOTAL:
            raise Unreadable(too_large(total))
        for member, info in notebooks:
            if reason := why_refused(info):
                self._refuse(info.filename, reason)
            else:
                self.files.append(replace(file, name=escape_hidden(info.filename), member=member))

    def _refuse(self, name: str, reason: str) -> None:
        self.remarks.append(f"{escape_hidden(name) or 'The folder'} can't be read. {reason}")

    def finish(self) -> tuple[tuple[SubmittedFile, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the files in the order of their names, the remarks, and the names of what was not read.

        There are no more of each than the limits.
        """
        files = sorted(self.files, key=lambda file: (file.name, str(file.path)))
        distinct = list(dict.fromkeys(self.remarks))
        remarks = distinct[:MAX_REMARKS]
        if len(distinct) > MAX_REMARKS:
            remarks.append(f"{len(distinct) - MAX_REMARKS} more remarks were left out.")
        if len(files) > MAX_NOTEBOOKS:
            remarks.append(f"There are {len(files)} notebooks: only the first {MAX_NOTEBOOKS}, by name, were read.")
        unread = [escape_hidden(name) for name in sorted(self.other_names)]
        if not files and not self.remarks:
            listed = f": there is {', '.join(unread[:3])}{' and more' if len(unread) > 3 else ''}" if unread else ""
            if self.has_checkpoint:
                listed = f": there is only the copy that Jupyter keeps in {CHECKPOINTS}; hand in the notebook itself"
            remarks.append(f"No notebook (.ipynb) was handed in{listed}.")
        more = [f"{len(unread) - MAX_REMARKS} more"] if len(unread) > MAX_REMARKS else []
        return tuple(files[:MAX_NOTEBOOKS]), tuple(remarks), (*unread[:MAX_REMARKS], *more)


def parse_timestamp(text: str) -> float | None:
    """Parse a time as seconds since 1970; None if the text is not a time.

    A time is ISO 8601, or nbgrader's format, such as "2015-02-02 15:58:23.948203 America/Los_Angeles"; without a zone
    it is UTC, as in nbgrader.
    """
    zoned = _ZONED.fullmatch(text.strip())
    try:
        if zoned and zoned[2][0].isalpha():
            moment = datetime.fromisoformat(zoned[1]).replace(tzinfo=ZoneInfo(zoned[2]))
        else:
            moment = datetime.fromisoformat("".join(zoned.groups()) if zoned else text.strip())
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return seconds if seconds == clamp_to_calendar(seconds) else None
    except (ValueError, KeyError, OverflowError, OSError):  # KeyError: a zone that this system does not know
        return None


def clamp_to_calendar(seconds: float) -> float:
    """Clamp a file's time to those that every calendar has: a file may claim to be of the year 10000."""
    return min(max(seconds, 0.0), LATEST)
