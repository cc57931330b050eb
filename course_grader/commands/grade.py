"""Grade what a class handed in: marks for the gradebook, a feedback page for each student, a report for the teacher.

Students' code runs in a sandbox. A run can be stopped at any time; the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.about import version
from course_lib.command import CourseError
from course_lib.wording import counted

if TYPE_CHECKING:
    from course_grader.grading import GradingPolicy
    from course_grader.marks import StudentResult
    from course_grader.worker_config import WorkerConfig


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("submissions", type=Path, metavar="FOLDER", help="holds a folder, a notebook or a zip per student")
    add("--week", required=True, metavar="NAME", help="the release: its name, or the folder that `course release` made")
    add("--out", required=True, type=Path, metavar="DIR", help="receives grades.csv, feedback/ and report.html")
    add("--due", metavar="TIME", help="what comes later is late: 2026-11-20 (its end), or 2026-11-20T18:00[+01:00]")
    add(
        "--late-factor", type=float, default=1.0, metavar="F", help="multiplies late points (default: 1, a remark only)"
    )
    add("--parts", action="store_true", help="what is right in a wrong answer earns a part of its points")
    add("--helper-once", action="store_true", help="a wrong helper costs its own points, not those of what calls it")
    add("--extensions", type=Path, metavar="CSV", help="due times of single students: student,due (a time, or none)")
    add("--roster", type=Path, metavar="CSV", help="your gradebook's export: grades.csv gets its rows and columns")
    add("--again", nargs="*", metavar="STUDENT", help="grade these students again, or, without names, everybody")
    add("--workers", type=int, metavar="N", help="processes on this machine (default: one per core)")
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster to use instead, such as tcp://10.0.0.1:8786")
    add("--seconds", type=float, default=10.0, metavar="S", help="per cell, and per call of an answer (default: 10)")
    add("--memory", type=float, default=2.0, metavar="GB", help="per student, beyond Python and torch (default: 2)")
    add("--image", metavar="NAME", help="run students' code in docker or podman, in this image with torch")
    add("--unsafe", action="store_true", help="go on without a sandbox if there is none: students' code runs as you")


def run(args: argparse.Namespace) -> int:
    """Grade, and print where the results are."""
    from course_grader.pipeline import UPLOAD
    from course_grader.reports import FEEDBACK_FOLDER

    try:
        results = _grade(args)
    except PermissionError as error:
        raise CourseError(f"{error.filename} is closed to you ({error.strerror}): ask its owner, or copy it.") from None
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None
    late = sum(result.late for result in results)
    review = sum(bool(result.needs_review or result.flags) for result in results)
    print(f"{counted(len(results), 'student')}; {late} with something late; {review} need your look (see report.html).")
    print(f"for the gradebook: {args.out / 'grades.csv'} (details: {args.out / 'exercises.csv'})")
    print(f"for the students:  {args.out / FEEDBACK_FOLDER}")
    if (args.out / UPLOAD).exists():
        print(f"for the platform:  {args.out / UPLOAD} (the pages under the names that it gave)")
    print(f"for you:           {args.out / 'report.html'}")
    return 0


def _grade(args: argparse.Namespace) -> list[StudentResult]:
    from course_grader.worker_config import sandboxes, start_early

    config = _worker_config(args)
    if args.scheduler is None and args.submissions.is_dir():
        start_early(config, len(os.listdir(args.submissions)))
    gc.disable()  # it makes the imports a sixth slower
    from tqdm import tqdm

    from course_grader.decisions import parse_due
    from course_grader.grading import GradingPolicy
    from course_grader.manifest import find_manifest, read_manifest
    from course_grader.pipeline import grade_release

    gc.enable()
    due = parse_due(args.due, "--due") if args.due else None
    policy = GradingPolicy(due, args.late_factor, args.parts, args.helper_once)
    release = read_manifest(find_manifest(args.week, args.submissions))
    with contextlib.ExitStack() as stack:

        def begin(total: int) -> Callable[[], object]:
            """Look for a sandbox last, because a wrong folder should be reported first."""
            if args.scheduler is None:
                isolation = sandboxes(config)[0].isolation
                print(f"Students' code is isolated by: {isolation.name}.")
                if warning := isolation.warning():
                    print(warning)
            _print_remarks(policy)
            return stack.enter_context(tqdm(total=total, unit="student", smoothing=0.05)).update

        return grade_release(
            args.submissions,
            release,
            args.out,
            policy,
            config,
            scheduler=args.scheduler,
            workers=args.workers,
            roster=args.roster,
            extensions=args.extensions,
            again=args.again,
            begin=begin,
            say=tqdm.write,
        )


def _print_remarks(policy: GradingPolicy) -> None:
    if policy.due is not None:
        print(f"Due: {datetime.fromtimestamp(policy.due).astimezone():%A, %Y-%m-%d %H:%M:%S %Z (UTC%z)}.")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        print("You are root: Linux does not limit root's threads. Grade as an ordinary user if you can.")


def _worker_config(args: argparse.Namespace) -> WorkerConfig:
    from course_grader.manifest import find_manifest
    from course_grader.sandbox import ResourceLimits
    from course_grader.worker_config import WorkerConfig

    for option, value in (("--seconds", args.seconds), ("--memory", args.memory), ("--workers", args.workers)):
        if value is not None and not 0 < value < 1e6:
            raise ValueError(f"{option} is {value}: take a number above 0.")
    limits = ResourceLimits(args.seconds, args.seconds, 6 * args.seconds, int(args.memory * (1 << 30)))
    manifest = find_manifest(args.week, args.submissions)
    submissions, *others = (path.resolve() for path in (args.submissions, args.out, manifest.parent))
    if others[-1].is_relative_to(submissions):
        raise ValueError(
            f"--week is {manifest.parent}, which lies in {args.submissions} as if a student had handed it in: give the "
            "folder that holds only what students did."
        )
    hidden = tuple(map(str, (submissions, *others)))
    return WorkerConfig(limits, args.unsafe, args.image, hidden, version())
