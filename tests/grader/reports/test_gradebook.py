"""The tables fit what Canvas and Moodle read, nobody gets another one's points, and no cell is a formula."""

import csv
import io
import os
import re

import pytest

from course_grader import Mark, Release, StudentResult
from course_grader.manifest import ReleasedExercise
from course_grader.reports import page_path, write_gradebook
from course_grader.reports.roster import identities
from course_lib.exercises import NEEDS_REVIEW, NOT_PASSED, Verdict, passed

RELEASE = Release(
    "week1",
    "0.1.0",
    "abc",
    (ReleasedExercise("first", "02", "The first", 1.5), ReleasedExercise("second", "04", "The second", 3)),
)
CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,week1 (777),week2 (778),Current Score
,,,,,Manual Posting,,
    Points Possible,,,,,4.5,9,(read only)
"Doe, Jane",101,u1,jdoe,A,,8,90
"Ångström, Zoë",102,u2,zoe@school.edu,B,EX,,
"Roe, Rick",103,u3,rroe,A,,,
"Doe, John",104,u4,johnd,A,2,,
"""
MOODLE = """First name,Last name,ID number,Email address,Last downloaded from this course
Jane,Doe,s-1,jane@school.edu,1790000000
Zoë,Ångström,s-2,zoe@school.edu,1790000000
,,,,
"""


def student(name, points=1.5, second=NOT_PASSED, **more):
    right, odd = passed("Right."), Verdict(second, "Odd.")
    marks = (Mark(right.of("first", "02"), "The first", points, 1.5), Mark(odd.of("second", "04"), "The second", 0, 3))
    return StudentResult(name, marks, **more)


@pytest.fixture
def write(tmp_path):
    """A function that writes the tables of some students; gives grades.csv as rows, and what was said."""

    def write(*names, roster=None, file="grades.csv"):
        given = None
        if roster is not None:
            given = tmp_path / "roster.csv"
            given.write_bytes(roster if isinstance(roster, bytes) else roster.encode())
        graded = [name if isinstance(name, StudentResult) else student(name) for name in names]
        said = write_gradebook(graded, RELEASE, tmp_path / "out", given)
        return read(tmp_path / "out" / file), said

    return write


def read(path):
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def accepts_canvas(header):
    """The rule of Canvas's importer: where it finds the students' columns, and Section as the last of them."""
    own = 3 + 2 * bool(re.search(r"SIS\s+User\s+ID", header[2]) and re.search(r"SIS\s+Login\s+ID", header[3]))
    return "Student" in header[0] and "ID" in header[1] and "Section" in header[own - 1] and header[own:]


def test_without_a_roster(write):
    rows, said = write("Jane Doe_1234567_assignsubmission_file", "doejane_12345", "Zoë", "Points Possible")
    assert accepts_canvas(rows[0]) == ["week1"]
    assert rows[1:] == [
        ["Jane Doe", "", "", "Jane Doe", "", "1.5"],
        ["doejane_12345", "12345", "", "doejane_12345", "", "1.5"],
        ["Zoë", "", "", "Zoë", "", "1.5"],
    ]
    assert said == [
        "grades.csv names students as their submissions do: give --roster, Canvas's or Moodle's own export.",
        '"Points Possible" is not in grades.csv: Canvas reads no student from such a row.',
    ]


def test_canvas_gets_its_own_rows_back(write):
    rows, said = write("jane  DOE", "doezoe_102", "U4", "Nobody", roster=CANVAS)
    assert accepts_canvas(rows[0]) == ["week1 (777)"]
    assert rows[1:] == [
        ["", "", "", "", "", "Manual Posting"],
        ["    Points Possible", "", "", "", "", "4.5"],
        ["Doe, Jane", "101", "u1", "jdoe", "A", "1.5"],
        ["Ångström, Zoë", "102", "u2", "zoe@school.edu", "B", "1.5"],
        ["Roe, Rick", "103", "u3", "rroe", "A", ""],
        ["Doe, John", "104", "u4", "johnd", "A", "1.5"],
    ]
    assert said == [
        "Not in the roster, so not in grades.csv: Nobody.",
        "Handed in nothing, and keep the cell that they have: Roe, Rick 103.",
    ]


def test_who_handed_in_nothing_keeps_what_canvas_has(write):
    rows, _ = write("jdoe", roster=CANVAS)
    assert [row[-1] for row in rows[3:]] == ["1.5", "EX", "", "2"]


def test_a_new_assignment_gets_its_points_possible(write):
    rows, _ = write("jdoe", roster=CANVAS.replace("week1 (777)", "week10 (777)"))
    assert rows[0][-1] == "week1" and [row[-1] for row in rows[1:]] == ["", "4.5", "1.5", "", "", ""]


def test_canvas_with_first_and_last_names_apart(write):
    roster = "LastName,FirstName,ID,Section,week1\n    Points Possible,,,,4.5\nDoe,Jane,101,A,\n"
    rows, _ = write("Jane Doe", roster=roster)
    assert rows[1:] == [["    Points Possible", "", "", "", "4.5"], ["Doe", "Jane", "101", "A", "1.5"]]


def test_moodle_gets_students_only(write):
    rows, said = write("Jane Doe_12_assignsubmission_file", "ZOE\u0308 A\u030aNGSTRO\u0308M", roster=MOODLE)
    assert rows == [
        ["First name", "Last name", "ID number", "Email address", "week1"],
        ["Jane", "Doe", "s-1", "jane@school.edu", "1.5"],
        ["Zoë", "Ångström", "s-2", "zoe@school.edu", "1.5"],
    ]
    assert said == []


@pytest.mark.parametrize("name", ["O'Malley", "O’Malley", "D`Or & <i>Sons</i>"])
def test_what_moodle_takes_out_of_a_folders_name_costs_nobody_the_mark(write, name):
    filed = re.sub(r"""[&<>"`|':\\/]""", "", name)
    rows, said = write(f"Mia {filed}_12_assignsubmission_file", roster=f"{MOODLE}Mia,{name},s-3,mia@school.edu,1\n")
    assert rows[-1] == ["Mia", name, "s-3", "mia@school.edu", "1.5"] and len(said) == 1


