"""Plant each known mistake into your own right code, run your tests, and say which of them no test catches.

The file on disk stays as it is: a mistake is planted where the tests import it. Importing a file runs it.
"""

import argparse
import json
from pathlib import Path

from .clone import CourseError

EXAMPLES = """\
examples:
  course mutate attention.py:MultiHeadAttention --tests test_attention.py
  course mutate model.py:attend --tests tests/ --json

The exit status is 0 if every mistake is caught, 1 if one survives, and 2 if the tests could not be run.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("target", metavar="FILE.py:NAME", help="a class or function at the top level of a file")
    parser.add_argument("--tests", nargs="+", required=True, metavar="TEST", help="files or folders for pytest")
    parser.add_argument("--json", action="store_true", help="write the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Print a line for each planted mistake, and how many survive."""
    import torch  # noqa: F401  # once here, and not in each of the processes that run the tests

    from course_lib.mutations import plantings, survival

    file, colon, name = args.target.rpartition(":")
    if not colon:
        raise CourseError(f"target is {args.target!r}: name a file and what is in it, as in attention.py:MyAttention.")
    try:
        planted = plantings(Path(file), name)
        if not planted:
            raise CourseError(f"No known mistake can be planted into {name}: is it attention?")
        outcomes = []
        for outcome in survival(Path(file), planted, args.tests):
            outcomes.append(outcome)
            if not args.json:
                where = f"{file}:{outcome.planted.line}"
                said = f"caught by {outcome.caught_by}" if outcome.caught_by else f"SURVIVES  `{outcome.planted.text}`"
                print(f"{outcome.planted.mistake:28} {where:24} {said}", flush=True)
    except ValueError as error:
        raise CourseError(f"{error}.") from None
    alive = [one for one in outcomes if one.caught_by is None]
    if args.json:
        rows = [
            {"mistake": one.planted.mistake, "line": one.planted.line, "caught_by": one.caught_by} for one in outcomes
        ]
        print(json.dumps(rows, indent=1))
    else:
        print(f"{len(outcomes) - len(alive)} of {len(outcomes)} planted mistakes are caught.")
    return 1 if alive else 0
