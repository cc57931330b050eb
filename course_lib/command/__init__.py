"""The ``course`` command: everything the Makefile's targets do, for who has no make. One file a subcommand."""

import argparse
import sys

from course_lib.command import (
    bench,
    book,
    doctor,
    doctor_bench,
    exercises,
    figures,
    grade,
    grade_bench,
    hub,
    kernels,
    lab,
    links,
    lock,
    release,
    run,
    test,
    test_versions,
)
from course_lib.command.root import CourseError

# In the order of the help. Each module has NAME, HELP, arguments(parser) and run(args); heavy imports wait for run.
SUBCOMMANDS = (
    lab,
    doctor,
    test,
    test_versions,
    book,
    run,
    exercises,
    release,
    grade,
    grade_bench,
    hub,
    kernels,
    links,
    bench,
    doctor_bench,
    figures,
    lock,
)


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        argv: the words after ``course``; None takes them from the command line.

    Returns:
        The exit status: 0 when all is well, 1 when a check failed, 2 when the command could not be carried out.
    """
    parser = argparse.ArgumentParser(prog="course", description="From one attention head to multi-query attention.")
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    passed_on = {}
    for module in SUBCOMMANDS:
        about = {"help": module.HELP, "description": module.__doc__, "add_help": module.OWN_OPTIONS}
        sub = subparsers.add_parser(module.NAME, **about)
        module.arguments(sub)
        passed_on[module.NAME] = not module.OWN_OPTIONS
    words = sys.argv[1:] if argv is None else list(argv)
    if words and passed_on.get(words[0]):
        args, args.rest = parser.parse_args(words[:1]), words[1:]
    else:
        args, rest = parser.parse_known_args(words)
        args.rest = [word for word in rest if word != "--"]
        if args.rest and args.subcommand != lab.NAME:
            parser.error(f"unrecognized arguments: {' '.join(args.rest)}")
    import course_lib.lessons.quick_start  # noqa: F401

    module = next(module for module in SUBCOMMANDS if args.subcommand == module.NAME)
    try:
        return module.run(args)
    except CourseError as error:
        print(f"course {module.NAME}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
