"""Who handed in what: every shape that teachers and their tools collect."""

import os
import pickle
import re
import unicodedata

import pytest

from course_grader.submissions import escape_hidden, find_submissions, survey
from course_grader.submissions.student_names import original_and_copy, parse_submission_name
from tests.grader.submissions.submitted_files import NOTEBOOK, as_names, only, put, zipped


def test_a_folder_a_file_or_a_zip_a_student(tmp_path):
    put(tmp_path / "zoe" / "b.ipynb")
    put(tmp_path / "zoe" / "deep" / "a.IPYNB")
    put(tmp_path / "zoe" / "report.pdf")
    put(tmp_path / "bob.ipynb")
    zipped(tmp_path / "carl.zip", {"x/c.ipynb": NOTEBOOK, "x/data.csv": b""})
    zipped(tmp_path / "dana" / "all.zip", {"d.ipynb": NOTEBOOK})
    for name in ("README", "roster.csv", "notes.txt", "index.html", ".hidden.ipynb", ".git/x.ipynb"):
        put(tmp_path / name)
    assert as_names(tmp_path) == {
        "bob": ["bob.ipynb"],
        "carl": ["x/c.ipynb"],
        "dana": ["d.ipynb"],
        "zoe": ["b.ipynb", "deep/a.IPYNB"],
    }
    assert not any(one.remarks for one in find_submissions(tmp_path))
    assert all(file.read() == NOTEBOOK for one in find_submissions(tmp_path) for file in one.files)
    assert pickle.loads(pickle.dumps(find_submissions(tmp_path))) == find_submissions(tmp_path)


def test_one_student_under_several_names(tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    put(tmp_path / composed / "a.ipynb")
    put(tmp_path / f"{decomposed}.ipynb")
    zipped(tmp_path / f"{composed}.zip", {"z.ipynb": NOTEBOOK})
    assert list(as_names(tmp_path)) == [composed]
    assert len(only(tmp_path).files) == 3


def test_names_that_would_hide_something(tmp_path):
    put(tmp_path / "eve\u202egnp" / "a\x1b[31m.ipynb")
    put(tmp_path / "eve\\u202egnp.ipynb")  # spelt out: another student
    put(tmp_path / "line\nbreak.ipynb")
    put(tmp_path / os.fsdecode(b"\xff.ipynb"))
    put(tmp_path / "李\U000e0041.ipynb")
    assert sorted(as_names(tmp_path)) == sorted(
        ["eve\\u202egnp", "eve\\u005cu202egnp", "line\\u000abreak", "\\udcff", "李\\U000e0041"]
    )
    assert as_names(tmp_path)["eve\\u202egnp"] == ["a\\u001b[31m.ipynb"]
    assert escape_hidden("a" * 200) == "a" * 120 + "…"


def test_a_download_of_moodle(tmp_path):
    student = "Jane Doe_1234567_assignsubmission_file"
    put(tmp_path / student / "01_exercises.ipynb", at=1e9)
    put(tmp_path / student / "timestamp.txt", b"1999-01-01")  # Moodle writes none: it is the student's own
    put(tmp_path / "Jane Doe_1234567_assignsubmission_onlinetext" / "onlinetext.html")
    put(tmp_path / "Jane Doe_1234568_assignsubmission_file_02_exercises.ipynb")
    assert as_names(tmp_path) == {
        student: ["01_exercises.ipynb"],
        "Jane Doe_1234568_assignsubmission_file": ["02_exercises.ipynb"],
    }
    assert find_submissions(tmp_path)[0].files[0].submitted_at == 1e9


def test_a_download_of_canvas(tmp_path):
    put(tmp_path / "doejane_12345_67890_01_exercises.ipynb")
    put(tmp_path / "doejane_12345_67892_02_exercises-1.ipynb")
    put(tmp_path / "doejane_54321_67891_01_exercises.ipynb")
    put(tmp_path / "roejim_LATE_777_888_01_exercises.ipynb")
    put(tmp_path / "voemax_999_888_essay.pdf")
    put(tmp_path / "week_1_2_anna.ipynb")  # no Canvas: the numbers are too short, and anna stays apart from bert
    put(tmp_path / "week_1_2_bert.ipynb")
    found = {one.student: one for one in find_submissions(tmp_path)}
    assert {student: [(file.name, file.marked_late) for file in one.files] for student, one in found.items()} == {
        "doejane_12345": [("01_exercises.ipynb", False), ("02_exercises-1.ipynb", False)],
        "doejane_54321": [("01_exercises.ipynb", False)],
        "roejim_777": [("01_exercises.ipynb", True)],
        "voemax_999": [],
        "week_1_2_anna": [("week_1_2_anna.ipynb", False)],
        "week_1_2_bert": [("week_1_2_bert.ipynb", False)],
    }
    assert found["voemax_999"].remarks == ("No notebook (.ipynb) was handed in: there is essay.pdf.",)
    # what a student chooses stands behind what Canvas writes: nobody hands in under another's name, or not late
    assert parse_submission_name("eve_LATE_777_888_doejane_12345_67890_x.ipynb", False).student == "eve_777"


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("a/01_exercises-12.ipynb", ("01_exercises.ipynb", 12)),
        ("01_exercises (1).ipynb", ("01_exercises.ipynb", 1)),
        ("01_exercises.ipynb", ("01_exercises.ipynb", 0)),
        ("README", ("README", 0)),
        ("-1.ipynb", (".ipynb", 1)),
    ],
)
def test_copies_of_a_notebook(name, original):
    assert original_and_copy(name) == original


