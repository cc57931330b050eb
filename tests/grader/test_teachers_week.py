"""What a teacher meets in a week: empty sheets, extensions, helpers that are wrong, copies, and the way back."""

import csv
import inspect
import json
import os
import re
import zipfile
from dataclasses import replace

import pytest

from course_grader import (
    GradingPolicy,
    Mark,
    Release,
    StudentResult,
    WorkerConfig,
    grade_release,
    pipeline,
    released_exercises,
)
from course_grader.decisions import Decision, decided, parse_due, read_decisions, read_extensions, write_decisions
from course_grader.grading import GradingTask, grade_student
from course_grader.manifest import read_manifest
from course_grader.marks import IN_PART, MISSING, UNREADABLE
from course_grader.reports import class_report, feedback_page
from course_grader.reports.csv_table import read_table
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import SubmittedNotebook, read_notebook
from course_lib.command import main
from course_lib.exercises import EXERCISES, NEEDS_REVIEW, NOT_PASSED, NOT_WRITTEN, PASSED, not_passed, passed
from tests.grader.synthetic_class import POINTS, RELEASE, RELEASED, RIGHT, notebook

pytestmark = pytest.mark.xdist_group("sandbox")
DOTS = {name: f"{code.splitlines()[0]}\n    ..." for name, code in RIGHT.items()}
STUBS = {name: f"{code.splitlines()[0]}\n    raise NotImplementedError" for name, code in RIGHT.items()}
DUE = 1e9
HALF, NO_LIMIT = GradingPolicy(DUE, 0.5), GradingPolicy()
TOTAL = sum(POINTS.values())


@pytest.fixture(scope="module")
def grade(isolation):
    limits = ResourceLimits(cell=3, answer=3, notebook=30)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:

        def grade(*sheets, release=RELEASE, policy=NO_LIMIT, remarks=(), **more):
            return grade_student(GradingTask("ada", sheets, remarks, release, policy, **more), sandbox, exposed)

        yield grade


def sheet(name, *sources, at=0.0):
    return SubmittedNotebook(name, at, False, read_notebook(notebook("import torch", *sources).encode()))


def verdicts(result):
    return {mark.verdict.name: mark.verdict for mark in result.marks}


# Which sheet counts


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("written_at", "blank_at", "points", "late"),
    [(DUE - 9, DUE - 5, TOTAL, False), (DUE + 9, DUE - 5, TOTAL / 2, True), (DUE - 9, DUE + 5, TOTAL, False)],
    ids=["the sheet was downloaded again", "in time it was empty", "an empty one came late"],
)
@pytest.mark.parametrize("blank", [STUBS, dict.fromkeys(STUBS, ""), DOTS], ids=["stubs", "empty cells", "dots"])
def test_an_empty_sheet_takes_no_point(grade, written_at, blank_at, points, late, blank):
    cells = [
        {"cell_type": "code", "source": source, "metadata": {"nbgrader": {"grade_id": name, "solution": True}}}
        for name, source in blank.items()
    ]
    empty = read_notebook(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode())
    result = grade(
        sheet("04_exercises.ipynb", *RIGHT.values(), at=written_at),
        SubmittedNotebook("04_exercises (1).ipynb", blank_at, False, empty),
        policy=HALF,
    )
    assert (result.points, result.late) == (points, late)
    assert any("04_exercises (1).ipynb is not written yet in `" in remark for remark in result.remarks) == (
        blank_at < DUE
    )


def test_a_class_of_dots_is_not_written_and_takes_no_point(grade):
    exercise = EXERCISES["CachedAttention"]
    nn, release = "from torch import nn", Release("week", "1", "0", released_exercises(["06"]))
    stub = sheet("06_exercises-2.ipynb", nn, exercise.stub, at=9.0)
    assert verdicts(grade(stub, release=release))["CachedAttention"].state == NOT_WRITTEN
    written = sheet("06_exercises.ipynb", nn, inspect.getsource(exercise.solution))
    assert verdicts(grade(written, stub, release=release))["CachedAttention"].passed


