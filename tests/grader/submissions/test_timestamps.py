"""When was it handed in? Which of several times is believed."""

import os
from datetime import UTC, datetime

import pytest

from course_grader.submissions import OWN_TIMESTAMP, find_submissions
from course_grader.submissions.collector import LATEST, clamp_to_calendar, parse_timestamp
from tests.grader.submissions.submitted_files import NOTEBOOK, only, put, zipped


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
    assert parse_timestamp(text) == moment.timestamp()


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2026-99-99", "0001-01-01 00:00:00 Asia/Tokyo", "\x00"),
        *("2026-11-20 17:03:00 Mars/Base", "2026-11-20 17:03:00 ../../etc/passwd"),
        *("2026-11-20 17:03:00 America", "2026-11-20 17:03:00 a/\x00"),
    ],
)
def test_times_that_can_not_be_read(text):
    assert parse_timestamp(text) is None


def test_a_time_that_no_calendar_has(tmp_path):
    put(tmp_path / "eve.ipynb", at=-5)
    assert only(tmp_path).files[0].submitted_at == 0
    assert clamp_to_calendar(1e18) == LATEST


def times_and_remarks(folder):
    found = {submission.student: submission for submission in find_submissions(folder)}
    times = {student: [file.submitted_at for file in item.files] for student, item in found.items()}
    return times, {student: submission.remarks for student, submission in found.items() if submission.remarks}


GIVEN = datetime(2026, 11, 20, 17, 3, tzinfo=UTC).timestamp()


def test_which_time_counts_where_nbgrader_collected(tmp_path):
    for student in "abc":
        put(tmp_path / student / "week1" / "x.ipynb", at=1e9)
        put(tmp_path / student / "week1" / "timestamp.txt", b"2026-11-20T17:03:00Z" if student != "c" else b"soon")
    put(tmp_path / "b" / "week1" / "mine" / "y.ipynb")
    put(tmp_path / "b" / "week1" / "mine" / "timestamp.txt", b"1999-01-01")  # the one on the outside is the collector's
    put(tmp_path / "c" / "week1" / "mine" / "y.ipynb", at=1e9)
    put(tmp_path / "c" / "week1" / "mine" / "timestamp.txt", b"1999-01-01")
    put(tmp_path / "d" / "week1" / "x.ipynb", at=1e9)  # brought by the teacher, after all
    # In a zip the times are the student's own: that of the zip counts.
    packed = {"x.ipynb": NOTEBOOK, "week1/timestamp.txt": b"1999-01-01"}
    os.utime(zipped(tmp_path / "e.zip", packed, date_time=(1999, 11, 20, 17, 3, 0)), (1e9, 1e9))
    times, remarks = times_and_remarks(tmp_path)
    assert times == {"a": [GIVEN], "b": [GIVEN, GIVEN], "c": [1e9, 1e9], "d": [1e9], "e": [1e9]}
    unreadable = "timestamp.txt contains no readable time: the time of each file counts."
    assert remarks == {"c": (unreadable, OWN_TIMESTAMP)}


@pytest.mark.parametrize(
    ("others", "own"),
    [
        ((), "timestamp.txt"),  # nobody else
        (("",), "timestamp.txt"),  # others have folders without one
        (("week1",), "week1/timestamp.txt"),  # as if nbgrader had collected it
        (("week1",), "timestamp.txt"),
        (("week1/timestamp.txt",), "timestamp.txt"),  # nbgrader writes none to a student's whole folder
        (("week1/timestamp.txt",), "other/timestamp.txt"),  # or for an assignment that nobody else has
    ],
)
def test_no_student_writes_the_time_of_their_own_submission(tmp_path, others, own):
    put(tmp_path / "eve" / own, b"1999-01-01")
    put((tmp_path / "eve" / own).with_name("x.ipynb"), at=2e9)
    for student in ("ada", "bob"):
        for path in others:
            folder = tmp_path / student / path.removesuffix("timestamp.txt")
            put(folder / "x.ipynb", at=1e9)
            if path.endswith(".txt"):
                put(folder / "timestamp.txt", b"2026-11-20T17:03:00Z")
    times, remarks = times_and_remarks(tmp_path)
    assert times["eve"] == [2e9] and remarks == {"eve": (OWN_TIMESTAMP,)}
    told = GIVEN if others == ("week1/timestamp.txt",) else 1e9
    assert all(times[student] == [told] for student in times if student != "eve")
