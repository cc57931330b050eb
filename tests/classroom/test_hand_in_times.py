"""When was it handed in? Which of several times is believed."""

import os
from datetime import UTC, datetime

import pytest
from classroom.handing_in import NOTEBOOK, only, put, zipped

from course_lib.classroom.handed_in.submissions import find_submissions
from course_lib.classroom.handed_in.times import LAST, in_calendar, read_time


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2015-02-02 15:58:23.948203 America/Los_Angeles", datetime(2015, 2, 2, 23, 58, 23, 948203, UTC)),
        ("2015-02-02 15:58:23.948203 UTC\n", datetime(2015, 2, 2, 15, 58, 23, 948203, UTC)),
        ("2026-11-20 17:03:00 +0100", datetime(2026, 11, 20, 16, 3, tzinfo=UTC)),
        ("2026-11-20T17:03:00+01:00", datetime(2026, 11, 20, 16, 3, tzinfo=UTC)),
        ("2026-11-20T17:03:00Z", datetime(2026, 11, 20, 17, 3, tzinfo=UTC)),
        ("2026-11-20 17:03:00", datetime(2026, 11, 20, 17, 3, tzinfo=UTC)),
    ],
)
def test_times_that_can_be_read(text, moment):
    assert read_time(text) == moment.timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2026-99-99", "0001-01-01 00:00:00 Asia/Tokyo", "\x00"),
        *("2026-11-20 17:03:00 Mars/Base", "2026-11-20 17:03:00 ../../etc/passwd"),
        *("2026-11-20 17:03:00 America", "2026-11-20 17:03:00 a/\x00"),
    ],
)
def test_times_that_can_not_be_read(text):
    assert read_time(text) is None


def test_a_time_that_no_calendar_has(tmp_path):
    put(tmp_path / "eve.ipynb", at=-5)
    assert only(tmp_path).files[0].at == 0
    assert in_calendar(1e18) == LAST


def test_which_time_counts(tmp_path):
    put(tmp_path / "a" / "x.ipynb", at=1e9)
    put(tmp_path / "b" / "week1" / "x.ipynb", at=1e9)
    put(tmp_path / "b" / "week1" / "timestamp.txt", b"2026-11-20T17:03:00Z")
    put(tmp_path / "b" / "week1" / "mine" / "y.ipynb")
    put(tmp_path / "b" / "week1" / "mine" / "timestamp.txt", b"1999-01-01")  # the one on the outside is the collector's
    put(tmp_path / "c" / "x.ipynb", at=1e9)
    put(tmp_path / "c" / "timestamp.txt", b"soon")
    # In a zip the times are the student's own: that of the zip counts.
    packed = {"x.ipynb": NOTEBOOK, "timestamp.txt": b"1999-01-01"}
    os.utime(zipped(tmp_path / "d.zip", packed, date_time=(1999, 11, 20, 17, 3, 0)), (1e9, 1e9))
    found = {one.student: one for one in find_submissions(tmp_path)}
    times = {student: [file.at for file in one.files] for student, one in found.items()}
    given = datetime(2026, 11, 20, 17, 3, tzinfo=UTC).timestamp()
    assert times == {"a": [1e9], "b": [given, given], "c": [1e9], "d": [1e9]}
    assert found["c"].remarks == ("timestamp.txt names no time that can be read: the time of each file counts.",)
    assert not any(found[student].remarks for student in "abd")
