"""Who handed in what: every shape that teachers and their tools collect."""

import os
import pickle
import re
import unicodedata

import pytest

from course_grader.submissions import escape_hidden, find_submissions, survey
from course_grader.submissions.student_names import original_and_copy, parse_submission_name, unambiguous_names
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
    assert not any(submission.remarks for submission in find_submissions(tmp_path))
    assert all(file.read() == NOTEBOOK for submission in find_submissions(tmp_path) for file in submission.files)
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
    put(tmp_path / "Text Only_1234569_assignsubmission_onlinetext" / "onlinetext.html")
    put(tmp_path / "Flat Only_1234570_assignsubmission_onlinetext_onlinetext.html")
    put(tmp_path / "Jane Doe_1234568_assignsubmission_file_02_exercises.ipynb")
    assert as_names(tmp_path) == {
        student: ["01_exercises.ipynb"],
        "Jane Doe_1234568_assignsubmission_file": ["02_exercises.ipynb"],
    }
    assert find_submissions(tmp_path)[0].files[0].submitted_at == 1e9
    sentences = survey(tmp_path, find_submissions(tmp_path))
    (typed,) = [sentence for sentence in sentences if "typed into Moodle" in sentence]
    assert all(name in typed for name in ("Jane Doe_1234567", "Text Only_1234569", "Flat Only_1234570"))


def test_a_download_of_canvas(tmp_path):
    put(tmp_path / "doejane_12345_67890_01_exercises.ipynb")
    put(tmp_path / "doejane_12345_67892_02_exercises-1.ipynb")
    put(tmp_path / "doejane_54321_67891_01_exercises.ipynb")
    put(tmp_path / "roejim_LATE_777_888_01_exercises.ipynb")
    put(tmp_path / "voemax_999_888_essay.pdf")
    put(tmp_path / "o_brien_LATE_109_9013_01_exercises.ipynb")
    put(tmp_path / "poejan_late_103_9003_01_exercises.ipynb")
    put(tmp_path / "anon_abcde_9001_01.ipynb")
    put(tmp_path / "anon_LATE_abcde_9002_02.ipynb")
    put(tmp_path / "week_1_2_anna.ipynb")  # no Canvas: the numbers are too short, and anna stays apart from bert
    put(tmp_path / "week_1_2_bert.ipynb")
    found = {submission.student: submission for submission in find_submissions(tmp_path)}
    assert {student: [(file.name, file.marked_late) for file in item.files] for student, item in found.items()} == {
        "doejane_12345": [("01_exercises.ipynb", False), ("02_exercises-1.ipynb", False)],
        "doejane_54321": [("01_exercises.ipynb", False)],
        "roejim_777": [("01_exercises.ipynb", True)],
        "o_brien_109": [("01_exercises.ipynb", True)],
        "poejan_103": [("01_exercises.ipynb", True)],
        "anon_abcde": [("01.ipynb", False), ("02.ipynb", True)],
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
        ("01_exercises-Copy2.ipynb", ("01_exercises.ipynb", 2)),
        ("Copy of 01_exercises.ipynb", ("01_exercises.ipynb", 1)),
    ],
)
def test_copies_of_a_notebook(name, original):
    assert original_and_copy(name) == original