@pytest.mark.slow
def test_two_empty_sheets_are_not_written(grade):
    result = grade(*(sheet(f"04_exercises ({at}).ipynb", *STUBS.values(), at=at) for at in (1, 2)))
    assert {verdict.state for verdict in verdicts(result).values()} == {NOT_WRITTEN}


@pytest.mark.slow
def test_each_exercise_comes_from_the_sheet_in_which_it_is_written(grade):
    names = list(RIGHT)
    first = [RIGHT[name] if name == names[0] else STUBS[name] for name in names]
    second = [STUBS[name] if name == names[0] else RIGHT[name] for name in names]
    result = grade(sheet("04_exercises.ipynb", *first, at=1), sheet("04_exercises-1.ipynb", *second, at=2))
    assert result.points == TOTAL


@pytest.mark.slow
def test_what_is_not_handed_in_is_a_state_of_its_own(grade):
    release = Release("week", "1", "0", (*RELEASED, *released_exercises(["05"])))
    some, nothing = grade(sheet("04_exercises.ipynb", *RIGHT.values()), release=release), grade(release=release)
    others = {name for name, verdict in verdicts(some).items() if verdict.state == MISSING}
    assert others == {exercise.name for exercise in released_exercises(["05"])} and some.flags == ()
    assert {verdict.state for verdict in verdicts(nothing).values()} == {MISSING}
    page, report = feedback_page(some, release), class_report([some, nothing], release)
    assert f"– </span> {MISSING}".replace(" </", "</") in page and "Not handed in</th>" in report
    assert "Wrong answers without a name" not in report


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    ("change", "points"),
    [
        (lambda right, stub: [right, stub], 1),
        (lambda right, stub: [f"{right}\n\n\n@torch.no_grad()\n{stub}\n\nx = 1"], 1),
        (lambda right, stub: [stub, right], 1),
        (lambda right, stub: [right, f"{stub}  # your code goes here", stub], 1),
        (lambda right, stub: [right, stub.replace("    raise", "    x = 1\n    raise")], 0),  # the student's own
        (lambda right, stub: [right, right.replace("return", "return 2 *")], 0),
        (lambda right, stub: [stub, stub], 0),
    ],
)
def test_an_answer_above_the_stub_counts(grade, change, points):
    cells = change(RIGHT["merge_heads"], STUBS["merge_heads"])
    result = grade(sheet("04_exercises.ipynb", *cells))
    assert result.points == points * POINTS["merge_heads"], verdicts(result)["merge_heads"]
    unwritten = verdicts(result)["merge_heads"].message == "This isn't written yet, or not to its end."
    assert unwritten == ("NotImplementedError" in cells[-1] and not points)


def test_a_class_of_which_nothing_can_be_read_has_no_part_in_the_mean(grade):
    broken = SubmittedNotebook("04_exercises.ipynb", 0.0, False, None, "It is empty.")
    results = [
        grade(sheet("04_exercises.ipynb", *RIGHT.values())),
        replace(grade(broken), student="bob"),
        replace(grade(remarks=("x.zip can't be read.",)), student="cy"),
    ]
    assert [result.unreadable for result in results] == [False, True, True]
    assert {verdict.state for result in results[1:] for verdict in verdicts(result).values()} == {UNREADABLE}
    report = class_report(results, RELEASE)
    assert "<dt>Handed in</dt><dd>1</dd>" in report and f"<dt>Mean</dt><dd>{TOTAL} of {TOTAL} points" in report
    assert "<dt>Nothing readable</dt><dd>2, not in the mean and the median</dd>" in report
    assert not decided(results[1], {("bob", "merge_heads"): Decision(1)}).unreadable


