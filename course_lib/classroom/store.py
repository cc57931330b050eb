"""Results on disk: one file a student, whole or not at all, so that a run can stop anywhere and go on."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from .marks import Graded
from .papers.feedback import page_name

SECRET = "secret.txt"


class Store:
    """The results of one week.

    Args:
        folder: gets a folder `results`, and a secret from which this run's numbers are drawn.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "results"
        self.folder.mkdir(parents=True, exist_ok=True)

    def secret(self) -> bytes:
        """The secret of this week; made once, so that who goes on draws the same numbers."""
        path = self.folder / SECRET
        if not path.exists():
            write_whole(path, secrets.token_hex(32), mode=0o600)
        return bytes.fromhex(path.read_text(encoding="ascii").strip())

    def write(self, graded: Graded) -> None:
        """Keep one student's result."""
        write_whole(self._path(graded.student), json.dumps(graded.as_dict(), indent=1, ensure_ascii=False) + "\n")

    def read(self, student: str, digest: str) -> Graded | None:
        """The result of exactly this; None where there is none yet, or one of other files, or a damaged file."""
        try:
            graded = Graded.from_dict(json.loads(self._path(student).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return graded if graded.digest == digest and graded.student == student else None

    def _path(self, student: str) -> Path:
        return self.folder / page_name(student).replace(".html", ".json")


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file beside its place and put it there in one step, after it is on the disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
