"""Late and handed in twice: one clear rule, tried against every order of a few notebooks."""

import time
from datetime import UTC, datetime, timezone
from itertools import permutations

import pytest

from course_grader.submissions import Cell, Notebook, SubmittedNotebook, select_notebooks

DUE = datetime(2026, 11, 20, 18, 0).timestamp()
HOUR = 3600.0
ZONE = timezone(datetime.fromtimestamp(DUE).astimezone().utcoffset())  # of the machine that runs this
NAMES = ["split_heads", "merge_heads"]


def submit(name, notebook, hours=0.0, late=False, reason=""):
    """A notebook that was submitted so many hours after the due time."""
    return SubmittedNotebook(name, DUE + hours * HOUR, late, notebook, reason)


def answers_to(*exercises, source="pass", **more):
    return Notebook(tuple(Cell(number, source, name) for number, name in enumerate(exercises, 1)), **more)


def winner(submitted, name="split_heads", due=DUE):
    """The index of the notebook that counts, whether it is late, and the remarks."""
    selection = select_notebooks(submitted, NAMES, due)
    (index,) = [index for index, file in enumerate(submitted) if file.notebook is selection.notebook_of[name]]
    return index, selection.late[name], selection.remarks


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
        submitted = [submit(f"{hour}.ipynb", answers_to("split_heads"), hour) for hour in order]
        index, is_late, _ = winner(submitted)
        assert (order[index], is_late) == (counts, late)


def test_nothing_is_late_without_a_due_time():
    submitted = [submit(f"{name}.ipynb", answers_to("split_heads"), hours) for name, hours in (("a", 1), ("b", 99))]
    assert winner(submitted, due=None)[:2] == (1, False)


def test_what_canvas_marks_is_late_whatever_its_time():
    in_time = submit("a.ipynb", answers_to("split_heads"), -9)
    marked = submit("a-1.ipynb", answers_to("split_heads"), -1, late=True)
    assert winner([in_time, marked])[:2] == winner([in_time, marked], due=None)[:2] == (0, False)
    assert winner([marked]) == (0, True, ("a-1.ipynb is late: Canvas marked it so.",))
    assert winner([marked], due=None)[1]


@pytest.mark.parametrize(
    "names",
    [("a.ipynb", "b.ipynb"), ("a.ipynb", "a-1.ipynb"), ("a-2.ipynb", "a-10.ipynb"), ("a (2).ipynb", "a (3).ipynb")],
)
def test_at_the_same_time_the_name_decides(names):
    submitted = [submit(name, answers_to("split_heads")) for name in names]
    assert winner(submitted)[0] == 1
    assert winner(submitted[::-1])[0] == 0


def test_each_exercise_counts_by_itself():
    both, one = answers_to(*NAMES), answers_to("merge_heads")
    submitted = [submit("a.ipynb", both, -5), submit("b.ipynb", one, -1)]
    selection = select_notebooks(submitted, [*NAMES, "two_heads"], DUE)
    assert selection.notebook_of == {"split_heads": both, "merge_heads": one}
    assert selection.late == {"split_heads": False, "merge_heads": False}
    assert selection.submitted_at == DUE - HOUR
    assert selection.remarks == (
        f"`merge_heads` is in 2 notebooks: the one in b.ipynb from 2026-11-20 17:00 {ZONE} counts.",
    )


@pytest.mark.parametrize(
    ("hours", "blank", "counts", "late"),
    [
        ((-2, -1), {1}, 0, False),  # the sheet that was downloaded again
        ((-2, 1), {0}, 1, True),  # an empty one in time, the work a day late
        ((-2, -1), {0, 1}, 1, False),  # nothing is written: the usual rule
        ((1, 2), {1}, 0, True),
        ((-2, -1), {}, 1, False),  # whether it is right does not matter
    ],
)
def test_what_is_not_written_counts_before_nothing_that_is(hours, blank, counts, late):
    submitted = [submit(f"a-{at}.ipynb", answers_to("split_heads"), hour) for at, hour in enumerate(hours)]
    unwritten = [("split_heads", submitted[at].notebook) for at in blank]
    selection = select_notebooks(submitted, NAMES, DUE, unwritten=unwritten)
    assert selection.notebook_of["split_heads"] is submitted[counts].notebook
    assert selection.late["split_heads"] == late
    if len(blank) == 1:
        assert selection.remarks[0].startswith(
            f"a-{1 - counts}.ipynb is not written yet in `split_heads`: what is in a-"
        )