@pytest.mark.parametrize(
    "column", ["week1", "week1 (Real)", "Assignment: week1 (Real)", "Aufgabe: week1 (Punkte)", "Devoir : week1 (Brut)"]
)
def test_who_handed_in_nothing_keeps_what_moodle_has(write, column):
    roster = f"Vorname;Nachname;{column};week10\nNora;Null;7,50;1\nOle;Leer;-;1\nJane;Doe;0;1\n"
    rows, said = write("Jane Doe", roster=roster)
    assert rows == [["Vorname", "Nachname", column], ["Nora", "Null", "7,50"], ["Ole", "Leer", "-"],
                    ["Jane", "Doe", "1.5"]]  # fmt: skip
    assert said == ["Handed in nothing, and keep the cell that they have: Nora Null, Ole Leer."]


def test_moodles_worksheet_with_hidden_names_and_semicolons(write):
    rows, said = write("Participant_87_assignsubmission_file", roster="Identifier;Status\r\nParticipant 87;\r\n")
    assert (rows, said) == ([["Identifier", "week1"], ["Participant 87", "1.5"]], [])


@pytest.mark.parametrize("name", ["Jan Doe", "Jane", "Doe", "A", "10", "Jane Doe jr", "rick.roe", ""])
def test_nobody_is_matched_by_nearness(write, name):
    for roster in (CANVAS, MOODLE):
        rows, said = write(name, roster=roster)
        assert "1.5" not in [row[-1] for row in rows] and said[0].startswith("Not in the roster")


