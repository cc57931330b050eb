"""Check the library, and run every lesson against its stored outputs: on the CPU and, with a GPU, on CUDA.

Use it before you commit. It prints a table with a line for each lesson and changes no file; `course test 03` checks
lesson 03 alone, each of its cells twice in one kernel. The options add what takes longer, or leave parts out.
"""

import argparse
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from course_lib.command import ensure_kernels, repository, sees_gpu
from tools.notebooks import SOLUTIONS, Lesson, Tally, find_notebooks, lesson_arguments, run_pytest

from . import book
from .run import choose_lessons

# The first two need more than Python, and have their own options; `make lint` runs the third.
SEPARATE = ("--ignore=tests/browser", "--ignore=tests/machines", "--ignore=tests/style")
EVERY_PAGE = "tests/browser/every_page.py"  # pytest takes no file of that name for tests unless it is told to
MOST_NAMED = 40  # failed tests of a row
ONCE = (
    "Each lesson ran once, 16 and 17 up to a cell that takes long; no notebook of solutions ran, as the tests judge "
    "each solution. make test-all runs them whole, and each cell twice in one kernel, as when Run All is pressed again."
)
NO_GPU = "The CUDA kernel was not checked: PyTorch sees no GPU on this machine."
NO_SANDBOX = "The sandbox of grading was not checked: install bubblewrap (Debian, Ubuntu: apt install bubblewrap)."
NO_BROWSER = "The book and JupyterLab were not opened in a browser: make test-all does that, with Chromium installed."
Row = tuple[str, str, Tally]  # what was checked, the kernel, the counts


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these lessons, such as 03_wrapper or 03")
    only = parser.add_mutually_exclusive_group()
    for part, help_ in (
        ("--library-only", "run the tests, not the lessons"),
        ("--lessons-only", "run the lessons, not the tests"),
        ("--browser", "also train models again, build the book, and drive it and JupyterLab in a browser"),
        ("--browser-only", "drive the browser through the built book and JupyterLab, nothing else"),
        ("--every-page", "look at every page of the built book in both themes and three widths, nothing else"),
        ("--long-only", "run the lessons that a plain test ends at a cell that takes long, nothing else"),
        ("--sandbox-only", "run the tests that need bubblewrap, nothing else"),
        ("--machines", "set the course up on bare machines, nothing else"),
    ):
        only.add_argument(part, action="store_true", help=help_)
    workers = min(4, os.cpu_count() or 1)
    parser.add_argument("--workers", type=int, default=workers, help="processes (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the checks and print the table; return 0 only when something ran and nothing failed."""
    root = repository()
    if args.machines:
        return run_pytest(root, ["tests/machines", "-q", "-s", "--no-header"]).status
    lessons = choose_lessons(find_notebooks(root), args.names)
    thorough = bool(args.names or args.browser)
    if not thorough:
        lessons = [lesson for lesson in lessons if lesson.folder.name != SOLUTIONS]
    rows = check_part(root, args, lessons)
    notes: list[str] = []
    built = ThreadPoolExecutor(1).submit(_build_book) if args.browser else None  # beside tests, many of which wait
    alone = bool(rows) or args.browser_only
    library = None  # its tests run beside the lessons: either waits now and then
    if not (alone or args.lessons_only or args.names):
        tests = root, "the library's tests", [*SEPARATE, "tests"], args.workers
        library = ThreadPoolExecutor(1).submit(check_tests, *tests)
        notes += [] if shutil.which("bwrap") else [NO_SANDBOX]
    if not (alone or args.library_only):
        gpu = sees_gpu()
        rows += check_lessons(root, lessons, args.workers, gpu, "twice" if thorough else "short", library is not None)
        notes = [*[ONCE] * (not thorough), *[NO_GPU] * (not gpu), *notes, *[NO_BROWSER] * (not args.browser)]
    if library is not None:
        rows.insert(0, library.result())
    if built is not None:
        rows.append(("the book", "", built.result()))
    if args.browser:
        slow = [*SEPARATE, "tests", "-m", "slow"]
        rows.append(check_tests(root, "what takes long", slow, args.workers, distribute="loadfile"))
    if args.browser or args.browser_only:  # JupyterLab's tests are one group
        every = ["-m", ""] if args.browser else []  # those that take long, too
        workers = args.workers + 1  # a page is waited for now and then
        rows.append(check_tests(root, "in a browser", ["tests/browser", *every], workers, distribute="loadgroup"))
    return report(rows, notes)


def check_part(root: Path, args: argparse.Namespace, lessons: list[Lesson]) -> list[Row]:
    """Run the one part that an option asks for alone, if any does, and return its rows."""
    if args.long_only:
        return check_lessons(root, [one for one in lessons if one.is_long], args.workers, sees_gpu(), "whole")
    if args.sandbox_only:
        return [check_tests(root, "the sandbox's tests", ["tests/grader", "-m", "sandbox"], args.workers)]
    if args.every_page:
        return [check_tests(root, "every page in a browser", [EVERY_PAGE], args.workers)]
    return []


def check_tests(root: Path, name: str, arguments: list[str], workers: int, distribute: str = "worksteal") -> Row:
    """Run pytest on a part of the tests and return its row of the table."""
    parallel = ["-n", str(workers), "--dist", distribute] if workers > 1 else []
    return name, "", run_pytest(root, [*arguments, "-q", "--no-header", *parallel], workers).total()


def check_lessons(
    root: Path, lessons: list[Lesson], workers: int, gpu: bool, cells: str, quiet: bool = False
) -> list[Row]:
    """Run nbval on the lessons with each kernel; return the table's rows.

    Args:
        root: the repository.
        lessons: what is run.
        workers: processes.
        gpu: whether to run them on CUDA, too.
        cells: "short" ends a lesson before a long cell, "whole" runs all cells, "twice" all of them two times.
        quiet: whether pytest prints only what failed.
    """
    if not lessons:
        return [("no lesson was found", "", Tally(failed=1))]
    ensure_kernels(gpu=gpu)
    rows: list[Row] = []
    for kernel in ("attention-cpu", "attention-cuda") if gpu else ("attention-cpu",):
        arguments = lesson_arguments(lessons, kernel, workers, cells)
        done = run_pytest(root, arguments, workers, quiet=quiet)
        for lesson in lessons:
            tally = done.files.get(lesson.label, Tally())
            tally.failed += tally.skipped  # nbval marks what follows a dead kernel as expected to fail
            tally.failed = tally.failed if tally.count else 1
            rows.append((lesson.label, kernel, tally))
        if done.status and not any(tally.failed for _, _, tally in rows):
            rows.append(("pytest broke off", kernel, Tally(failed=1)))
    return rows


def _build_book() -> Tally:
    start = time.perf_counter()
    built = book.run(argparse.Namespace()) == 0
    return Tally(passed=int(built), failed=int(not built), seconds=time.perf_counter() - start)


def report(rows: list[Row], notes: list[str]) -> int:
    """Print the table and the notes, and return the exit status."""
    print(f"\n{'lesson':<28} {'kernel':<15} {'checks':>6} {'seconds':>8}  verdict\n{'-' * 72}")
    for name, kernel, tally in rows:
        skipped = f", {tally.skipped} skipped" if tally.skipped and not kernel else ""
        print(f"{name:<28} {kernel:<15} {tally.count:>6} {tally.seconds:>8.1f}  {tally.verdict}{skipped}")
    print("\n".join(["", *notes]))
    for name, kernel, tally in rows:
        for failure in tally.failures[:MOST_NAMED]:
            print(f"FAILED {f'{name}, {kernel}' if kernel else name}, {failure}")
    passed, failed = sum(tally.passed for _, _, tally in rows), sum(tally.failed for _, _, tally in rows)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not rows or any(tally.count == 0 for _, _, tally in rows) else 0
