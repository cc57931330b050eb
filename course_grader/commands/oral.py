"""Make questions for five minutes with each student, about code that they handed in themselves, with the answers.

Students' code runs in a sandbox, as in `course grade`; no point is given or taken.
"""

import argparse
from pathlib import Path

from course_lib.about import version
from course_lib.command import CourseError
from course_lib.wording import counted


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("submissions", type=Path, metavar="FOLDER", help="holds a folder, a notebook or a zip per student")
    add("--week", required=True, metavar="NAME", help="the release: its name, or the folder that `course release` made")
    add("--out", required=True, type=Path, metavar="FILE", help="the page to write, such as oral.html")
    add("--image", metavar="NAME", help="run students' code in docker or podman, in this image with torch")
    add("--unsafe", action="store_true", help="go on without a sandbox if there is none: students' code runs as you")


def run(args: argparse.Namespace) -> int:
    """Write the page and say for whom there are questions."""
    from tqdm import tqdm

    from course_grader.manifest import find_manifest, read_manifest
    from course_grader.oral import oral_page, oral_sheets
    from course_grader.sandbox import ResourceLimits
    from course_grader.worker_config import WorkerConfig, sandboxes

    try:
        release = read_manifest(find_manifest(args.week, args.submissions))
        hidden = (str(args.submissions.resolve()), str(args.out.resolve().parent))
        config = WorkerConfig(ResourceLimits(), args.unsafe, args.image, hidden, version())
        with tqdm(unit="student", disable=None) as bar:
            sheets = oral_sheets(args.submissions, release, config, sandboxes(config)[1], bar.update)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(oral_page(sheets, release), encoding="utf-8")
    except (ValueError, OSError) as error:
        raise CourseError(str(error)) from None
    without = [sheet.student for sheet in sheets if not sheet.questions]
    print(f"{args.out}: questions for {counted(len(sheets) - len(without), 'student')}.")
    if without:
        print(f"Without questions, because no answer of theirs runs: {', '.join(without)}.")
    return 0
