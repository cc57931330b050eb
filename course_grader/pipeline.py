"""Grade a whole class: turn its submissions into grades, feedback and a report."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path

import course_lib
from course_lib.atomic_file import write_text
from course_lib.exercises import individual_exercises, written_exercises
from course_lib.wording import first_of

from .decisions import decided, read_decisions, read_extensions, write_decisions
from .grading import GradingPolicy, GradingTask
from .identical_submissions import Alike
from .manifest import Release
from .marks import StudentResult, file_stem
from .reports import (
    FEEDBACK_FOLDER,
    class_report,
    feedback_page,
    look_through,
    number,
    page_path,
    read_roster,
    sheet_for,
    shown_names,
    write_gradebook,
)
from .scheduler import grade_all
from .secret import kept_secret
from .submissions import (
    Guesses,
    Submission,
    SubmittedNotebook,
    Unreadable,
    find_submissions,
    read_notebook,
    survey,
)
from .worker_config import WorkerConfig

DECISIONS, UPLOAD, MAX_NAMES = "decisions.csv", "feedback_upload.zip", 20  # names in one sentence
LOOK_THROUGH, MOST_CODE = "look_through.html", 8000  # characters of one answer
READING_SECONDS = 10.0  # of processor time for all files of one student


def grade_release(
    submissions: Path,
    release: Release,
    out: Path,
    policy: GradingPolicy,
    config: WorkerConfig,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    roster: Path | None = None,
    extensions: Path | None = None,
    again: Collection[str] | None = None,
    begin: Callable[[int], Callable[[], object]] = lambda total: lambda: None,
    say: Callable[[str], object] = print,
) -> list[StudentResult]:
    """Grade what a class submitted for a release and write all results.

    Submissions that were graded earlier, from the same files with the same policy, limits and code of the course, are
    not graded again, so a run can be stopped at any time. What grading itself failed at is tried again.

    Args:
        submissions: A folder with a folder or notebook per student.
        release, policy: What is graded, and how late submissions are.
        out: Gets results/, feedback/, grades.csv, exercises.csv, report.html and, where a teacher has to decide,
            decisions.csv. It must not lie in the submissions.
        config, scheduler, workers: As in `grade_all`.
        roster: The export of a gradebook, whose rows grades.csv then has.
        extensions: A table of due times of single students, as for `read_extensions`.
        again: The students to grade again; empty for all of them, None for nobody.
        begin: Called with the number of students; what it returns is called after each student.
        say: Called with each sentence for the teacher.

    Returns:
        The results in the order of the students' names.

    Raises:
        ValueError: There are no submissions, a table cannot be read, a student in one or in `again` is unknown, `out`
            lies in the submissions, or students' code cannot be isolated here.
        ConnectionError: The scheduler cannot be reached.
    """
    handed_in = _checked(submissions, release, out, roster, again)
    due_of = read_extensions(extensions, [submission.student for submission in handed_in]) if extensions else {}
    notes = survey(submissions, handed_in)
    for note in notes:
        say(note)
    advance = begin(len(handed_in))
    store = ResultStore(out)
    results: dict[str, StudentResult] = {}
    alike, names = Alike(), [exercise.name for exercise in release.exercises]
    strangers: list[str] = []  # a sentence on each hand-in with an own sheet that is nobody's on the roster
    codes: dict[tuple[str, str], str] = {}  # (student, exercise) -> what was handed in last
    guesses: list[Guesses] = []  # that students share

    def keep(result: StudentResult) -> None:
        results[result.student] = result
        advance()

    def tasks() -> Iterator[GradingTask]:
        for submission in handed_in:
            task = prepare_task(submission, release, policy, config, store.secret(), due_of.get(submission.student))
            codes.update(_codes(task, names))
            guesses.append(_guesses(task))
            strangers.extend(_whose_sheet(task, release))
            alike.add(task.student, [file.notebook for file in task.notebooks if file.notebook], names)
            repeat = again is not None and (not again or task.student in again)
            stored = None if repeat else store.read(task.student, task.digest)
            if stored is None:
                yield task
            else:
                keep(stored)

    for result in grade_all(tasks(), config, scheduler=scheduler, workers=workers, say=say):
        if not result.provisional:
            store.write(result)
        keep(result)
    same = alike.flags()
    for student in same:
        results[student] = replace(results[student], flags=(*results[student].flags, same[student]))
    replies = {each.student: each.reply for each in handed_in if each.reply}
    for sentence in strangers:
        say(sentence)
    notes = [*notes, *strangers]
    ordered = [results[each.student] for each in handed_in]
    return _write_all(ordered, release, out, roster, replies, notes, codes, guesses, say)


def _whose_sheet(task: GradingTask, release: Release) -> Iterator[str]:
    """Yield a sentence if nobody on the roster has the name of a hand-in with a sheet of somebody's own."""
    claimed = {file.notebook.stamp.get("sheet") for file in task.notebooks if file.notebook} - {None}
    if task.sheet is None and claimed:
        owners = [sheet.student for sheet in release.sheets if str(sheet.number) in claimed]
        whose = f"the sheet is {owners[0]}'s" if owners else "the sheet is nobody's either"
        name = task.student[:60]
        yield f'"{name}" is nobody on the roster that the sheets were made from; {whose}: rename what was handed in.'