def test_nothing_that_can_be_read(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("four.pdf", "one.py", "three.docx", "two.txt"):
        put(tmp_path / "b" / name)
    zipped(tmp_path / "c.zip", {"x.tar.gz": b"", "__MACOSX/._x.ipynb": b"", ".ipynb_checkpoints/x.ipynb": b""})
    assert [submission.remarks for submission in find_submissions(tmp_path)] == [
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
THIRD_MOODLE, THIRD_CANVAS = "Cy Roe_1234569_assignsubmission_file_", "roecy_12347_67892_01_exercises.ipynb"


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
        # A part of either, put beside the rest by the teacher
        ({f"late ones/{MOODLE}/01.ipynb": None, f"{OTHER_MOODLE}/01.ipynb": None}, "Moodle"),
        ({f"late ones/{CANVAS}": None, OTHER_CANVAS: None}, "Canvas"),
        ({"late.zip": [f"a/b/c/{CANVAS}"], OTHER_CANVAS: None}, "Canvas"),
        ({f"a/b/c/d/{MOODLE}/01.ipynb": None, f"{OTHER_MOODLE}/01.ipynb": None}, "Moodle"),
        # Unpacked into the folder of a student, or packed under the name of one
        ({f"{MOODLE}/{OTHER_MOODLE}/01.ipynb": None, f"{MOODLE}/a/{THIRD_MOODLE}/01.ipynb": None}, "Moodle"),
        ({f"{MOODLE}/week1.zip": [f"{OTHER_MOODLE}01.ipynb", f"{THIRD_MOODLE}/a.pdf"]}, "Moodle"),
        ({"doejane_12345_67890_all.zip": [OTHER_CANVAS, THIRD_CANVAS], OTHER_CANVAS: None}, "Canvas"),
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
    ("names", "told"),
    [
        ((f"{MOODLE}/{OTHER_MOODLE}/01.ipynb", f"{MOODLE}/{MOODLE}/01.ipynb"), True),  # a friend's, and her own
        ((f"jane/{CANVAS}", "jane/doejane_12345_67899_02_exercises.ipynb"), True),  # her own, as Canvas gives it back
        (("jane/v1/01.ipynb", "jane/v2/01.ipynb", "al.ipynb"), False),
        ((f"jane/{OTHER_MOODLE}.ipynb", "al.ipynb"), True),  # a joke stops nobody's grading
        ((f"{MOODLE}/Screenshot_20261119_120000_a.jpg", f"{MOODLE}/Screenshot_20261120_120000_b.jpg"), False),
    ],
)
def test_one_student_is_not_a_class(tmp_path, names, told):
    for name in names:
        put(tmp_path / name)
    found = find_submissions(tmp_path)
    assert len(found) == len({name.partition("/")[0] for name in names})
    bears = "is graded with what bears another student's name, "
    said = [sentence for sentence in survey(tmp_path, found) if bears in sentence]
    assert len(said) == told


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (["ann_01_exercises.ipynb", "ann_02_exercises.ipynb", "Bo-01_exercises (1).ipynb"], ["Bo", "ann"]),
        (["carla.ipynb", "carla (1).ipynb", "carla (2).zip"], ["carla"]),
        (["bea.ipynb", "bea-Copy1.ipynb", "bea - Copy.ipynb", "Bea - Kopie (2).ipynb"], ["Bea"]),
        (["Copy of cem.ipynb", "Kopie von cem.ipynb"], ["cem"]),
        (["dan/a.ipynb", "dan /a.ipynb", "dan\u00a0/a.ipynb"], ["dan"]),
        (["Jane Doe/a.ipynb", "jane  doe.zip"], ["Jane Doe"]),
        # others, though some look alike
        (["team (1).ipynb", "team (2).ipynb"], ["team (1)", "team (2)"]),
        (["jane_doe.ipynb", "Jane Doe.ipynb"], ["Jane Doe", "jane_doe"]),
        (["01_exercises_ann.ipynb", "02_exercises-ann.ipynb"], ["01_exercises_ann", "02_exercises-ann"]),
        (["student_01.ipynb", "student_02.ipynb", "ann-1.ipynb", "ann-2.ipynb"],
         ["ann-1", "ann-2", "student_01", "student_02"]),
        (["Strauss.ipynb", "Strauß.ipynb", "Zoe.ipynb", "Zoë.ipynb"], ["Strauss", "Strauß", "Zoe", "Zoë"]),
        ([f"{MOODLE}/a.ipynb", "Jane Doe_1234568_assignsubmission_file_/a.ipynb"],
         ["Jane Doe_1234567_assignsubmission_file", "Jane Doe_1234568_assignsubmission_file"]),
    ],
)  # fmt: skip
def test_one_student_is_not_two_and_two_are_not_one_in_silence(tmp_path, names, students):
    for name in names:
        if name.endswith(".zip"):
            zipped(tmp_path / name, {"b.ipynb": NOTEBOOK})
        else:
            put(tmp_path / name)
    found = find_submissions(tmp_path)
    said = survey(tmp_path, found)
    assert [submission.student for submission in found] == students
    assert sum(len(submission.files) for submission in found) == len(names)
    merged = len(names) > len(students)
    assert any(sentence.startswith("Graded as one student; if it is two") for sentence in said) == merged
    for name in names if merged and len(students) == 1 else ():
        assert repr(escape_hidden(name.partition("/")[0])) in "".join(said)
    asked = any(word in name for name in names for word in ("team", "jane_", "_ann."))
    assert any(sentence.startswith("Graded apart, and may be one student") for sentence in said) == asked