def test_what_is_not_read_is_told_and_asks_for_no_look(grade):
    result = grade(sheet("04_exercises.ipynb", *RIGHT.values()), unread=("essay.pdf", "b.py"))
    assert result.remarks == ("Not read, because only notebooks (.ipynb) are: essay.pdf, b.py.",)
    assert result.flags == ()


# What fails only because of something else

HEAD = released_exercises(["01"])
WRONG_SOFTMAX = "def softmax_rows(scores):\n    return scores.softmax(0)"
SCALED = "def scaled_scores(queries, keys):\n    return queries @ keys.T / keys.shape[-1] ** 0.5"
ATTENTION = (
    "def attention(queries, keys, values):\n    return softmax_rows(queries @ keys.T / keys.shape[-1] ** 0.5) @ values"
)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("helper", "code", "caused"),
    [
        (WRONG_SOFTMAX, ATTENTION, ("softmax_rows",)),
        ("def softmax_rows(scores):\n    raise NotImplementedError", ATTENTION, ("softmax_rows",)),
        (WRONG_SOFTMAX, ATTENTION.replace("@ values", "@ values * 2"), ()),  # wrong by itself, too
        (WRONG_SOFTMAX, ATTENTION.replace("softmax_rows(", "torch.softmax(dim=0, input="), ()),  # calls no helper
        ("def softmax_rows(scores):\n    import os\n    os._exit(0)", ATTENTION, ("softmax_rows",)),
    ],
    ids=["wrong", "not written", "both", "alone", "ends Python"],
)
def test_an_answer_that_only_calls_a_wrong_one(grade, helper, code, caused):
    release = Release("week", "1", "0", HEAD)
    result = grade(sheet("01_exercises.ipynb", helper, code), release=release)
    marks = {mark.verdict.name: mark for mark in result.marks}
    assert marks["attention"].caused_by == caused and marks["attention"].points == 0
    assert not any(mark.caused_by for name, mark in marks.items() if name != "attention")
    assert StudentResult.from_dict(json.loads(json.dumps(result.as_dict()))) == result
    page, report = feedback_page(result, release), class_report([result], release)
    assert ("With the course's own <code>softmax_rows</code> in place of yours, this passes" in page) == bool(caused)
    assert ("1 by <code>softmax_rows</code>" in report) == bool(caused)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("body", "said", "evidence"),
    [
        ("import os; os._exit(0)", "it ended Python", "`os._exit` and the like end Python"),
        ("\n    while True: pass", "it had not finished after 3 seconds", "A loop that never ends, one that keeps"),
        ("import ctypes; ctypes.string_at(0)", "it crashed Python", "Memory that has run out"),
    ],
)
def test_the_end_of_a_process_leads_on(grade, body, said, evidence):
    result = grade(sheet("04_exercises.ipynb", f"def merge_heads(x): {body}"))
    verdict = verdicts(result)["merge_heads"]
    assert said in verdict.message and verdict.evidence[0].startswith(evidence)
    assert "each name on this line" not in verdict.hint


@pytest.mark.slow
@pytest.mark.parametrize("decorator", ["@torch.compile", "@torch.compile(fullgraph=True)"])
def test_compiling_costs_no_point(grade, decorator):
    code = f"{decorator}\n{RIGHT['merge_heads']}"
    assert verdicts(grade(sheet("04_exercises.ipynb", code)))["merge_heads"].state == PASSED


def test_no_page_says_where_objects_lie(grade):
    odd = (
        "class K: pass\nraise ValueError(K())",
        "def strides_by_head(t, h, d):\n    return K(), {'a': [K()]}, print, max",
        "def merge_heads(x):\n    return {}[K()]",
    )
    page = feedback_page(grade(sheet("04_exercises.ipynb", *odd)), RELEASE)
    assert page.count("K object&gt;") >= 3 and not re.search("object at|0x|course_grader", page)


# What is alike


def solutions(count, change=lambda source: source):
    exercises = [exercise for exercise in EXERCISES.values() if exercise.lesson == "04"][:count]
    return [change(inspect.getsource(exercise.solution)) for exercise in exercises]


