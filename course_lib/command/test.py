"""Check everything: the library's tests, then every lesson on the CPU kernel and, with a GPU, on the CUDA one.

With --browser also what a reader opens: the web book, built anew, and JupyterLab, in a real browser.
With --machines instead what a beginner types: `make lab` and `make test` on machines that lack things, or have nothing.
"""

import argparse
import os
import shutil
import time

from course_lib.command.root import CourseError, repository
from course_lib.lessons.kernels import sees_gpu

NAME, HELP = "test", "check everything: the library's tests, then every lesson, on each kernel"
OWN_OPTIONS = True
NEEDS = ("dev", "pytest", "xdist", "nbval", "nbclient", "jupytext")

APART = ("--ignore=tests/browser", "--ignore=tests/machines")  # they need more than Python, and ask for it by an option
TWICE = "Each cell is checked twice in one kernel, as when Run All is pressed two times."
NO_GPU = "The CUDA kernel was not checked: PyTorch sees no GPU on this machine."
NO_SANDBOX = "The sandbox of grading was not checked: install bubblewrap (Debian, Ubuntu: apt install bubblewrap)."
NO_BROWSER = "The book and JupyterLab were not opened in a browser: make test-all does that, with Chromium installed."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these lessons, such as 03_wrapper or 03")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--library-only", action="store_true", help="run the tests, not the lessons")
    only.add_argument("--lessons-only", action="store_true", help="run the lessons, not the tests")
    only.add_argument(
        "--browser", action="store_true", help="also build the book, and drive it and JupyterLab in a browser"
    )
    only.add_argument("--browser-only", action="store_true", help="build the book and drive the browser, nothing else")
    only.add_argument("--sandbox-only", action="store_true", help="run the tests that need bubblewrap, nothing else")
    only.add_argument("--machines", action="store_true", help="set the course up on bare machines, nothing else")
    workers = min(4, os.cpu_count() or 1)
    parser.add_argument("--workers", type=int, default=workers, help="processes (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the checks and print the table; 0 only when something ran and nothing failed."""
    from course_lib.lessons.check import Tally, run_pytest
    from course_lib.lessons.discover import find_notebooks

    root = repository()
    if args.machines:
        return run_pytest(root, ["tests/machines", "-q", "-s", "--no-header"], 1).status
    try:
        lessons = find_notebooks(root, args.names)
    except ValueError as error:
        raise CourseError(str(error)) from None
    rows: list[tuple[str, str, Tally]] = []
    notes: list[str] = []
    parallel = ["-n", str(args.workers), "--dist", "worksteal"] if args.workers > 1 else []
    if args.sandbox_only:
        sandbox = run_pytest(root, ["tests/classroom", "-m", "sandbox", "-q", "--no-header", *parallel], args.workers)
        rows.append(("the sandbox's tests", "", sandbox.total()))
    elif not (args.lessons_only or args.browser_only or args.names):
        library = run_pytest(root, ["tests", *APART, "-q", "--no-header", *parallel], args.workers)
        rows.append(("the library's tests", "", library.total()))
        if shutil.which("bwrap") is None:
            notes.append(NO_SANDBOX)
    if not (args.library_only or args.browser_only or args.sandbox_only):
        lesson_rows, said = check_lessons(root, lessons, args.workers)
        rows += lesson_rows
        notes = [*said, *notes]
        if not args.browser:
            notes.append(NO_BROWSER)
    if args.browser or args.browser_only:
        rows += check_browser(root, args.workers)
    print(table(rows))
    for note in notes:
        print(note)
    passed, failed = sum(row.passed for _, _, row in rows), sum(row.failed for _, _, row in rows)
    nothing_ran = any(row.count == 0 for _, _, row in rows) or not rows
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or nothing_ran else 0


def check_lessons(root, lessons, workers):
    """Run nbval on the lessons with each kernel; return the table's rows and what must be said beside them."""
    from course_lib.lessons.check import Tally, lesson_arguments, run_pytest
    from course_lib.lessons.kernels import install_kernels, kernels_ready

    if not lessons:
        return [("no lesson was found", "", Tally(failed=1))], []
    gpu = sees_gpu()
    if not kernels_ready(gpu=gpu):
        install_kernels(gpu=gpu)
    rows, notes, kernels = [], [TWICE], ["attention-cpu"]
    if gpu:
        kernels.append("attention-cuda")
    else:
        notes.append(NO_GPU)
    for kernel in kernels:
        done = run_pytest(root, lesson_arguments(lessons, kernel, workers), workers)
        for lesson in lessons:
            tally = done.files.get(lesson.label, Tally())
            tally.failed += tally.skipped  # nbval marks what follows a dead kernel as expected to fail
            if not tally.count:
                tally.failed = 1
            rows.append((lesson.label, kernel, tally))
        if done.status and not any(row.failed for _, _, row in rows):
            rows.append(("pytest broke off", kernel, Tally(failed=1)))
    return rows, notes


def check_browser(root, workers):
    """Build the book, then drive it and JupyterLab in a browser; return the table's rows."""
    from course_lib.command import book
    from course_lib.lessons.check import Tally, run_pytest

    start = time.perf_counter()
    built = book.run(argparse.Namespace()) == 0
    row = ("the book", "", Tally(passed=built, failed=not built, seconds=time.perf_counter() - start))
    if not built:
        return [row]  # its pages are missing, or of another day
    parallel = ["-n", str(workers), "--dist", "loadgroup"] if workers > 1 else []  # JupyterLab's are one group
    done = run_pytest(root, ["tests/browser", "-q", "--no-header", *parallel], workers)
    return [row, ("the browser's tests", "", done.total())]


def table(rows) -> str:
    """Lay the results out: lesson, kernel, checks, seconds, verdict."""
    lines = ["", f"{'lesson':<28} {'kernel':<15} {'checks':>6} {'seconds':>8}  verdict", "-" * 72]
    for name, kernel, tally in rows:
        skipped = f", {tally.skipped} skipped" if tally.skipped and not kernel else ""
        lines.append(f"{name:<28} {kernel:<15} {tally.count:>6} {tally.seconds:>8.1f}  {tally.verdict}{skipped}")
    return "\n".join([*lines, ""])
