"""Late and handed in twice: one clear rule, tried against every order of a few notebooks."""

import time
from datetime import UTC, datetime, timezone
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib.classroom.handed_in.counting import what_counts
from course_lib.classroom.handed_in.files import File
from course_lib.classroom.handed_in.notebooks import Cell, Sheet, Unreadable

DUE = datetime(2026, 11, 20, 18, 0).timestamp()
HOUR = 3600.0
ZONE = timezone(datetime.fromtimestamp(DUE).astimezone().utcoffset())  # of the machine that runs this
NAMES = ["split_heads", "merge_heads"]


def handed(name, hours=0.0, late=False):
    """A file, so many hours after the due time."""
    return File(name, DUE + hours * HOUR, late, Path(name))


def sheet(*exercises, source="pass", **more):
    return Sheet(tuple(Cell(number, source, name) for number, name in enumerate(exercises, 1)), **more)


def winner(files, name="split_heads", due=DUE):
    """The place in `files` of the one that counts, whether it is late, and the remarks."""
    counted = what_counts(files, NAMES, due)
    (place,) = [at for at, (_, one) in enumerate(files) if one is counted.sheet_of[name]]
    return place, counted.late[name], counted.remarks


@pytest.mark.parametrize(
    ("hours", "counts", "late"),
    [
        ((-3, -1, 2), -1, False),  # the last before the due time
        ((-3, 0, 1), 0, False),  # on the second it is in time
        ((1, 3, 2), 3, True),  # none is: the last one
        ((-2, -9, -5), -2, False),
    ],
)
def test_the_last_before_the_due_time_counts(hours, counts, late):
    for order in permutations(hours):
        files = [(handed(f"{at}.ipynb", at), sheet("split_heads")) for at in order]
        place, is_late, _ = winner(files)
        assert (order[place], is_late) == (counts, late)


def test_nothing_is_late_without_a_due_time():
    files = [(handed("a.ipynb", 1), sheet("split_heads")), (handed("b.ipynb", 99), sheet("split_heads"))]
    assert winner(files, due=None)[:2] == (1, False)


def test_what_canvas_marks_is_late_whatever_its_time():
    files = [(handed("a.ipynb", -9), sheet("split_heads")), (handed("a-1.ipynb", -1, late=True), sheet("split_heads"))]
    assert winner(files)[:2] == winner(files, due=None)[:2] == (0, False)
    assert winner(files[1:]) == (0, True, ("a-1.ipynb is late: Canvas marked it so.",))
    assert winner(files[1:], due=None)[1]


@pytest.mark.parametrize(
    "names",
    [("a.ipynb", "b.ipynb"), ("a.ipynb", "a-1.ipynb"), ("a-2.ipynb", "a-10.ipynb"), ("a (2).ipynb", "a (3).ipynb")],
)
def test_at_the_same_time_the_name_decides(names):
    files = [(handed(name), sheet("split_heads")) for name in names]
    assert winner(files)[0] == 1
    assert winner(files[::-1])[0] == 0


def test_each_exercise_counts_by_itself():
    both, one = sheet(*NAMES), sheet("merge_heads")
    counted = what_counts([(handed("a.ipynb", -5), both), (handed("b.ipynb", -1), one)], [*NAMES, "two_heads"], DUE)
    assert counted.sheet_of == {"split_heads": both, "merge_heads": one}
    assert counted.late == {"split_heads": False, "merge_heads": False}
    assert counted.handed_in == DUE - HOUR
    assert counted.remarks == (
        f"`merge_heads` is in 2 notebooks: the one in b.ipynb of 2026-11-20 17:00 {ZONE} counts.",
    )


def test_a_clear_rule_beats_a_clever_one():
    """The last one counts, though it is a stub and the one before has code."""
    written = (handed("a.ipynb", -2), sheet("split_heads", source="def split_heads(x): return x"))
    stub = (handed("a-1.ipynb", -1), sheet("split_heads", source="def split_heads(x): raise NotImplementedError"))
    assert winner([written, stub])[0] == 1


def test_an_exercise_beside_another_in_one_cell():
    files = [(handed("a.ipynb"), Sheet((Cell(1, "", "merge_heads", ("merge_heads", "split_heads")),)))]
    assert winner(files)[0] == 0


@pytest.mark.parametrize(
    ("hours", "says"),
    [
        ((-3, -1), [f"02_exercises.ipynb was handed in twice: the one of 2026-11-20 17:00 {ZONE} counts."]),
        (
            (-1, -2, -3, 4),
            [f"02_exercises.ipynb was handed in 4 times: the one of 2026-11-20 17:00 {ZONE} counts, the last in time."],
        ),
        (
            (1, 2),
            [
                f"02_exercises.ipynb was handed in twice: the one of 2026-11-20 20:00 {ZONE} counts.",
                f"02_exercises-2.ipynb is late: it was handed in at 2026-11-20 20:00 {ZONE} "
                f"and due at 2026-11-20 18:00 {ZONE}.",
            ],
        ),
    ],
)
def test_the_student_is_told(hours, says):
    files = [(handed(f"02_exercises-{hour}.ipynb".replace("--", "-"), hour), sheet(*NAMES)) for hour in hours]
    assert winner(files)[2] == tuple(says)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone can't be changed here")
@pytest.mark.parametrize(("zone", "says"), [("Asia/Kolkata", "00:30 UTC+05:30"), ("UTC", "19:00 UTC")])
def test_a_time_says_its_zone(monkeypatch, zone, says):
    """A worker elsewhere may have another clock than the teacher."""
    late = datetime(2026, 11, 20, 19, 0, tzinfo=UTC).timestamp()
    files = [(File("a.ipynb", late, False, Path("a.ipynb")), sheet("split_heads"))]
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        (remark,) = what_counts(files, NAMES, late - 1).remarks
    finally:
        monkeypatch.undo()
        time.tzset()
    assert f" {says} and due at " in remark


def test_a_file_may_bring_its_sheet():
    """Grading sends the files with their sheets, which have no hash."""
    one = sheet("split_heads", stamp={"release": "week1"})
    assert winner([(SimpleNamespace(name="a.ipynb", at=DUE, marked_late=False, sheet=one), one)])[0] == 0


def test_what_is_wrong_with_a_notebook_is_told():
    stamp = {"release": "week2", "version": "0.2"}
    files = [
        (handed("a.ipynb", -3), sheet("split_heads", stamp=stamp, remarks=("2 cells were left out.",))),
        (handed("b.ipynb", -2), sheet("merge_heads", stamp={"release": "week1", "version": "0.2"})),
        (handed("c.ipynb", -1), Unreadable("It is empty: hand it in again.")),
    ]
    counted = what_counts(files, NAMES, DUE, release="week1")
    assert counted.remarks == (
        "a.ipynb: 2 cells were left out.",
        "a.ipynb says it is of week2, version 0.2; this is week1.",
        "c.ipynb can't be read. It is empty: hand it in again.",
    )
    assert counted.handed_in == DUE - 2 * HOUR and set(counted.sheet_of) == set(NAMES)


def test_nothing_that_counts():
    assert what_counts([], NAMES, DUE).handed_in is None
    counted = what_counts([(handed("a.ipynb", 1), Unreadable("It is empty."))], NAMES, DUE)
    assert (counted.sheet_of, counted.late, counted.handed_in) == ({}, {}, DUE + HOUR)