def test_two_rows_that_fit_get_nothing(write):
    rows, said = write("Jane Doe", roster=MOODLE + "Jane,Doe,s-9,other@school.edu,\n")
    assert [row[-1] for row in rows[1:]] == ["", "", ""]
    assert said[0] == '2 rows of the roster fit "Jane Doe": enter the points by hand.'
    assert said[1:] == ["Handed in nothing, and get an empty cell: Zoë Ångström."]


def test_two_submissions_that_fit_one_row_get_nothing(write):
    rows, said = write("jane@school.edu", "s-1", "s-2", roster=MOODLE)
    assert [row[-1] for row in rows[1:]] == ["", "1.5"]
    assert said == [
        '"jane@school.edu" is one of several that fit Jane Doe in the roster: enter the points by hand.',
        '"s-1" is one of several that fit Jane Doe in the roster: enter the points by hand.',
    ]


@pytest.mark.parametrize(
    "header",
    [
        "First name,Surname,ID number,Email address,Last downloaded",  # English, as it was for long
        "Vorname,Nachname,ID-Nummer,E-Mail-Adresse,Zuletzt aus diesem Kurs geladen",  # German
        "Prénom,Nom de famille,Numéro d'identification,Adresse de courriel,Dernier téléchargement",  # French
        "Prénom,Nom de famille,Numéro d’identification,Adresse de courriel,Dernier téléchargement",  # French, too
        "Nombre,Apellido(s),Número de ID,Dirección de correo,Última descarga",  # Spanish
        "Nome,Cognome,Codice identificativo,Indirizzo email,Scaricato",  # Italian
        "Voornaam,Achternaam,ID-nummer,E-mailadres,Laatst gedownload",  # Dutch
        "Nome,Apelido(s),Número de identificação,Endereço de e-mail,Descarregado",  # Portuguese
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_moodle_in_other_languages(write, header, separator, encoding):
    """Made after Moodle's language packs, as its grader export and spreadsheets write them; not tried live."""
    table = f"{header}\nJörg,Groß,s-1,joerg@school.edu,1790000000\nZoë,Ångström,s-2,zoe@school.edu,1790000000\n"
    names = ("Jörg Groß_1234567_assignsubmission_file", "s-2")
    rows, said = write(*names, roster=table.replace(",", separator).encode(encoding))
    assert rows == [[*header.split(",")[:4], "week1"], ["Jörg", "Groß", "s-1", "joerg@school.edu", "1.5"],
                    ["Zoë", "Ångström", "s-2", "zoe@school.edu", "1.5"]]  # fmt: skip
    assert said == []


@pytest.mark.parametrize(("points", "named"), [("4.5", None), ("4,50", None), ("9", "9"), ("", "no"), ("x", "x")])
def test_other_points_possible_in_canvas_are_said(write, points, named):
    table = CANVAS.replace(",4.5,9,", f',"{points}",9,')
    _, said = write("jdoe", roster=table)
    words = f"Canvas has {named} points possible for week1, and the release gives 4.5: change it in Canvas."
    assert (words in said) == (named is not None) == any("possible" in sentence for sentence in said)


def test_a_login_with_a_number_is_a_login_first(write):
    rows, _ = write("jane_101", roster="Student,ID,SIS Login ID,Section\nA,101,a,\nB,102,Jane_101,\n")
    assert [row[-1] for row in rows[1:]] == ["", "1.5"]


def test_a_long_list_of_names_is_cut(write):
    _, said = write(*(f"nobody {at}" for at in range(30)), roster=MOODLE)
    assert "nobody 19 and 10 more." in said[0] and "nobody 20" not in said[0]


@pytest.mark.parametrize(
    ("roster", "said"),
    [
        (
            b"Etunimi;Sukunimi\nJane;Doe\n",
            "no column of it names a student: its header is Etunimi,Sukunimi. Give Canvas's or Moodle's own export,",
        ),
        (b"Student,ID,Section\n", "no column of it names a student"),
        (b"", "which is empty: give Canvas's or Moodle's own export."),
        ("Name\nZoë\n".encode("utf-16")[2:], "which is not a CSV file (it has null bytes): give Canvas's"),
        (b"Student,week1,week1 (7)\nJane,,\n", "which has 2 columns of week1 (week1, week1 (7)): keep one."),
        (b"Name,T: week1 (Real),T: week1 (Letter)\nJ,,\n", "2 columns of week1 (T: week1 (Real), T: week1 (Letter))"),
        (b"Name,week1\nJane,1,2\n", "which has more cells in the row of 'Jane' than in its header"),
    ],
)
def test_a_roster_that_cannot_be_used(write, tmp_path, roster, said):
    with pytest.raises(ValueError, match=r"^roster is .*roster\.csv, ") as refused:
        write("Jane", roster=roster)
    assert said in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_no_roster_there(tmp_path):
    with pytest.raises(ValueError, match=r"gone\.csv, which isn't there: give Canvas's or Moodle's own export\."):
        write_gradebook([], RELEASE, tmp_path, tmp_path / "gone.csv")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "\r=1+1", " \n=1+1"])
