"""The `course` command: everything that the Makefile's targets do, without make.

It is written with argparse, not with click or typer, so that it starts in a fraction of a second, and so that a learner
who has installed the library alone has it: the library needs torch, numpy, matplotlib and seaborn, and nothing else.
"""

import argparse
import difflib
import importlib
import os
import sys
from types import ModuleType

from course_lib.about import version

from .clone import CourseError, import_tool, install_hint, repository, require
from .kernels import ensure_kernels, sees_gpu
from .subcommands import GROUPS, SUBCOMMANDS, Subcommand

__all__ = ["CourseError", "ensure_kernels", "install_hint", "main", "repository", "sees_gpu"]


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand with the arguments after `course`; None takes them from the command line.

    Returns:
        The exit status: 0 when all is well, 1 when a check failed, 2 when the command could not run.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"course {version()}")
        return 0
    command = SUBCOMMANDS.get(arguments[0])
    if command is None:
        print(f"course: {unknown(arguments[0])}", file=sys.stderr)
        return 2
    try:
        module = load(command)
        return carry_out(command, module, parse(command, module, arguments[1:]))
    except CourseError as error:
        print(f"course {command.name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def load(command: Subcommand) -> ModuleType:
    """Import a subcommand's module.

    Raises:
        CourseError: it belongs to the tools that make the course, which only a clone holds.
    """
    return (import_tool if command.module.startswith("tools.") else importlib.import_module)(command.module)


def parse(command: Subcommand, module: ModuleType, arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments after a subcommand's name; those that are meant for another program are in `rest`."""
    parser = argparse.ArgumentParser(prog=f"course {command.name}", description=module.__doc__)
    module.arguments(parser)
    args, rest = parser.parse_known_args(arguments)
    args.rest = [argument for argument in rest if argument != "--"]
    if args.rest and not command.passes_on:
        parser.error(f"unrecognized arguments: {' '.join(args.rest)}")
    return args


def carry_out(command: Subcommand, module: ModuleType, args: argparse.Namespace) -> int:
    """Run a subcommand once everything that it needs is installed."""
    from . import fast_startup  # noqa: F401  # before Jupyter is imported

    require(command.extra, *command.packages.split())
    return module.run(args)


def overview() -> str:
    """Return the help, which groups the subcommands by purpose."""
    lines = ["usage: course COMMAND ...", "", "Attention, from one head to multi-query attention, in notebooks."]
    for title, (_, commands) in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<14} {about}" for name, about in commands.items())]
    return "\n".join([*lines, "", "course COMMAND --help says more; course --version names the version."])


def unknown(name: str) -> str:
    """Return the message on an unknown subcommand, with the subcommand that was probably meant."""
    near = difflib.get_close_matches(name, SUBCOMMANDS, n=1)
    meant = f" Did you mean `course {near[0]}`?" if near else ""
    return f"there is no command {name!r}.{meant} `course` alone lists them all."