COPIED = "word for word the solutions of the course"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("sources", "flagged"),
    [
        (solutions(9), True),
        (solutions(9, lambda source: "# mine\n" + source.replace("\n", "  # yes\n", 1)), True),
        (["### BEGIN SOLUTION\n" + solutions(1)[0]], True),
        (solutions(2), False),  # two people write the same line
        ([*RIGHT.values()], False),
        ([*solutions(9), RIGHT["merge_heads"]], False),
    ],
    ids=["verbatim", "with comments", "a marker", "few", "their own", "one is their own"],
)
def test_solutions_are_shown_and_never_scored(grade, sources, flagged):
    release = Release("week4", "1", "0", released_exercises(["04"]))
    result = grade(sheet("04_exercises.ipynb", *sources), release=release)
    assert (COPIED in result.flags) == flagged and result.points > 0
    assert COPIED not in feedback_page(result, release) and (COPIED in class_report([result], release)) == flagged


# The command


@pytest.fixture
def class_(tmp_path):
    (tmp_path / "week4").mkdir()
    (tmp_path / "week4" / "release.json").write_text(json.dumps(RELEASE.as_dict()))
    (tmp_path / "handed_in").mkdir()
    return tmp_path


def give(folder, name, *sources, at=DUE):
    path = folder / "handed_in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(notebook("import torch", *sources), encoding="utf-8")
    os.utime(path, (at, at))


@pytest.fixture
def graded(monkeypatch, class_):
    """A function that grades without a sandbox, all wrong; gives the results and what was said. Tasks are kept."""
    tasks, said = [], []

    def one(task, config):
        tasks.append(task)
        marks = tuple(Mark(not_passed("Wrong.").of(x.name, x.lesson), x.title, 0, x.points) for x in RELEASED)
        at = [str(sheet.submitted_at) for sheet in task.notebooks]
        return StudentResult(task.student, marks, submitted_at=max(at, default=None), digest=task.digest)

    def run(**options):
        tasks.clear()
        said.clear()
        config = WorkerConfig(ResourceLimits())
        return grade_release(class_ / "handed_in", RELEASE, class_ / "out", HALF, config, say=said.append, **options)

    monkeypatch.setattr(pipeline, "grade_all", lambda given, config, **_: (one(task, config) for task in given))
    run.tasks, run.said = tasks, said
    return run


@pytest.mark.slow
def test_a_mark_without_a_hand_in_needs_an_empty_folder(class_, graded):
    give(class_, "ada.ipynb")
    graded()
    (class_ / "out" / "decisions.csv").write_text("student,exercise,points,comment\nbob,merge_heads,1,An oral.\n")
    with pytest.raises(ValueError, match="make an empty folder of that name among those handed in"):
        graded()
    (class_ / "handed_in" / "bob").mkdir()
    assert {result.student: result.points for result in graded()} == {"ada": 0, "bob": 1}


@pytest.mark.slow
def test_equal_hand_ins_are_shown_to_the_teacher_only(class_, graded):
    for name in ("ada", "bob", "cy"):
        give(class_, f"{name}.ipynb", *RIGHT.values(), *(["x = 1"] if name == "cy" else []))
    give(class_, "dan.ipynb", *STUBS.values())
    give(class_, "eve.ipynb", *STUBS.values())
    give(class_, "fay.ipynb", RIGHT["merge_heads"])
    give(class_, "gil.ipynb", RIGHT["merge_heads"], "y = 1")
    for _ in range(2):  # from the store, too
        flags = {result.student: result.flags for result in graded()}
        assert flags["ada"] == ("the same hand-in as bob, cy",) and flags["cy"] == ("the same hand-in as ada, bob",)
        assert not any(flags[student] for student in ("dan", "eve", "fay", "gil"))
    assert "the same hand-in" in (class_ / "out" / "report.html").read_text()
    assert not any("the same hand-in" in page.read_text() for page in (class_ / "out" / "feedback").iterdir())


