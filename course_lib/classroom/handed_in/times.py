"""When was it handed in? The time in a timestamp.txt, as collecting tools write it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

FILE = "timestamp.txt"
LAST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()

_ZONED = re.compile(r"(.*\d) ([A-Za-z][\w/+-]*|[+-]\d\d:?\d\d)")


def read_time(text: str) -> float | None:
    """Read a moment as seconds since 1970; None where the text names none.

    Args:
        text: ISO 8601, or as nbgrader writes it, such as "2015-02-02 15:58:23.948203 America/Los_Angeles". Without a
            zone it is UTC, as nbgrader has it.
    """
    zoned = _ZONED.fullmatch(text.strip())
    try:
        if zoned and zoned[2][0].isalpha():
            moment = datetime.fromisoformat(zoned[1]).replace(tzinfo=ZoneInfo(zoned[2]))
        else:
            moment = datetime.fromisoformat("".join(zoned.groups()) if zoned else text.strip())
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return at if at == in_calendar(at) else None
    except (ValueError, KeyError, OverflowError, OSError):  # KeyError: a zone that this system doesn't know
        return None


def in_calendar(at: float) -> float:
    """A file's time, or the nearest that every calendar has: a file may say that it is of the year 10000."""
    return min(max(at, 0.0), LAST)