def _known(results: Sequence[StudentResult], release: Release) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((student, exercise), a sentence) on each answer in words and each wrong one to a question of one's own."""
    asked = [written_exercises()[each.name] for each in release.exercises if each.name in written_exercises()]
    for result, exercise in product(results, asked):
        yield (result.student, exercise.name), f"A good answer says: {'; '.join(exercise.look_for)}."
    for result in results if release.is_individual else ():
        sheet = sheet_for(result.student, release.sheets)
        wrong = {mark.verdict.name for mark in result.marks if not mark.verdict.passed} if sheet else set()
        for lesson in {mark.verdict.lesson for mark in result.marks if mark.verdict.name in wrong} - {None}:
            for exercise in individual_exercises(str(lesson), sheet.number if sheet else 0):
                if exercise.name in wrong:
                    yield (result.student, exercise.name), f"The right answer on this sheet: `{exercise.solution()!r}`"


def _codes(task: GradingTask, names: Sequence[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((student, exercise), the last cell that answers it, as the student wrote it)."""
    cells = [cell for file in task.notebooks if file.notebook for cell in file.notebook.cells]
    for name in names:
        if sources := [cell.source for cell in cells if name in (cell.exercise, *cell.defines)]:
            yield (task.student, name), sources[-1][:MOST_CODE]


def _guesses(task: GradingTask) -> Guesses:
    """Return the guesses that a student shares: for each lesson what the last sheet says that asks for them."""
    in_time = sorted(task.notebooks, key=lambda file: file.submitted_at)
    return {lesson: said for file in in_time if file.notebook for lesson, said in file.notebook.guesses.items()}


def _checked(
    submissions: Path, release: Release, out: Path, roster: Path | None, again: Collection[str] | None
) -> list[Submission]:
    """Find the submissions, and any mistake of the teacher's before hours of grading."""
    if out.resolve().is_relative_to(submissions.resolve()):
        raise ValueError(f"out is {out}, which lies in the folder of submissions: results there would be handed in.")
    handed_in = find_submissions(submissions)
    if unknown := sorted(set(again or ()) - {submission.student for submission in handed_in}):
        raise ValueError(f"Nobody named {unknown[0]!r} handed in anything: take names from exercises.csv.")
    if roster is not None:
        read_roster(roster, release.name)
    read_decisions(out / DECISIONS, release, [submission.student for submission in handed_in])
    return handed_in


def _write_all(
    results: list[StudentResult],
    release: Release,
    out: Path,
    roster: Path | None,
    replies: Mapping[str, str],
    notes: Sequence[str],
    codes: Mapping[tuple[str, str], str],
    guesses: Sequence[Guesses],
    say: Callable[[str], object],
) -> list[StudentResult]:
    """Write tables and pages of the results with the teacher's decisions; remove pages of students who are gone."""
    decisions = read_decisions(out / DECISIONS, release, [result.student for result in results])
    ordered = [decided(result, decisions) for result in results]
    outlived = write_decisions(out / DECISIONS, decisions, ordered)
    names = shown_names(ordered, read_roster(roster, release.name) if roster else None)
    pages = {
        out / page_path(result.student): feedback_page(result, release, names[result.student]) for result in ordered
    }
    (out / FEEDBACK_FOLDER).mkdir(parents=True, exist_ok=True)
    for path, page in pages.items():
        write_text(path, page, mode=0o644)
    _write_upload(out / UPLOAD, {f"{replies[student]}.html": pages[out / page_path(student)] for student in replies})
    for path in (out / FEEDBACK_FOLDER).glob("*-" + "[0-9a-f]" * 16 + ".html"):
        if path not in pages:  # of a student who is gone
            path.unlink()
    sentences = [*write_gradebook(ordered, release, out, roster), *outlived, *_open_questions(ordered, replies, out)]
    write_text(out / "report.html", class_report(ordered, release, names, [*notes, *sentences], guesses), mode=0o644)
    final = {
        key: (number(decision.points), decision.comment)
        for key, decision in decisions.items()
        if decision.points is not None
    }
    write_text(
        out / LOOK_THROUGH,
        look_through(ordered, release, names, codes, dict(_known(ordered, release)), final),
        mode=0o644,
    )
    for sentence in sentences:
        say(sentence)
    return ordered


def _write_upload(path: Path, pages: Mapping[str, str]) -> None:
    """Write the zip of all pages that Moodle or Canvas takes back, with the names that they know students by."""
    path.unlink(missing_ok=True)
    if pages:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, page in pages.items():
                archive.writestr(name, page)


def _open_questions(results: list[StudentResult], replies: Mapping[str, str], out: Path) -> list[str]:
    """Say which results are not final, whose pages the platform can't take, and who is not graded any more."""
    failed = sum(result.provisional for result in results)
    to_decide = sum(bool(result.needs_review) and not result.provisional for result in results)
    sentences = []
    if failed:
        sentences.append(f"{failed} could not be graded because a sandbox or a worker failed: run the command again.")
    if to_decide:
        path = out / DECISIONS
        sentences.append(f"{to_decide} have no grade yet: write the points into {path} and run the command again.")
    known = {result.student for result in results}
    groups = {
        "Handed in nothing that can be read, so 0 points, which are not in the mean and the median": {
            result.student for result in results if result.unreadable
        },
        f"Without a page in {UPLOAD}, because no platform named their files": known - set(replies) if replies else (),
        "Graded in an earlier run, and now not among those who handed in, so in no table (results/ still has them)": (
            ResultStore(out).students() - known
        ),
    }
    return sentences + [f"{what}: {first_of(sorted(who), MAX_NAMES, len(who))}." for what, who in groups.items() if who]


def prepare_task(
    submission: Submission,
    release: Release,
    policy: GradingPolicy,
    config: WorkerConfig,
    secret: bytes,
    personal_due: float | None = None,
) -> GradingTask:
    """Read a student's files; for a file that cannot be read, keep the reason.

    A due time of the student's own counts instead of the class's, and of what Canvas marked.
    """
    sheet = sheet_for(submission.student, release.sheets)
    number, release = sheet.number if sheet else None, replace(release, sheets=())  # the others' are not for workers
    if personal_due is not None:
        policy = replace(policy, due=personal_due)
    notebooks, checksums = [], []
    begun = time.thread_time()
    for file in submission.files:
        try:
            if time.thread_time() - begun > READING_SECONDS:
                raise Unreadable("It was not read, because reading the other files took too long: hand in fewer.")
            content = file.read()
            checksums.append(hashlib.sha256(content).hexdigest())
            notebook, reason = read_notebook(content), ""
        except Unreadable as error:
            notebook, reason = None, str(error)
        notebooks.append(
            SubmittedNotebook(file.name, file.submitted_at, file.marked_late and personal_due is None, notebook, reason)
        )
    about = [(each.name, each.submitted_at, each.marked_late, each.reason) for each in notebooks]
    identity = [submission.student, submission.remarks, submission.unread, about, checksums, release.as_dict()]
    identity += [number, asdict(policy), asdict(config.limits), config.image, config.unsafe]
    identity += [config.course, course_checksum()]
    return GradingTask(
        submission.student,
        tuple(notebooks),
        submission.remarks,
        release,
        policy,
        secret,
        hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        submission.unread,
        number,
    )


@cache
def course_checksum() -> str:
    """Return a checksum of the code and data that give marks; in a clone it changes while the version stays."""
    folders = [Path(course_lib.__file__).parent, Path(__file__).parent]
    files = sorted(path for folder in folders for kind in ("*.py", "*.toml") for path in folder.rglob(kind))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


class ResultStore:
    """The results of one release on disk: one file per student, so that a run can stop and continue.

    They are stored in a folder `results`, which also holds the secret from which this run's inputs are drawn.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "results"
        self.folder.mkdir(parents=True, exist_ok=True)

    def secret(self) -> bytes:
        """Return the secret of this run; it is made once, so that a continued run draws the same inputs."""
        return kept_secret(self.folder / "secret.txt")

    def write(self, result: StudentResult) -> None:
        text = json.dumps(result.as_dict(), indent=1, ensure_ascii=False) + "\n"
        write_text(self._path(result.student), text, mode=0o644)

    def read(self, student: str, digest: str) -> StudentResult | None:
        """Read the stored result of a student; None if there is none, it is of other files, or it is damaged."""
        try:
            result = StudentResult.from_dict(json.loads(self._path(student).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return result if result.digest == digest and result.student == student else None

    def students(self) -> set[str]:
        """Return the names of all students who have a result."""
        names = set()
        for path in self.folder.glob("*.json"):
            with suppress(OSError, ValueError, TypeError, KeyError):
                names.add(str(json.loads(path.read_text(encoding="utf-8"))["student"]))
        return names

    def _path(self, student: str) -> Path:
        return self.folder / f"{file_stem(student)}.json"