def test_no_cell_is_a_formula(write, name):
    for file in ("grades.csv", "exercises.csv"):
        rows, _ = write(student(name, remarks=(name,), submitted_at=name), file=file)
        assert any(f"'{name.strip()}" in cell for cell in rows[1])
        assert not any(re.match(r"[=+\-@\t\r]", cell) for row in rows for cell in row)


def test_cells_stay_in_one_line_and_hide_nothing(write):
    rows, _ = write('a\nb,"c\u202e\udc80\x00')
    assert rows[1][0] == 'a b,"c\\u202e\\udc80\\u0000'


def test_all_details(write):
    remarks = ("Late.", "A cell was left out.")
    result = student("Zoë", second=NEEDS_REVIEW, late=True, submitted_at="2026-11-02T23:10:00", remarks=remarks)
    rows, _ = write(result, file="exercises.csv")
    assert rows == [
        ["student", "first", "second", "total", "late", "handed_in", "to_look_at", "remarks", "feedback"],
        ["Zoë", "1.5", "", "", "yes", result.submitted_at, "second", "Late. A cell was left out.",
         page_path("Zoë")],
    ]  # fmt: skip


def test_a_byte_order_mark_before_a_bare_header(write, tmp_path):
    write("Zoë")
    assert (tmp_path / "out" / "grades.csv").read_bytes().startswith(b"\xef\xbb\xbfStudent,ID,")  # a quote would fail


def test_whole_or_not_at_all(write, tmp_path, monkeypatch):
    write("before")
    whole = (tmp_path / "out" / "grades.csv").read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write("after")
    assert (tmp_path / "out" / "grades.csv").read_bytes() == whole
    assert sorted(os.listdir(tmp_path / "out")) == ["exercises.csv", "grades.csv"]


@pytest.mark.parametrize(
    ("student", "meant"),
    [
        ("Jane Doe_1234567_assignsubmission_file", ("Participant 1234567", "Jane Doe")),
        ("Participant_87_assignsubmission_file_", ("Participant 87",)),
        ("doejane_12345_67890_week1.ipynb", ("doejane_12345_67890_week1.ipynb", "12345")),
        ("doejane_LATE_12345_67890_", ("doejane_LATE_12345_67890_", "12345")),
        ("doejane_12345", ("doejane_12345", "12345")),
        ("o_brien_109", ("o_brien_109", "109")),
        ("Jane_Doe", ("Jane_Doe", "Jane Doe")),
        ("jane@school.edu", ("jane@school.edu",)),
        ("group_12_3", ("group_12_3", "group 12 3")),
    ],
)
def test_what_a_name_may_mean(student, meant):
    assert identities(student)[: len(meant)] == meant
    assert student in identities(student) and len(identities(student)) <= 3
