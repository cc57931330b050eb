"""Grade what a class handed in: marks for the gradebook, a feedback page for each student, a report for the teacher.

Students' code runs in a sandbox. A run can be stopped at any time; the same command goes on where it was.
"""

import argparse
from datetime import datetime
from pathlib import Path

from course_lib.command.root import CourseError

NAME, HELP = "grade", "grade what a class handed in (FOLDER --week week1 --out DIR)"
OWN_OPTIONS = True
NEEDS = ("teach", "distributed", "safetensors", "jinja2", "tqdm", "jupytext")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to grade, the rules, and where it runs."""
    add = parser.add_argument
    add("submissions", type=Path, metavar="FOLDER", help="with a folder, a notebook or a zip for each student")
    add("--week", required=True, metavar="NAME", help="the release: its name, or the folder that `course release` made")
    add("--out", required=True, type=Path, metavar="DIR", help="gets grades.csv, feedback/ and report.html")
    add("--due", metavar="TIME", help="what comes later is late: 2026-11-20T18:00, in your time, or with +01:00")
    add(
        "--late-factor", type=float, default=1.0, metavar="F", help="late points times this (default: 1, a remark only)"
    )
    add("--roster", type=Path, metavar="CSV", help="your gradebook's export: grades.csv gets its rows and columns")
    add("--workers", type=int, metavar="N", help="processes on this machine (default: one a core)")
    add("--scheduler", metavar="ADDRESS", help="of your Dask cluster instead, such as tcp://10.0.0.1:8786")
    add(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="for a cell, and for one call of an answer (default: 10)",
    )
    add("--memory", type=float, default=2.0, metavar="GB", help="for a notebook, beyond Python and torch (default: 2)")
    add("--image", metavar="NAME", help="run students' code in docker or podman, in this image with torch")
    add("--unsafe", action="store_true", help="no sandbox, if there is none: students' code runs as you")


def run(args: argparse.Namespace) -> int:
    """Grade, and say where things are."""
    from tqdm import tqdm

    from course_lib.classroom.record import find_record, read_record
    from course_lib.classroom.sandbox import Limits, choose
    from course_lib.classroom.spread import Setting, course_version
    from course_lib.classroom.week import Rules, grade_week

    try:
        path = find_record(args.week, args.submissions)
        rules = Rules(_moment(args.due), args.late_factor)
        for option, value in (("--seconds", args.seconds), ("--memory", args.memory), ("--workers", args.workers)):
            if value is not None and not 0 < value < 1e6:
                raise ValueError(f"{option} is {value}: take a number above 0.")
        limits = Limits(args.seconds, args.seconds, 6 * args.seconds, int(args.memory * (1 << 30)))
        hidden = tuple(str(one.resolve()) for one in (args.submissions, args.out, path.parent))
        setting = Setting(limits, args.unsafe, args.image, hidden, course_version())
        record = read_record(path)
        bars = []

        def begin(total: int):
            """Look for a sandbox last: whoever named a wrong folder should hear of that first."""
            if args.scheduler is None:
                walls = choose(args.unsafe, args.image, map(Path, hidden))
                print(f"Students' code runs behind: {walls.name}.")
            bars.append(tqdm(total=total, unit="student", smoothing=0.05))
            return bars[0].update

        try:
            results = grade_week(
                args.submissions, record, args.out, rules, setting,
                scheduler=args.scheduler, workers=args.workers, roster=args.roster, begin=begin, say=tqdm.write,
            )  # fmt: skip
        finally:
            for bar in bars:
                bar.close()
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None
    _say(args.out, results)
    return 0


def _say(out: Path, results: list) -> None:
    from course_lib.classroom.papers.feedback import FOLDER, looked_at

    late = sum(graded.late for graded in results)
    look = sum(bool(looked_at(graded)) for graded in results)
    print(f"{len(results)} students; {late} with something late; {look} need your look (see report.html).")
    print(f"for the gradebook: {out / 'grades.csv'} (details: {out / 'exercises.csv'})")
    print(f"for the students:  {out / FOLDER}")
    print(f"for you:           {out / 'report.html'}")


def _moment(text: str | None) -> float | None:
    """A time as seconds since 1970; without a zone it is this machine's."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ValueError(
            f"--due is {text!r}, which is no time: write 2026-11-20T18:00 or 2026-11-20T18:00+01:00."
        ) from None