MOODLE = "Jane Doe_1234567_assignsubmission_file"


def test_extensions_and_waivers(class_, graded):
    for name in ("ada.ipynb", f"{MOODLE}/04.ipynb", "roejim_LATE_777_888_04.ipynb", "bob.ipynb"):
        give(class_, name, *RIGHT.values(), at=DUE + 99)
    table = class_ / "extensions.csv"
    table.write_text("student;due;comment\nada;2001-09-20;ill\nJane Doe;None\nroejim_777;2001-09-20T18:00+01:00\n")
    graded(extensions=table)
    rules = {task.student: (task.policy.due, task.notebooks[0].marked_late) for task in graded.tasks}
    assert rules["bob"] == (DUE, False) and rules[MOODLE] == (float("inf"), False)
    assert rules["roejim_777"] == (parse_due("2001-09-20T18:00+01:00", ""), False)
    assert rules["ada"] == (parse_due("2001-09-20", ""), False)
    table.write_text("student,due\nada,2001-09-21\n")
    graded(extensions=table)
    assert {task.student for task in graded.tasks} == {"ada", MOODLE, "roejim_777"}  # whose rule changed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("student,due\nnobody,none\n", "has a row for 'nobody', but nobody of that name handed in anything"),
        ("student,due\nada,soon\n", "own.csv: 'ada' is 'soon', which is not a time: write 2026-11-20,"),
        ("name,date\nada,none\n", "own.csv has the header name,date: it has to be student,due."),
        ("", "own.csv is empty. Its header has to be student,due."),
        ("student,due\nada,none\nAda,2026-11-20\n", "has 2 rows for ada: remove all but the one that counts"),
        ("student,due\nada,none,ill\n", "has more cells in the row of 'ada' than in its header: put a text with ','"),
    ],
)
def test_extensions_that_cannot_be_used(tmp_path, text, said):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(ValueError) as error:
        read_extensions(tmp_path / "own.csv", ["ada"])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("ada,merge_heads,1,See me.\nADA,merge_heads,0,\n", "has 2 rows for ada and merge_heads: remove all but"),
        (
            "ada,merge_heads,1,Right idea, wrong axis.\n",
            "more cells in the row of 'ada' than in its header: put a text",
        ),
        ("ada,merge_heads,1,See me.,,\nada,split_heads,1,\n", None),  # as spreadsheets fill a row up
    ],
)
def test_rows_of_decisions(tmp_path, rows, said):
    path = tmp_path / "decisions.csv"
    path.write_text(f"student,exercise,points,comment\n{rows}")
    if said:
        with pytest.raises(ValueError) as error:
            read_decisions(path, RELEASE, ["ada"])
        assert said in str(error.value)
    else:
        assert len(read_decisions(path, RELEASE, ["ada"])) == 2


def test_a_decision_on_an_earlier_hand_in_is_named(class_, graded):
    give(class_, "ada.ipynb", at=DUE)
    graded()
    path = class_ / "out" / "decisions.csv"
    path.write_text("student,exercise,points,comment\nada,merge_heads,1,\n")
    hint = "What ada handed in is of another time than when you decided on merge_heads"
    for at, told in ((DUE, False), (DUE + 9, True), (DUE + 9, True)):  # until the teacher has looked
        give(class_, "ada.ipynb", at=at)
        graded()
        assert any(hint in sentence for sentence in graded.said) == told
        assert (hint in (class_ / "out" / "report.html").read_text()) == told
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    path.write_text(f"student,exercise,points,comment\nada,merge_heads,{rows[0]['points']},\n")
    graded()
    assert not any(hint in sentence for sentence in graded.said)


