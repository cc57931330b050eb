"""A week of a class, from what was handed in to grades, feedback and a report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .grading import Handed, Work
from .handed_in.notebooks import read_notebook
from .handed_in.submissions import Submission, find_submissions
from .handed_in.unreadable import Unreadable
from .marks import Graded
from .papers.class_report import class_report
from .papers.feedback import feedback_page, page_name
from .papers.gradebook import write_gradebook
from .record import Record
from .spread import Setting, spread
from .store import Store, write_whole


@dataclass(frozen=True)
class Rules:
    """What a teacher decides.

    Attributes:
        due: unix time after which work is late, or None.
        late_factor: what points of late exercises are multiplied by, from 0 to 1.
    """

    due: float | None = None
    late_factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.late_factor <= 1:
            raise ValueError(f"late_factor is {self.late_factor}: take a number from 0 (no points) to 1 (all of them).")


def grade_week(
    submissions: Path,
    record: Record,
    out: Path,
    rules: Rules,
    setting: Setting,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    roster: Path | None = None,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
    say: Callable[[str], None] = print,
) -> list[Graded]:
    """Grade what was handed in and write everything that follows from it.

    What was graded before, of the same files by the same rules, is not graded again: a run can be stopped at any time.

    Args:
        submissions: a folder with a folder or notebook for each student.
        record: of the release.
        out: gets results/, feedback/, grades.csv, exercises.csv and report.html.
        rules: about what comes late.
        setting, scheduler, workers: as in spread.
        roster: a gradebook's export, whose rows grades.csv then has.
        begin: is told how many students there are; what it gives is called when one more is done.
        say: is told what the teacher should know.

    Returns:
        The results, by student.

    Raises:
        ValueError: nobody handed anything in; a roster that can't be read; students' code can't be run here.
        ConnectionError: the scheduler can't be reached.
    """
    found = find_submissions(submissions)
    one_more = begin(len(found))
    store, done = Store(out), {}

    def keep(graded: Graded) -> None:
        done[graded.student] = graded
        one_more()

    def to_do() -> Iterator[Work]:
        for submission in found:
            work = prepared(submission, record, rules, setting.course, store.secret())
            before = store.read(work.student, work.digest)
            if before is None:
                yield work
            else:
                keep(before)

    for graded in spread(to_do(), setting, scheduler=scheduler, workers=workers, say=say):
        store.write(graded)
        keep(graded)
    results = [done[submission.student] for submission in found]
    write_papers(results, record, out, roster, say)
    return results


def prepared(submission: Submission, record: Record, rules: Rules, course: str, secret: bytes) -> Work:
    """Read a student's files; what can't be read becomes a reason."""
    files, sums = [], []
    for file in submission.files:
        try:
            content = file.read()
            sums.append(hashlib.sha256(content).hexdigest())
            files.append(Handed(file.name, file.at, file.marked_late, read_notebook(content)))
        except Unreadable as error:
            files.append(Handed(file.name, file.at, file.marked_late, None, error.reason))
    what = [(file.name, file.at, file.marked_late, file.reason) for file in files]
    of = [submission.student, submission.remarks, what, sums, record.as_dict(), rules.due, rules.late_factor, course]
    digest = hashlib.sha256(json.dumps(of).encode()).hexdigest()
    about = (submission.student, tuple(files), submission.remarks, record)
    return Work(*about, rules.due, rules.late_factor, secret, digest)


def write_papers(
    results: list[Graded], record: Record, out: Path, roster: Path | None, say: Callable[[str], None]
) -> None:
    """Write the feedback pages, the gradebook's files and the report."""
    pages = out / "feedback"
    pages.mkdir(parents=True, exist_ok=True)
    for graded in results:
        write_whole(pages / page_name(graded.student), feedback_page(graded, record))
    write_whole(out / "report.html", class_report(results, record))
    for sentence in write_gradebook(results, record, out, roster):
        say(sentence)
