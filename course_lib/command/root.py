"""The repository that the command works on, found from the current folder."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISTRIBUTION = "attention-course"


class CourseError(Exception):
    """The command can't be carried out; the message is one sentence that says why and what to do."""


def repository(start: Path | None = None) -> Path:
    """Walk up from a folder to the one whose pyproject.toml is this course's.

    Raises:
        CourseError: there is none.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        except (OSError, tomllib.TOMLDecodeError):
            continue
        if project.get("name") == DISTRIBUTION:
            return folder
    raise CourseError(f"{start} is not inside a clone of {DISTRIBUTION}: change into the clone and try again.")


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import within this what an extra of pyproject.toml brings.

    Raises:
        CourseError: something of it is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise CourseError(f"{error.name} is needed for this: pip install 'attention-course[{extra}]'.") from None
