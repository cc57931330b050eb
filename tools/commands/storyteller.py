"""Train the storytellers that come with the course, or measure what each mistake does to one."""

import argparse
import tempfile
from pathlib import Path

from course_lib.command import CourseError, repository


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("forms", nargs="*", help="forms to train, such as multi-query (default: all)")
    parser.add_argument("--consequences", action="store_true", help="measure the mistakes instead")
    parser.add_argument("--sharing", action="store_true", help="train with keys shared across blocks instead")


def run(args: argparse.Namespace) -> int:
    """Store weights and card, or the table of consequences."""
    repository()
    from course_lib.stories import FORMS
    from tools.storyteller import measure_consequences, train_forms, train_sharing

    if unknown := [form for form in args.forms if form not in FORMS]:
        raise CourseError(f"there is no form {unknown[0]!r}; the forms are {', '.join(FORMS)}.")
    with tempfile.TemporaryDirectory() as scratch:
        if args.consequences:
            measure_consequences(Path(scratch))
        elif args.sharing:
            train_sharing()
        else:
            train_forms(args.forms or FORMS, Path(scratch))
    return 0