def test_who_is_missing_is_named(class_, graded):
    for name in (f"{MOODLE}/04.ipynb", "ada.ipynb", "bob.ipynb"):
        give(class_, name)
    graded()
    assert "Without a page in feedback_upload.zip, because no platform named their files: ada, bob." in graded.said
    (class_ / "handed_in" / "bob.ipynb").unlink()
    for _ in range(2):
        graded()
        (said,) = [sentence for sentence in graded.said if "earlier run" in sentence]
        assert said.endswith("so in no table (results/ still has them): bob.")
        assert said in (class_ / "out" / "report.html").read_text()


def test_only_another_weeks_sheet(grade):
    other = "def scaled_scores(queries, keys):\n    return queries"
    only, both = (grade(*sheets) for sheets in ([sheet("01_exercises.ipynb", other)],
                  [sheet("01_exercises.ipynb", other), sheet("04_exercises.ipynb", *RIGHT.values())]))  # fmt: skip
    assert "No exercise of week4 is in 01_exercises.ipynb." in only.remarks and "01_exercises" in both.remarks[0]
    assert (only.flags, both.flags) == (("only other weeks' notebooks",), ())


@pytest.mark.parametrize(
    ("name", "known"),
    [("ada", True), ("Jane Doe", True), ("jane  doe", True), (MOODLE, True), ("Doe, Jane", False), ("Nobody", False)],
)
def test_a_decision_names_somebody(tmp_path, name, known):
    table = [["student", "exercise", "points", "comment"], [name, "merge_heads", "1", "See me."]]
    with open(tmp_path / "decisions.csv", "w", newline="") as file:
        csv.writer(file).writerows(table)
    if known:
        ((student, _),) = read_decisions(tmp_path / "decisions.csv", RELEASE, ["ada", MOODLE])
        assert student == (name if name == "ada" else MOODLE)
    else:
        with pytest.raises(ValueError, match=f"has a row for '{name}', but nobody of that name handed in anything"):
            read_decisions(tmp_path / "decisions.csv", RELEASE, ["ada", MOODLE])


@pytest.mark.parametrize(
    ("before", "points", "state", "kept"),
    [
        (not_passed("Tokens are mixed.", "mask-discarded", evidence=("Seen.",)), 1, IN_PART, True),
        (not_passed("Tokens are mixed.", "mask-discarded", evidence=("Seen.",)), 0, NOT_PASSED, True),
        (not_passed("Tokens are mixed.", "mask-discarded", evidence=("Seen.",)), 2, PASSED, False),
        (replace(not_passed("Odd."), state=NEEDS_REVIEW), 0, NOT_PASSED, True),
        (replace(not_passed("Empty."), state=NOT_WRITTEN), 0, NOT_WRITTEN, True),
        (passed("Right."), 1, IN_PART, True),
    ],
)
def test_a_decision_does_not_hide_what_the_check_found(tmp_path, before, points, state, kept):
    released = next(exercise for exercise in RELEASED if exercise.points == 2)
    (tmp_path / "decisions.csv").write_text(
        f"student,exercise,points,comment\nada,{released.name},{points},Half of it.\n"
    )
    mark = Mark(before.of(released.name, "04"), released.title, 0, 2)
    decisions = read_decisions(tmp_path / "decisions.csv", RELEASE, ["ada"])
    (after,) = decided(StudentResult("ada", (mark,)), decisions).marks
    assert (after.points, after.verdict.state, after.verdict.message) == (points, state, "Half of it.")
    assert (f"The check said: {before.message}" in after.verdict.evidence) == kept
    assert after.verdict.mistake == (before.mistake if kept else None)
    if state == IN_PART:
        page = feedback_page(StudentResult("ada", (after,)), RELEASE)
        assert "◐" in page and "passed in part, 1 of 2 points" in page.replace("</span>", "")
        assert "Passed in part</th>" in class_report([StudentResult("ada", (after,))], RELEASE)


