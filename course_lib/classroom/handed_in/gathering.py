"""What one student handed in, gathered from folders, files and zips; nothing is followed, run or unpacked."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.classroom.handed_in.files import LIMIT, File, open_ordinary
from course_lib.classroom.handed_in.owners import NOTEBOOK, ZIP
from course_lib.classroom.handed_in.times import FILE, in_calendar, read_time
from course_lib.classroom.handed_in.unreadable import Unreadable, shown
from course_lib.classroom.handed_in.zips import TOTAL, members, problem, too_large

NOTEBOOKS, DEPTH, ENTRIES, REMARKS = 50, 5, 2000, 20


def is_hidden(name: str) -> bool:
    """Whether a file or folder is left out: what begins with a dot, and what macOS adds to a zip."""
    return name == "__MACOSX" or (name.startswith(".") and name not in (".", ".."))


@dataclass
class Gathering:
    """The notebooks of one student so far.

    Attributes:
        files: notebooks that can be opened.
        remarks: about what can't, a sentence each.
        others: names of what is no notebook.
        seen: files and folders that were looked at, those in zips too.
    """

    files: list[File] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    seen: int = 0

    def add(self, path: Path, name: str, late: bool = False, at: float | None = None, stamps: bool = True) -> None:
        """Look at a file or a folder.

        Args:
            path: where it is.
            name: how it is called in sentences, with the folders that the student made.
            late: whether Canvas says that it came late.
            at: when it was handed in, where that is known already.
            stamps: whether a timestamp.txt is believed: not where a student can have put it.
        """
        self.seen += 1
        try:
            status = os.lstat(path)
        except OSError as error:
            return self._refuse(name, f"It can't be opened ({error.strerror}): hand it in again.")
        if stat.S_ISLNK(status.st_mode):
            self.remarks.append(f"{shown(name)} is a link; hand in the file itself.")
        elif stat.S_ISDIR(status.st_mode):
            self._add_folder(path, name, late, at, stamps)
        elif not stat.S_ISREG(status.st_mode):
            self.remarks.append(f"{shown(name)} is no ordinary file; hand in the file itself.")
        elif not name.lower().endswith((NOTEBOOK, ZIP)):
            self.others.append(name)
        elif status.st_size > LIMIT:
            self._refuse(name, too_large(status.st_size))
        elif name.lower().endswith(ZIP):
            self._add_zip(path, name, late, at, in_calendar(status.st_mtime))
        else:
            self.files.append(File(shown(name), in_calendar(status.st_mtime) if at is None else at, late, path))
        return None

    def _add_folder(self, path: Path, name: str, late: bool, at: float | None, stamps: bool) -> None:
        if name.count("/") >= DEPTH:
            return self.remarks.append(f"{shown(name)} lies too deep ({DEPTH} folders): hand it in higher up.")
        try:
            entries = sorted(entry for entry in os.listdir(path) if not is_hidden(entry))
        except OSError as error:
            return self._refuse(name, f"It can't be opened ({error.strerror}): hand it in again.")
        if stamps and at is None and FILE in entries:
            at = self._stamp(path / FILE)
        for entry in entries:
            if self.seen >= ENTRIES:
                return self.remarks.append(f"There are more than {ENTRIES} files: the rest is not looked at.")
            if entry != FILE:
                self.add(path / entry, f"{name}/{entry}".removeprefix("/"), late, at, stamps)
        return None

    def _stamp(self, path: Path) -> float | None:
        try:
            with open_ordinary(path) as file:
                at = read_time(file.read(200).decode("utf-8", "replace"))
        except Unreadable:
            at = None
        if at is None:
            self.remarks.append(f"{FILE} names no time that can be read: the time of each file counts.")
        return at

    def _add_zip(self, path: Path, name: str, late: bool, at: float | None, changed: float) -> None:
        try:
            with open_ordinary(path) as file:
                inside = [one for one in members(file) if not any(map(is_hidden, re.split(r"[\\/]", one.filename)))]
        except Unreadable as broken:
            return self._refuse(name, broken.reason)
        self.seen += len(inside)
        notebooks = []
        for one in (one for one in inside if not one.is_dir()):
            if one.filename.lower().endswith(NOTEBOOK):
                notebooks.append(one)
            else:
                self.others.append(one.filename)
        if sum(one.file_size for one in notebooks) > TOTAL:
            return self._refuse(name, too_large(sum(one.file_size for one in notebooks)))
        for one in notebooks:
            if reason := problem(one, LIMIT):
                self._refuse(one.filename, reason)
            else:
                time = changed if at is None else at
                self.files.append(File(shown(one.filename), time, late, path, one.filename))
        return None

    def _refuse(self, name: str, reason: str) -> None:
        self.remarks.append(f"{shown(name) or 'The folder'} can't be read. {reason}")

    def finished(self) -> tuple[tuple[File, ...], tuple[str, ...]]:
        """The files in the order of their names, and the remarks, no more of either than the limits."""
        files = sorted(self.files, key=lambda file: (file.name, str(file.path)))
        every = list(dict.fromkeys(self.remarks))
        remarks = every[:REMARKS]
        if len(every) > REMARKS:
            remarks.append(f"{len(every) - REMARKS} more remarks are left out.")
        if len(files) > NOTEBOOKS:
            remarks.append(f"There are {len(files)} notebooks: the first {NOTEBOOKS} by their names are read.")
        if not files and not self.remarks:
            there = ", ".join(shown(name) for name in sorted(self.others)[:3])
            holds = f": there is {there}{' and more' if len(self.others) > 3 else ''}" if there else ""
            remarks.append(f"No notebook (.ipynb) was handed in{holds}.")
        return tuple(files[:NOTEBOOKS]), tuple(remarks)
