"""Carry the repository's address, which stands in pyproject.toml, to every link, badge and setup cell."""

import argparse

from course_lib.command.root import CourseError, repository

NAME, HELP = "links", "rewrite links, badges and setup cells from the address in pyproject.toml"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", nargs="?", metavar="owner/name", help="first make this the repository's address")
    parser.add_argument("--check", action="store_true", help="change nothing; say what is off and exit with 1")


def run(args: argparse.Namespace) -> int:
    """Rewrite or check, and name every file that was off."""
    from course_lib.lessons.address import read_address, rewrite_all, set_address

    root = repository()
    old = read_address(root).slug
    if args.address and args.check:
        raise CourseError("--check changes nothing, so it takes no address: leave one of the two out.")
    if args.address:
        try:
            set_address(root, args.address)
        except ValueError as error:
            raise CourseError(str(error)) from None
    off = rewrite_all(root, old, write=not args.check)
    for path in off:
        print(f"{'off' if args.check else 'rewritten'}: {path.relative_to(root)}")
    address = read_address(root)
    state = f"{len(off)} off" if args.check else f"{len(off)} rewritten"
    print(f"The address is github.com/{address.slug} at {address.ref}: {state}.")
    return 1 if args.check and off else 0