def test_an_exercise_beside_another_in_one_cell():
    cell = Cell(1, "", "merge_heads", ("merge_heads", "split_heads"))
    assert winner([submit("a.ipynb", Notebook((cell,)))])[0] == 0


@pytest.mark.parametrize(
    ("hours", "says"),
    [
        (
            (-3, -1),
            [f"02_exercises.ipynb was handed in twice: 02_exercises-1.ipynb from 2026-11-20 17:00 {ZONE} counts."],
        ),
        (
            (-1, -2, -3, 4),
            [
                "02_exercises.ipynb was handed in 4 times: "
                f"02_exercises-1.ipynb from 2026-11-20 17:00 {ZONE} counts, the last in time."
            ],
        ),
        (
            (1, 2),
            [
                f"02_exercises.ipynb was handed in twice: 02_exercises-2.ipynb from 2026-11-20 20:00 {ZONE} counts.",
                f"02_exercises-2.ipynb is late: it was handed in at 2026-11-20 20:00 {ZONE} "
                f"and due at 2026-11-20 18:00 {ZONE}.",
            ],
        ),
    ],
)
def test_the_student_is_told(hours, says):
    names = [f"02_exercises-{abs(hour)}.ipynb" for hour in hours]
    submitted = [submit(name, answers_to(*NAMES), hour) for name, hour in zip(names, hours, strict=True)]
    assert winner(submitted)[2] == tuple(says)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone can't be changed here")
@pytest.mark.parametrize(("zone", "says"), [("Asia/Kolkata", "00:30 UTC+05:30"), ("UTC", "19:00 UTC")])
def test_a_time_says_its_zone(monkeypatch, zone, says):
    """A worker elsewhere may have another clock than the teacher."""
    late = datetime(2026, 11, 20, 19, 0, tzinfo=UTC).timestamp()
    submitted = [SubmittedNotebook("a.ipynb", late, False, answers_to("split_heads"))]
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        (remark,) = select_notebooks(submitted, NAMES, late - 1).remarks
    finally:
        monkeypatch.undo()
        time.tzset()
    assert f" {says} and due at " in remark


def test_what_is_wrong_with_a_notebook_is_told():
    stamp = {"release": "week2", "version": "0.2"}
    submitted = [
        submit("a.ipynb", answers_to("split_heads", stamp=stamp, remarks=("2 cells were left out.",)), -3),
        submit("b.ipynb", answers_to("merge_heads", stamp={"release": "week1", "version": "0.2"}), -2),
        submit("c.ipynb", None, -1, reason="It is empty: hand it in again."),
    ]
    selection = select_notebooks(submitted, NAMES, DUE, release="week1")
    assert selection.remarks == (
        "a.ipynb: 2 cells were left out.",
        "a.ipynb says that it belongs to week2, version 0.2; this is week1.",
        "c.ipynb can't be read. It is empty: hand it in again.",
    )
    assert selection.submitted_at == DUE - 2 * HOUR and set(selection.notebook_of) == set(NAMES)


def test_nothing_that_counts():
    assert select_notebooks([], NAMES, DUE).submitted_at is None
    selection = select_notebooks([submit("a.ipynb", None, 1, reason="It is empty.")], NAMES, DUE)
    assert (selection.notebook_of, selection.late, selection.submitted_at) == ({}, {}, DUE + HOUR)


def test_one_name_twice_in_a_zip():
    submitted = [submit("a.ipynb", answers_to(*NAMES)) for _ in range(2)]
    assert winner(submitted)[0] == 1
    assert winner(submitted)[2] == (
        f"a.ipynb was handed in twice: the last of them, from 2026-11-20 18:00 {ZONE}, counts.",
    )


def test_files_of_one_name_are_told_apart_by_their_folders():
    names = ("old/02_exercises.ipynb", "new/02_exercises.ipynb")
    submitted = [submit(name, answers_to(*NAMES), hour) for hour, name in enumerate(names, -3)]
    assert winner(submitted)[2] == (
        f"02_exercises.ipynb was handed in twice: new/02_exercises.ipynb from 2026-11-20 16:00 {ZONE} counts.",
    )