def test_nothing_that_can_be_read(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("four.pdf", "one.py", "three.docx", "two.txt"):
        put(tmp_path / "b" / name)
    zipped(tmp_path / "c.zip", {"x.tar.gz": b"", "__MACOSX/._x.ipynb": b"", ".ipynb_checkpoints/x.ipynb": b""})
    assert [one.remarks for one in find_submissions(tmp_path)] == [
        ("No notebook (.ipynb) was handed in.",),
        ("No notebook (.ipynb) was handed in: there is four.pdf, one.py, three.docx and more.",),
        (
            "No notebook (.ipynb) was handed in: there is only the copy that Jupyter keeps in .ipynb_checkpoints; "
            "hand in the notebook itself.",
        ),
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere", "which doesn't exist"),
        ("bob.ipynb", "which is a file"),
        ("empty", "and nobody has handed anything in there"),
        ("readme", "and nobody has handed anything in there"),
    ],
)
def test_a_folder_without_submissions(tmp_path, name, says):
    put(tmp_path / "bob.ipynb")
    put(tmp_path / "readme" / "README.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError) as caught:
        find_submissions(tmp_path / name)
    remedy = "give the folder that has a folder, a notebook or a zip for each student"
    assert str(caught.value) == f"folder is {tmp_path / name}, {says}: {remedy}."


MOODLE, CANVAS = "Jane Doe_1234567_assignsubmission_file_", "doejane_12345_67890_01_exercises.ipynb"
OTHER_MOODLE, OTHER_CANVAS = "Al Roe_1234568_assignsubmission_file_", "roeal_12346_67891_01_exercises.ipynb"


@pytest.mark.parametrize(
    ("handed_in", "platform"),
    [
        # Moodle's "Download all submissions", as Moodle packs it, with folders or without, and unpacked
        ({"CS-week1-4711.zip": [f"{MOODLE}/01.ipynb", f"{OTHER_MOODLE}/01.ipynb"]}, "Moodle"),
        ({"CS-week1-4711.zip": [f"{MOODLE}01.ipynb", f"{OTHER_MOODLE}01.ipynb"]}, "Moodle"),
        ({"CS-week1-4711.zip": [f"CS/{MOODLE}/01.ipynb"]}, "Moodle"),
        ({f"CS-week1-4711/{MOODLE}/01.ipynb": None}, "Moodle"),
        ({f"CS-week1-4711/{MOODLE}/01.ipynb": None, f"CS-week1-4711/{OTHER_MOODLE}/1.ipynb": None, "bob.ipynb": None},
         "Moodle"),
        ({f"week1/CS-week1-4711/{MOODLE}/01.ipynb": None}, "Moodle"),
        ({"week1/CS-week1-4711.zip": [f"{MOODLE}/01.ipynb"]}, "Moodle"),
        # Canvas's "Download Submissions"
        ({"submissions.zip": [CANVAS, OTHER_CANVAS]}, "Canvas"),
        ({f"submissions/{CANVAS}": None, f"submissions/{OTHER_CANVAS}": None}, "Canvas"),
    ],
)  # fmt: skip
def test_a_class_is_not_one_student(tmp_path, handed_in, platform):
    for name, members in handed_in.items():
        if members:
            zipped(tmp_path / name, dict.fromkeys(members, NOTEBOOK))
        else:
            put(tmp_path / name)
    with pytest.raises(ValueError, match="give the folder that directly holds what each student handed in") as caught:
        find_submissions(tmp_path)
    assert f"as a whole class's download from {platform} does: " in str(caught.value)
    assert re.search(r" holds '\w+( Doe| Roe)?_1234", str(caught.value))
    assert ("unpack it, and" in str(caught.value)) == any(handed_in.values())


@pytest.mark.parametrize(
    "names",
    [
        (f"{MOODLE}/{OTHER_MOODLE}/01.ipynb", f"{MOODLE}/{MOODLE}/01.ipynb"),  # in what Moodle named, all is one's own
        (f"jane/{CANVAS}", "jane/doejane_12345_67899_02_exercises.ipynb"),  # her own files, as Canvas gives them back
        ("jane/v1/01.ipynb", "jane/v2/01.ipynb", "al.ipynb"),
        (f"jane/{OTHER_MOODLE}.ipynb", "al.ipynb"),  # a joke stops nobody's grading
    ],
)
def test_one_student_is_not_a_class(tmp_path, names):
    for name in names:
        put(tmp_path / name)
    assert len(find_submissions(tmp_path)) == len({name.partition("/")[0] for name in names})


def test_every_file_that_is_not_read_is_named(tmp_path):
    for name in ("Ben Ho.rar", "Cy.tar.gz", "Di.7z", "Ed.py", "roster.csv", ".Fay.ipynb", ".DS_Store", "._Gil.ipynb"):
        put(tmp_path / name)
    put(tmp_path / "ada" / "01.ipynb")
    for name in ("essay.pdf", "x/b.py", ".old.ipynb", ".ipynb_checkpoints/01-checkpoint.ipynb"):
        put(tmp_path / "ada" / name)
    zipped(tmp_path / "zoe.zip", {"z.ipynb": NOTEBOOK, "data.csv": b"", "a/.z.ipynb": b"", "__MACOSX/._z.ipynb": b""})
    ada, zoe = found = find_submissions(tmp_path)
    assert (ada.unread, zoe.unread) == ((".old.ipynb", "essay.pdf", "x/b.py"), ("a/.z.ipynb", "data.csv"))
    assert not ada.remarks and not zoe.remarks
    assert survey(tmp_path, found) == [
        "Not read, and so no student's: .Fay.ipynb, Ben Ho.rar, Cy.tar.gz, Di.7z, Ed.py, roster.csv (only notebooks, "
        "zips and folders are; if one is a student's, unpack it into a folder of that name)."
    ]


@pytest.mark.parametrize(
    ("times", "says"), [((5, 5, 5), True), ((5, 9, 55), True), ((5, 5, 99), False), ((5, 5), False)]
)
def test_one_time_for_all_files_is_said(tmp_path, times, says):
    for number, at in enumerate(times):
        put(tmp_path / f"{number}.ipynb", at=1e9 + at)
    (tmp_path / "nothing").mkdir()
    said = survey(tmp_path, find_submissions(tmp_path))
    assert [sentence.startswith("All files bear one time, 2001-09-") for sentence in said] == [True] * says


def test_one_notebook_in_many_folders_of_one_student(tmp_path):
    for name in ("ada/01_exercises", "bob/01_exercises", "cy/01_exercises"):
        put(tmp_path / "class" / f"{name}.ipynb", at=1e9)
    (said,) = survey(tmp_path, find_submissions(tmp_path))
    assert said == (
        "class handed in the same notebook in ada, bob, cy: if these are students, give the folder that holds them."
    )


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        (f"{MOODLE}/01.ipynb", "Jane Doe_1234567_assignsubmission_file/feedback"),
        (f"{MOODLE}01.ipynb", "Jane Doe_1234567_assignsubmission_file/feedback"),
        ("roejim_LATE_777_888_01_exercises.ipynb", "roejim_LATE_777_888_01_exercises"),
        ("ada.ipynb", ""),
    ],
)
def test_the_name_under_which_a_platform_takes_feedback(tmp_path, name, reply):
    put(tmp_path / name)
    assert only(tmp_path).reply == reply