def test_an_open_row_has_the_time_of_what_counts_now_and_a_decision_keeps_its_own(tmp_path):
    path, (first, second) = tmp_path / "decisions.csv", RELEASED[:2]
    odd = replace(not_passed("Odd."), state=NEEDS_REVIEW)
    marks = tuple(Mark(odd.of(one.name, "04"), one.title, 0, 2) for one in (first, second))
    before = {("ada", first.name): Decision(None, "", "Monday"), ("ada", second.name): Decision(1.0, "", "Monday")}
    said = write_decisions(path, before, [StudentResult("ada", marks, submitted_at="Tuesday")])
    times = {key[1]: one.handed_in for key, one in read_decisions(path, RELEASE, ["ada"]).items()}
    assert times == {first.name: "Tuesday", second.name: "Monday"}
    assert len(said) == 1 and second.name in said[0]


def test_commas_in_comments_do_not_make_a_table_one_of_commas(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("student;comment\nada;a, b, c and d\n", encoding="utf-8")
    assert read_table(path) == [["student", "comment"], ["ada", "a, b, c and d"]]


def test_pages_go_back_by_the_platform_and_bear_names(class_, graded):
    give(class_, f"{MOODLE}/04_exercises.ipynb", at=DUE)
    give(class_, "kowalskakatarzyna_500_901_04_exercises.ipynb", at=DUE + 999)
    give(class_, "ada.ipynb")
    roster = class_ / "roster.csv"
    roster.write_text('Student,ID,SIS Login ID,Section\n"Kowalska, Katarzyna",500,kk,A\n"Doe, Jane",7,jd,A\n')
    graded(roster=roster)
    with zipfile.ZipFile(class_ / "out" / "feedback_upload.zip") as archive:
        pages = {name: archive.read(name).decode() for name in archive.namelist()}
    assert sorted(pages) == [f"{MOODLE}/feedback.html", "kowalskakatarzyna_500_901_04_exercises.html"]
    titles = [page.split("<title>")[1].split("</title>")[0] for _, page in sorted(pages.items())]
    assert titles == ["week4: feedback for Doe, Jane", "week4: feedback for Kowalska, Katarzyna"]
    report = (class_ / "out" / "report.html").read_text()
    assert "<bdi>Kowalska, Katarzyna</bdi>" in report and "kowalskakatarzyna_500</bdi>" not in report
    (class_ / "handed_in" / "kowalskakatarzyna_500_901_04_exercises.ipynb").unlink()
    (class_ / "handed_in" / MOODLE / "04_exercises.ipynb").unlink()
    (class_ / "handed_in" / MOODLE).rmdir()
    graded()
    assert not (class_ / "out" / "feedback_upload.zip").exists()


def test_what_is_odd_about_the_class_is_said_and_reported(class_, graded):
    for name in ("ada", "bob", "cy"):
        give(class_, f"{name}.ipynb")
    (class_ / "handed_in" / "Ben.rar").touch()
    graded()
    report = (class_ / "out" / "report.html").read_text()
    for words in ("Not read, and so no student's: Ben.rar", "All files bear one time, 2001-09-09"):
        assert any(words in sentence for sentence in graded.said)
        assert words.replace("'", "&#39;") in report


def test_the_command_counts_one_student_in_the_singular(class_, isolation, capsys):
    give(class_, "ada.ipynb", *RIGHT.values())
    words = ["grade", str(class_ / "handed_in"), "--week", str(class_ / "week4"), "--out", str(class_ / "out")]
    assert main(words) == 0
    assert "\n1 student; 0 with something late" in capsys.readouterr().out


@pytest.mark.slow
def test_the_record_may_be_edited(class_, grade):
    """Fewer exercises, other points: what `release.json` says is graded."""
    path = class_ / "week4" / "release.json"
    record = json.loads(path.read_text())
    record["exercises"] = [each | {"points": 10} for each in record["exercises"] if each["name"] == "merge_heads"]
    path.write_text(json.dumps(record))
    result = grade(sheet("04_exercises.ipynb", *RIGHT.values()), release=read_manifest(path))
    assert [(mark.verdict.name, mark.points, mark.possible) for mark in result.marks] == [("merge_heads", 10, 10)]
