"""The `course` command: everything that the Makefile's targets do, without make. One file per subcommand."""

import argparse
import difflib
import os
import sys

from course_lib.about import version
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
    progress,
    release,
    run,
    start,
    test,
    test_versions,
)
from course_lib.command.root import CourseError, require

# In the order of the help. Each module has NAME, HELP, OWN_OPTIONS, arguments(parser) and run(args), and NEEDS where an
# extra must be installed: its name and the packages to look for. Heavy imports wait for run.
GROUPS = {
    "learn": (start, lab, progress),
    "check your code": (doctor,),
    "teach": (release, grade, hub),
    "maintain the course (in a clone)": (
        *(test, test_versions, run, exercises, book, figures, kernels),
        *(bench, doctor_bench, grade_bench, links, lock),
    ),
}
SUBCOMMANDS = tuple(module for modules in GROUPS.values() for module in modules)


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        argv: the words after `course`; None takes them from the command line.

    Returns:
        The exit status: 0 when all is well, 1 when a check failed, 2 when the command could not be carried out.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"course {version()}")
        return 0
    module = next((module for module in SUBCOMMANDS if words[0] == module.NAME), None)
    if module is None:
        print(f"course: {unknown(words[0])}", file=sys.stderr)
        return 2
    args = parse(module, words[1:])
    import course_lib.lessons.quick_start  # noqa: F401

    try:
        require(*getattr(module, "NEEDS", ("",)))
        return module.run(args)
    except CourseError as error:
        print(f"course {module.NAME}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def parse(module, words: list[str]) -> argparse.Namespace:
    """Read the words after a subcommand's name; those that are meant for another program are in `rest`."""
    parser = argparse.ArgumentParser(prog=f"course {module.NAME}", description=module.__doc__)
    if not module.OWN_OPTIONS:
        return argparse.Namespace(rest=words)
    module.arguments(parser)
    args, rest = parser.parse_known_args(words)
    args.rest = [word for word in rest if word != "--"]
    if args.rest and module is not lab:
        parser.error(f"unrecognized arguments: {' '.join(args.rest)}")
    return args


def overview() -> str:
    """Return the help: the subcommands by what they are for."""
    lines = ["usage: course COMMAND ...", "", "Attention, from one head to multi-query attention, in notebooks."]
    for title, modules in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {module.NAME:<14} {module.HELP}" for module in modules)]
    return "\n".join([*lines, "", "course COMMAND --help says more; course --version names the version."])


def unknown(word: str) -> str:
    """Say that there is no such subcommand, and which one was probably meant."""
    near = difflib.get_close_matches(word, [module.NAME for module in SUBCOMMANDS], n=1)
    meant = f" Did you mean `course {near[0]}`?" if near else ""
    return f"there is no command {word!r}.{meant} `course` alone lists them all."