def test_every_file_that_is_not_read_is_named(tmp_path):
    for name in ("Ben Ho.rar", "Cy.tar.gz", "Ed.py", ".Fay.ipynb", ".DS_Store", "._Gil.ipynb", ".hidden/01.ipynb"):
        put(tmp_path / name)
    put(tmp_path / "ada" / "01.ipynb")
    for name in ("essay.pdf", "x/b.py", ".old.ipynb", ".ipynb_checkpoints/01-checkpoint.ipynb", ".late/02.ipynb"):
        put(tmp_path / "ada" / name)
    put(tmp_path / "leepat_105_9007_solution.py")
    zipped(tmp_path / "zoe.zip", {"z.ipynb": NOTEBOOK, "data.csv": b"", "a/.z.ipynb": b"", ".b/c.ipynb": b"",
                                  "in.zip": b"", "__MACOSX/._z.ipynb": b"", ".git/x.ipynb": b""})  # fmt: skip
    ada, lee, zoe = found = find_submissions(tmp_path)
    assert ada.unread == (".late", ".old.ipynb", "essay.pdf", "x/b.py")
    assert zoe.unread == (".b/c.ipynb", "a/.z.ipynb", "data.csv", "in.zip")
    assert not ada.remarks and not zoe.remarks and lee.unread == ("solution.py",)
    assert survey(tmp_path, found) == [
        "Not read, and so no student's: .Fay.ipynb, .hidden, Ben Ho.rar, Cy.tar.gz, Ed.py (only notebooks, "
        "zips and folders are; if one is a student's, unpack it into a folder of that name).",
        "Not read, because only notebooks are: .late of ada, .old.ipynb of ada, essay.pdf of ada, x/b.py of ada, "
        "solution.py of leepat_105, .b/c.ipynb of zoe, a/.z.ipynb of zoe, data.csv of zoe, in.zip of zoe.",
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


@pytest.mark.parametrize(
    ("members", "asked"),
    [
        (["doe/01_exercises.ipynb", "roe/01_exercises.ipynb"], "doe, roe"),
        (["class/doe/01_exercises.ipynb", "class/roe/01_exercises (1).ipynb"], "class/doe, class/roe"),
        (["doe/mine.ipynb", "roe/01_exercises.ipynb"], "doe, roe"),
        (["a/x.ipynb", "b/x.ipynb", "c/x.ipynb", "d/x.ipynb"], "a, b, c and 1 more"),
        (["01/01_exercises.ipynb", "02/02_exercises.ipynb"], None),  # a folder for each lesson
        (["01_exercises.ipynb", "old/01_exercises.ipynb"], None),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_several_people_under_one_name_are_asked_about(tmp_path, members, asked, packed):
    put(tmp_path / "lee.ipynb")
    for place in ("handed_in", MOODLE):  # in what Moodle named, all is one student's own
        if packed:
            zipped(tmp_path / f"{place}.zip" if place != MOODLE else tmp_path / MOODLE / "x.zip",
                   dict.fromkeys(members, NOTEBOOK))  # fmt: skip
        for name in () if packed else members:
            put(tmp_path / place / name)
    said = [sentence for sentence in survey(tmp_path, find_submissions(tmp_path)) if "one student" in sentence]
    assert said == [
        f"handed_in is graded as one student, with notebooks in {asked}: if these are students, unpack what is zipped, "
        "and give the folder that holds them."
    ] * bool(asked)


def test_the_sheet_itself_is_asked_about(tmp_path):
    put(tmp_path / "01_exercises.ipynb")
    put(tmp_path / "lee.ipynb")
    assert survey(tmp_path, find_submissions(tmp_path)) == [
        "01_exercises is graded as a student: if it is the sheet that you handed out, remove it."
    ]


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


def test_a_number_in_brackets_makes_a_copy_and_one_behind_a_dash_another_student():
    files = ("team.ipynb", "team-1.ipynb", "ann.ipynb", "Ann (1).ipynb", "bob (1).ipynb")
    names = unambiguous_names([parse_submission_name(file, is_folder=False) for file in files])
    assert {student: name for student, name in names.items() if student != name} == {"Ann (1)": "ann"}


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("ml-week1_submissions_2026_11_30_T_14_30_45", ".classroom50.yml"),
        ("ml-week1_submissions_2026_11_30_T_14_30_45", ".gitignore"),
        ("cloned", ".classroom50.yml"),
    ],
)
def test_repositories_of_classroom_50_are_students(tmp_path, folder, file):
    for student in ("ada-l", "octocat"):
        repository = tmp_path / folder / f"ml-week1-{student}"
        (repository / ".github").mkdir(parents=True)
        (repository / file).write_text('classroom_id: "ml"\n')
        (repository / "result.json").write_text("{}")
        (repository / "01_exercises.ipynb").write_text("{}")
    (tmp_path / folder / "scores.csv").write_text("username,score\n")
    found = find_submissions(tmp_path / folder)
    assert [each.student for each in found] == ["ada-l", "octocat"]
    assert [[file.name for file in each.files] for each in found] == [["01_exercises.ipynb"]] * 2
    assert not any(each.unread or each.remarks for each in found) and survey(tmp_path / folder, found) == []


def test_folders_that_only_begin_alike_keep_their_names(tmp_path):
    for name in ("ml-week1-ada", "ml-week1-bob"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "01_exercises.ipynb").write_text("{}")
    assert [each.student for each in find_submissions(tmp_path)] == ["ml-week1-ada", "ml-week1-bob"]
